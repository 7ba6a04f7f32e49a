package keyscope

import (
	"slices"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/query"
	"github.com/cleavestore/cleave/internal/synthetickey"
	"github.com/cleavestore/cleave/partmap"
)

func join(t *testing.T, values ...string) partmap.Key {
	t.Helper()
	var levels []partmap.Key
	for _, v := range values {
		levels = append(levels, partmap.String(v))
	}
	key, err := partmap.Join(levels...)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

var twoLevels = Definition{Levels: 2, Sources: []string{"/a", "/b"}, Text: "/a,/b"}

// is is the condition that the value at a path is one of some strings.
func is(path string, values ...string) *query.Filter {
	f := &query.Filter{Op: query.In, Path: jsondoc.KeyPath(path)}
	for _, v := range values {
		f.Values = append(f.Values, query.Value{Kind: jsondoc.KindString, Text: v})
	}
	return f
}

func both(f ...*query.Filter) *query.Filter { return &query.Filter{Op: query.And, Sub: f} }

// TestCheck: scopes that a container does not have are refused, and a prefix of all levels
// is one logical partition.
func TestCheck(t *testing.T) {
	for _, tc := range []struct {
		of   Scope
		want Kind
		bad  string // part of the error
	}{
		{Scope{Kind: One, Key: join(t, "x", "y")}, One, ""},
		{Scope{Kind: Prefix, Key: join(t, "x")}, Prefix, ""},
		{Scope{Kind: Prefix, Key: join(t, "x", "y")}, One, ""},
		{Scope{Kind: Prefix, Key: join(t, "x", "y", "z")}, Prefix, "3 levels"},
		{Scope{Kind: Prefix}, Prefix, "0 levels"},
		{Scope{Kind: Base, Key: join(t, "x")}, Base, "/a,/b"},
		{Scope{Kind: All}, All, ""},
		{Scope{}, None, "none is given"},
	} {
		got, err := tc.of.Check(&twoLevels)
		if got.Kind != tc.want || (err == nil) != (tc.bad == "") || err != nil && !strings.Contains(err.Error(), tc.bad) {
			t.Errorf("%v: %v, %v", tc.of, got, err)
		}
	}
}

// TestNarrow: what a filter demands of the levels of a key narrows the scope, and no
// further.
func TestNarrow(t *testing.T) {
	for _, tc := range []struct {
		name string
		of   Scope
		f    *query.Filter
		want string
	}{
		{"nothing known", Scope{Kind: All}, is("/c", "z"), "all partitions"},
		{"second level only", Scope{Kind: All}, is("/b", "y"), "all partitions"},
		{"first level", Scope{Kind: All}, is("/a", "x"), `prefix ["x"]`},
		{"both levels", Scope{Kind: All}, both(is("/a", "x"), is("/b", "y")), `partition ["x","y"]`},
		{"rest of a prefix", Scope{Kind: Prefix, Key: join(t, "x")}, is("/b", "y"), `partition ["x","y"]`},
		{"one partition", Scope{Kind: One, Key: join(t, "x", "y")}, is("/a", "z"), `partition ["x","y"]`},
		{"same value twice", Scope{Kind: All}, is("/a", "x", "x"), `prefix ["x"]`},
	} {
		n := tc.of.Narrow(&twoLevels, tc.f)
		if got := strings.ReplaceAll(n.String(), `prefix "x"`, `prefix ["x"]`); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
	n := Scope{Kind: All}.Narrow(&twoLevels, is("/a", "r", "q", "p"))
	if len(n.Beginnings) != 3 || !slices.IsSortedFunc(n.Beginnings, partmap.Key.Compare) || !strings.HasPrefix(n.String(), "3 keys of all partitions: ") {
		t.Errorf("several values: %s", &n)
	}
}

// TestSynthetic: a base value stands for one key of each suffix; a filter on the base value
// finds them, and one on all sources finds the one.
func TestSynthetic(t *testing.T) {
	rule := &synthetickey.Rule{Join: []string{"/a"}, Suffixes: 5, SuffixOf: "/id"}
	d := Definition{Levels: 1, Sources: rule.Sources(), Rule: rule, Text: rule.String()}
	base, err := Scope{Kind: Base, Key: join(t, "x")}.Check(&d)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := base.Keys(&d)
	if err != nil || len(keys) != 5 || !slices.IsSortedFunc(keys, partmap.Key.Compare) {
		t.Fatalf("%v, %v", keys, err)
	}
	if n := (Scope{Kind: All}).Narrow(&d, is("/a", "x")); n.Scope != base {
		t.Errorf("the base value is known: %s", &n)
	}
	n := Scope{Kind: All}.Narrow(&d, both(is("/a", "x"), is("/id", "7")))
	if n.Kind != One || !slices.Contains(keys, n.Key) || !base.Holds(&d, n.Key) {
		t.Errorf("all sources are known: %s", &n)
	}
	if list, apart, err := n.Lists(&d); list != nil || apart || err != nil {
		t.Errorf("one key: %v, %v, %v", list, apart, err)
	}
	if other := join(t, "x"); base.Holds(&d, other) {
		t.Error("the base value itself is no key")
	}
}

// TestBetween: a range is a scope that a filter narrows to keys, not to another kind, and
// ranges that hold nothing are refused.
func TestBetween(t *testing.T) {
	s, err := Scope{Kind: All}.Between("10", "")
	if err != nil || s.Kind != Part || s.Whole().Kind != All || s.String() != "range [10,FF)" {
		t.Fatalf("%v: %v", s, err)
	}
	if got, err := s.Check(&twoLevels); got != s || err != nil {
		t.Errorf("%v: %v", got, err)
	}
	if n := s.Narrow(&twoLevels, is("/a", "x")); n.Scope != s || len(n.Beginnings) != 1 {
		t.Errorf("narrowed: %s", &n)
	}
	if b, err := s.Bounds(); b != s.Within || err != nil {
		t.Errorf("bounds %v: %v", b, err)
	}
	key := join(t, "x", "y")
	epk := key.EPK()
	if s.Holds(&twoLevels, key) != s.Within.Contains(&epk) {
		t.Errorf("%v holds %v, whose EPK is %s", s, key, epk.String())
	}
	if part, err := s.Between("", "20"); err != nil || part.String() != "range [10,20)" {
		t.Errorf("what of %v lies before 20: %v, %v", s, part, err)
	}
	if part, err := s.Between("", "10"); err == nil {
		t.Errorf("what of %v lies before 10: %v", s, part)
	}
	for _, bad := range [][2]string{{"20", "10"}, {"10", "10"}, {"1", ""}, {"", "g0"}} {
		if s, err := (Scope{Kind: All}).Between(bad[0], bad[1]); err == nil {
			t.Errorf("%q: %v", bad, s)
		}
	}
}

// TestPrefixBetween: of a prefix a range can be taken. A continuation is good for the whole prefix, and a filter that names the rest of
// the key leaves the range as it is.
func TestPrefixBetween(t *testing.T) {
	prefix := Scope{Kind: Prefix, Key: join(t, "x")}
	bounds, err := prefix.Bounds()
	if err != nil {
		t.Fatal(err)
	}
	var keys []partmap.Key
	for _, second := range []string{"a", "b", "c", "d"} {
		keys = append(keys, join(t, "x", second))
	}
	slices.SortFunc(keys, partmap.Key.Compare)
	from, to := keys[1].EPK(), keys[3].EPK()
	s, err := prefix.Between(from.String(), to.String())
	if err != nil || s.Kind != Prefix || s.Whole() != prefix || !strings.HasPrefix(s.String(), `prefix "x" in [`) {
		t.Fatalf("%v: %v", s, err)
	}
	for i, key := range keys {
		if got := s.HoldsEncoded(key.Encoded()); got != (i == 1 || i == 2) {
			t.Errorf("key %d is held: %v", i, got)
		}
	}
	if other := join(t, "y", "a"); s.HoldsEncoded(other.Encoded()) || prefix.HoldsEncoded(other.Encoded()) {
		t.Error("a key with another beginning is held")
	}
	if got, err := s.Bounds(); err != nil || got != (partmap.Range{Min: from, Max: to}) {
		t.Errorf("%v: %v", got, err)
	}
	wide, err := prefix.Between("", "")
	if got, failed := wide.Bounds(); err != nil || failed != nil || got != bounds {
		t.Errorf("%v, want %v: %v, %v", got, bounds, err, failed)
	}
	first := bounds.Min.String()
	none, err := prefix.Between("", first)
	if got, failed := none.Bounds(); err != nil || failed != nil || !got.Empty() {
		t.Errorf("%v: %v, %v", got, err, failed)
	}
	if n := s.Narrow(&twoLevels, is("/b", "a")); n.Kind != One || n.Within != s.Within || n.HoldsEncoded(join(t, "x", "a").Encoded()) != s.HoldsEncoded(join(t, "x", "a").Encoded()) {
		t.Errorf("narrowed: %s", &n)
	}
	for _, bad := range []Scope{{}, {Kind: Base, Key: join(t, "x")}} {
		if s, err := bad.Between("", ""); err == nil {
			t.Errorf("of %v: %v", bad, s)
		}
	}
}
