package definition

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/synthetickey"
	"github.com/cleavestore/cleave/segment"
)

// full is a definition that says something in every field.
func full() Def {
	return Def{
		PartitionKey: []string{"/a", "/b/c"}, Compression: segment.Small, MinPartitions: 3, DefaultTTL: NoExpiry, MutableTTL: true, Throughput: 500, NoBurst: true,
		Limits:          Limits{ItemBytes: 1, LogicalPartitionBytes: 2, BatchOperations: 3, BatchBytes: 4, PartitionThroughput: 5e3, LogicalPartitionThroughput: 6},
		ChangeRetention: time.Hour, Index: index.Policy{Include: []string{"/*"}, Exclude: []string{"/x/?"}}, UniqueKeys: [][]string{{"/u"}, {"/v", "/w"}},
	}
}

// TestDefaults: what a short definition stands for.
func TestDefaults(t *testing.T) {
	d := Def{Kind: Opaque}
	if err := d.Check("c"); err != nil {
		t.Fatal(err)
	}
	want := Def{
		Kind: Opaque, PartitionKey: []string{"/key"}, MinPartitions: 1,
		Limits: Limits{ItemBytes: 2 << 20, LogicalPartitionBytes: 20 << 30, BatchOperations: 100, BatchBytes: 2 << 20, PartitionThroughput: 10_000},
	}
	if d.Index, d.UniqueKeys = (index.Policy{}), nil; !reflect.DeepEqual(d, want) {
		t.Errorf("%+v", d)
	}
}

// TestRefused: what Check refuses, and at which value.
func TestRefused(t *testing.T) {
	for _, tc := range []struct {
		says   string
		change func(*Def)
	}{
		{"kind 2", func(d *Def) { d.Kind = 2 }},
		{"compression 3", func(d *Def) { d.Compression = 3 }},
		{"4 partition key paths", func(d *Def) { d.PartitionKey = []string{"/a", "/b", "/c", "/d"} }},
		{"0 partition key paths", func(d *Def) { d.PartitionKey = nil }},
		{"both PartitionKey and Synthetic", func(d *Def) { d.Synthetic = &synthetickey.Rule{Join: []string{"/a", "/b"}} }},
		{"Synthetic: documents of an opaque", func(d *Def) {
			*d = Def{Kind: Opaque, Synthetic: &synthetickey.Rule{Join: []string{"/a", "/b"}}}
		}},
		{"paths", func(d *Def) { *d = Def{Synthetic: &synthetickey.Rule{Join: []string{"/a"}}} }},
		{"MinPartitions 65537: between 1 and 65536", func(d *Def) { d.MinPartitions = MaxPartitions + 1 }},
		{"MinPartitions -1", func(d *Def) { d.MinPartitions = -1 }},
		{"DefaultTTL 999µs", func(d *Def) { d.DefaultTTL = time.Millisecond - time.Microsecond }},
		{"DefaultTTL -2ns", func(d *Def) { d.DefaultTTL = -2 }},
		{"ChangeRetention of a replicated", func(d *Def) { d.MutableTTL, d.Replicated = false, true }},
		{"ChangeRetention 999ms", func(d *Def) { d.ChangeRetention = 999 * time.Millisecond }},
		{"ChangeRetention -1s", func(d *Def) { d.ChangeRetention = -time.Second }},
		{"Limits.ItemBytes 3145729", func(d *Def) { d.Limits.ItemBytes = MaxItemBytes + 1 }},
		{"Limits.LogicalPartitionBytes -1", func(d *Def) { d.Limits.LogicalPartitionBytes = -1 }},
		{"Limits.LogicalPartitionBytes 9", func(d *Def) { d.Limits.LogicalPartitionBytes = math.MaxInt64 }},
		{"Limits.BatchOperations 10001", func(d *Def) { d.Limits.BatchOperations = MaxBatchOperations + 1 }},
		{"Limits.BatchBytes 4194305", func(d *Def) { d.Limits.BatchBytes = maxBatchBytes + 1 }},
		{"Limits.PartitionThroughput 0.5", func(d *Def) { d.Limits.PartitionThroughput = 0.5 }},
		{"Limits.PartitionThroughput NaN", func(d *Def) { d.Limits.PartitionThroughput = math.NaN() }},
		{"Limits.LogicalPartitionThroughput: throughput of 0.5", func(d *Def) { d.Limits.LogicalPartitionThroughput = 0.5 }},
		{"throughput of -1", func(d *Def) { d.Throughput = -1 }},
		{"throughput of 1e+12", func(d *Def) { d.Throughput = 1e12 }},
		{"/*", func(d *Def) { d.Index.Include = []string{"/a/*/*"} }},
		{"index policy: documents of an opaque", func(d *Def) { *d = Def{Kind: Opaque, Index: index.All()} }},
		{"unique keys: documents of an opaque", func(d *Def) { *d = Def{Kind: Opaque, UniqueKeys: [][]string{{"/u"}}} }},
		{"unique key", func(d *Def) { d.UniqueKeys = [][]string{{}} }},
	} {
		d := full()
		tc.change(&d)
		if err := d.Check("c"); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v", tc.says, err)
		}
	}
	for name, ok := range map[string]bool{
		"c": true, strings.Repeat("c", 255): true, strings.Repeat("c", 256): false, "": false, "a/b": false, `a\b`: false, "a#": false, "a?": false, "a\n": false, "\xff": false,
	} {
		if d := full(); (d.Check(name) == nil) != ok {
			t.Errorf("name %q: %v", name, d.Check(name))
		}
	}
}

// TestChecked: a definition that Check has accepted shares no memory with the caller's.
func TestChecked(t *testing.T) {
	given := full()
	d := given
	if err := d.Check("c"); err != nil {
		t.Fatal(err)
	}
	given.PartitionKey[0], given.Index.Include[0], given.Index.Exclude[0], given.UniqueKeys[0][0] = "!", "!", "!", "!"
	if want := full(); !reflect.DeepEqual(d, want) {
		t.Errorf("%+v, want %+v", d, want)
	}
	rule := &synthetickey.Rule{Join: []string{"/a", "/b"}}
	d = Def{Synthetic: rule}
	if err := d.Check("c"); err != nil {
		t.Fatal(err)
	}
	if rule.Join[0] = "!"; d.KeyText() != "/a|/b" {
		t.Error(d.KeyText())
	}
}

// TestManifest: a definition comes back from the manifest as it was, and a manifest of a
// newer program is refused.
func TestManifest(t *testing.T) {
	synthetic := Def{Synthetic: &synthetickey.Rule{Join: []string{"/a"}, Suffixes: 7, SuffixOf: "/id"}, Replicated: true, DefaultTTL: time.Minute}
	for _, d := range []Def{full(), {Kind: Opaque, PartitionKey: []string{"/k"}}, synthetic} {
		if err := d.Check("c"); err != nil {
			t.Fatal(err)
		}
		m := d.Manifest(7, "c")
		if m.ID != 7 || m.Name != "c" || m.Levels != max(1, len(d.PartitionKey)) {
			t.Errorf("%+v", m)
		}
		back, err := FromManifest(&m, d.MinPartitions)
		if err != nil || !reflect.DeepEqual(back, d) {
			t.Errorf("%+v, want %+v: %v", back, d, err)
		}
		broken := m
		broken.Kind = "graph"
		if _, err := FromManifest(&broken, 1); !errors.Is(err, fault.ErrTooNew) {
			t.Errorf("kind: %v", err)
		}
		broken = m
		broken.Compression = "smaller"
		if _, err := FromManifest(&broken, 1); !errors.Is(err, fault.ErrTooNew) {
			t.Errorf("compression: %v", err)
		}
		broken = m
		broken.MaxItemBytes = -1
		if _, err := FromManifest(&broken, 1); err == nil || errors.Is(err, fault.ErrTooNew) {
			t.Errorf("a limit: %v", err)
		}
	}
	for ttl, millis := range map[time.Duration]int64{NoExpiry: -1, 0: 0, time.Second: 1000} {
		if Millis(ttl) != millis || Duration(millis) != ttl {
			t.Errorf("%v: %d and %v", ttl, Millis(ttl), Duration(millis))
		}
	}
}

// TestCompile: what follows from a definition.
func TestCompile(t *testing.T) {
	d := full()
	c, err := d.Compile()
	if err != nil || c.Keys.Levels != 2 || c.Keys.Text != "/a,/b/c" || c.Unique.Len() != 2 || c.Index == nil || c.Paths == nil {
		t.Errorf("%+v: %v", c, err)
	}
	d = Def{Synthetic: &synthetickey.Rule{Join: []string{"/a"}, Suffixes: 7, SuffixOf: "/s"}}
	if c, err = d.Compile(); err != nil || c.Keys.Levels != 1 || len(c.Keys.Sources) != 2 || c.Keys.Rule != d.Synthetic || c.Unique != nil || c.Index != nil {
		t.Errorf("%+v: %v", c, err)
	}
	d = Def{PartitionKey: []string{"a"}}
	if _, err = d.Compile(); err == nil {
		t.Error("a path without a slash is taken")
	}
}

// TestManyPatterns: an index policy with more patterns than one that is set may have is good in a store that has it.
func TestManyPatterns(t *testing.T) {
	d := Def{PartitionKey: []string{"/k"}}
	for i := range maxPatterns {
		d.Index.Include = append(d.Index.Include, fmt.Sprintf("/m%d/?", i))
	}
	if err := CheckPatterns(d.Index); err != nil {
		t.Error(err)
	}
	d.Index.Exclude = []string{"/*"}
	if err := CheckPatterns(d.Index); err == nil {
		t.Error("one pattern more is taken")
	}
	if c, err := d.Compile(); err != nil || c.Index == nil {
		t.Error(err)
	}
}

// TestCompare: every field but MinPartitions is compared, and what is zero asks for
// nothing.
func TestCompare(t *testing.T) {
	have := full()
	have.NoBurst, have.MutableTTL = false, false
	if d := have.Compare(&have); d != nil {
		t.Errorf("itself: %+v", d)
	}
	asked := Def{PartitionKey: have.PartitionKey, UniqueKeys: have.UniqueKeys, MinPartitions: 9, Index: index.Policy{Include: []string{"/*"}, Exclude: []string{"/x/?"}}}
	if d := have.Compare(&asked); d != nil {
		t.Errorf("what is zero: %+v", d)
	}
	fields := 0
	var walk func(prefix string, t reflect.Type)
	walk = func(prefix string, typ reflect.Type) {
		for i := range typ.NumField() {
			f := typ.Field(i)
			if f.Name == "Limits" {
				walk("Limits.", f.Type)
				continue
			}
			if f.Name == "MinPartitions" {
				continue
			}
			fields++
			other := have
			v := reflect.ValueOf(&other).Elem()
			if prefix != "" {
				v = v.FieldByName("Limits")
			}
			switch v := v.Field(i); f.Name {
			case "PartitionKey":
				other.PartitionKey = []string{"/z"}
			case "Synthetic":
				other.PartitionKey, other.Synthetic = nil, &synthetickey.Rule{Join: []string{"/a", "/b"}}
			case "Index":
				other.Index = index.All()
			case "UniqueKeys":
				other.UniqueKeys = nil
			case "Compression":
				other.Compression = segment.None
			case "NoBurst", "Replicated", "MutableTTL":
				v.SetBool(true)
			case "Kind":
				v.SetUint(1)
			default:
				if v.CanFloat() {
					v.SetFloat(v.Float() + 1)
				} else {
					v.SetInt(int64(90 * time.Second))
				}
			}
			d := have.Compare(&other)
			if d == nil || d.Field != prefix+f.Name && f.Name != "Synthetic" || d.Have == d.Asked || d.Change == "" {
				t.Errorf("%s%s: %+v", prefix, f.Name, d)
			}
		}
	}
	walk("", reflect.TypeFor[Def]())
	if fields < 17 {
		t.Errorf("%d fields", fields)
	}
	d := have.Compare(&Def{PartitionKey: have.PartitionKey, UniqueKeys: have.UniqueKeys, DefaultTTL: time.Minute})
	if d == nil || d.Have != "NoExpiry" || d.Asked != "1m0s" {
		t.Errorf("%+v", d)
	}
	none := full()
	none.Index = index.Policy{}
	if d := none.Compare(&have); d == nil || d.Have != "of nothing" || d.Asked != "/* without /x/?" {
		t.Errorf("%+v", d)
	}
}

// TestAdvice: the way to change a part of a definition is one that takes it.
func TestAdvice(t *testing.T) {
	with := func(change func(*Def)) *Def {
		d := Def{PartitionKey: []string{"/a"}}
		change(&d)
		return &d
	}
	unique := [][]string{{"/u"}}
	for _, tc := range []struct {
		have, asked *Def
		want        string
	}{
		{with(func(d *Def) {}), with(func(d *Def) { d.PartitionKey = []string{"/b"} }), "CopyTo or pbench copy makes another"},
		{with(func(d *Def) {}), with(func(d *Def) { d.NoBurst = true }), "Container.CopyTo makes another"}, // pbench copy changes the key only
		{with(func(d *Def) { d.UniqueKeys = unique }), with(func(d *Def) {}), "CopyTo makes another"},
		{with(func(d *Def) { d.UniqueKeys = unique }), with(func(d *Def) { d.UniqueKeys, d.DefaultTTL = unique, time.Hour }), "load the items"},
		{with(func(d *Def) {}), with(func(d *Def) { d.UniqueKeys = unique }), "load the items"},
		{with(func(d *Def) {}), with(func(d *Def) { d.PartitionKey, d.UniqueKeys = []string{"/b"}, unique }), "load the items"},
		{with(func(d *Def) {}), with(func(d *Def) { d.PartitionKey, d.Synthetic = nil, &synthetickey.Rule{Join: []string{"/a"}, Suffixes: 4} }), "load the items"},
		{with(func(d *Def) {}), with(func(d *Def) { d.PartitionKey, d.Replicated = []string{"/b"}, true }), "load the items"},
		{with(func(d *Def) { d.MutableTTL = true }), with(func(d *Def) { d.DefaultTTL = time.Hour }), "SetDefaultTTL"},
		{with(func(d *Def) { d.MutableTTL, d.Replicated = true, true }), with(func(d *Def) { d.DefaultTTL = time.Hour }), "load the items"},
	} {
		if d := tc.have.Compare(tc.asked); d == nil || !strings.Contains(d.Change, tc.want) {
			t.Errorf("%+v of %+v, asked for %+v; want %q", d, tc.have, tc.asked, tc.want)
		}
	}
}
