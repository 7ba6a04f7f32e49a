package synthetickey

import (
	"strings"
	"testing"

	"github.com/cleavestore/cleave/partmap"
)

// TestKeys: the key of a document is one of the keys of its base value, whichever way its
// suffix is found, and of no other one.
func TestKeys(t *testing.T) {
	values, err := partmap.Join(partmap.String("mon"), partmap.Number(7), partmap.String("id"))
	if err != nil {
		t.Fatal(err)
	}
	base, err := partmap.Join(partmap.String("mon"), partmap.Number(7))
	if err != nil {
		t.Fatal(err)
	}
	other, err := partmap.Join(partmap.String("mon"), partmap.Number(8))
	if err != nil {
		t.Fatal(err)
	}
	paths := []string{"/day", "/n"}
	for _, tc := range []struct {
		rule   Rule
		values partmap.Key
		text   string
	}{
		{Rule{Join: paths}, base, "/day|/n"},
		{Rule{Join: paths, Suffixes: 4}, base, "/day|/n|1…4 at random"},
		{Rule{Join: paths, Suffixes: 4, SuffixOf: "/id"}, values, "/day|/n|1…4 of /id"},
	} {
		if err := tc.rule.Check(); err != nil || tc.rule.String() != tc.text {
			t.Errorf("%v: %v", &tc.rule, err)
		}
		if !tc.rule.Equal(tc.rule.Clone()) || tc.rule.Equal(nil) {
			t.Errorf("%v is not equal to its clone", &tc.rule)
		}
		keys, err := tc.rule.Keys(base)
		if err != nil || len(keys) != max(1, tc.rule.Suffixes) {
			t.Fatalf("%v: %d keys, %v", &tc.rule, len(keys), err)
		}
		seen := make(map[partmap.Key]bool)
		for range 200 {
			key, err := tc.rule.Key(tc.values)
			if err != nil {
				t.Fatal(err)
			}
			seen[key] = true
		}
		for _, key := range keys {
			if tc.rule.Random() && (!seen[key] || !tc.rule.Makes(key, base.Encoded()) || tc.rule.Makes(key, other.Encoded())) {
				t.Errorf("%v: key %s", &tc.rule, key)
			}
			delete(seen, key)
		}
		if len(seen) > 0 {
			t.Errorf("%v: keys of other base values: %v", &tc.rule, seen)
		}
	}
}

// TestCheck refuses what is no rule, and keys that are too long.
func TestCheck(t *testing.T) {
	for name, rule := range map[string]Rule{
		"one path":             {Join: []string{"/a"}},
		"four paths":           {Join: []string{"/a", "/b", "/c", "/d"}},
		"three and a suffix":   {Join: []string{"/a", "/b", "/c"}, Suffixes: 2, SuffixOf: "/d"},
		"a suffix of nothing":  {Join: []string{"/a", "/b"}, SuffixOf: "/c"},
		"one suffix":           {Join: []string{"/a"}, Suffixes: 1},
		"very many suffixes":   {Join: []string{"/a"}, Suffixes: maxSuffixes + 1},
		"less than no suffix":  {Join: []string{"/a"}, Suffixes: -1},
		"no path and a suffix": {Suffixes: 2},
	} {
		if err := rule.Check(); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	long := partmap.String(strings.Repeat("x", partmap.MaxString))
	r := Rule{Join: []string{"/a"}, Suffixes: 2}
	if _, err := r.Key(long); err == nil {
		t.Error("a key that is too long")
	}
	if _, err := r.Keys(long); err == nil {
		t.Error("keys that are too long")
	}
	if !(*Rule)(nil).Equal(nil) || (*Rule)(nil).Random() || (*Rule)(nil).Clone() != nil {
		t.Error("no rule is a rule")
	}
}

// TestEqual: rules of the same paths are the same, however the paths are written.
func TestEqual(t *testing.T) {
	r := Rule{Join: []string{"/a/b", "/c"}, Suffixes: 4, SuffixOf: "/id"}
	for _, tc := range []struct {
		rule Rule
		want bool
	}{
		{Rule{Join: []string{`/"a"/b`, `/"c"`}, Suffixes: 4, SuffixOf: `/"id"`}, true},
		{Rule{Join: []string{`/"a/b"`, "/c"}, Suffixes: 4, SuffixOf: "/id"}, false},
		{Rule{Join: []string{"/a/b", "/c"}, Suffixes: 4, SuffixOf: "/i"}, false},
		{Rule{Join: []string{"/a/b", "/c"}, Suffixes: 4}, false},
		{Rule{Join: []string{"/a/b", "/c"}, Suffixes: 5, SuffixOf: "/id"}, false},
	} {
		if r.Equal(&tc.rule) != tc.want || tc.rule.Equal(&r) != tc.want {
			t.Errorf("%v is %v: %v, want %v", &tc.rule, &r, !tc.want, tc.want)
		}
	}
}
