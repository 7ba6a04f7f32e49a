package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/pprof/profile"
)

func TestRank(t *testing.T) {
	function := func(id uint64, name string) *profile.Location {
		return &profile.Location{ID: id, Line: []profile.Line{{Function: &profile.Function{ID: id, Name: name}}}}
	}
	root, a, b := function(1, "root"), function(2, "a"), function(3, "b")
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		Sample: []*profile.Sample{
			{Location: []*profile.Location{a, root}, Value: []int64{1, 3e9}},
			{Location: []*profile.Location{b, a, a, root}, Value: []int64{1, 1e9}}, // a calls itself
			{Location: []*profile.Location{{ID: 4}}, Value: []int64{1, 0}},         // nothing known
		},
	}
	got, total, unit, err := rank(p, "cpu")
	if err != nil || total != 4e9 || unit != "nanoseconds" || len(got) != 3 {
		t.Fatalf("%v: %d %s: %+v", err, total, unit, got)
	}
	for i, want := range []ranked{{"a", 3e9, 4e9}, {"b", 1e9, 1e9}, {"root", 0, 4e9}} {
		if got[i] != want {
			t.Errorf("%d: %+v, want %+v", i, got[i], want)
		}
	}
	if _, _, _, err := rank(p, "delay"); err == nil {
		t.Error("a sample type that is not there")
	}
	// Who waits for a lock is not the lock.
	contended := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "delay", Unit: "nanoseconds"}},
		Sample:     []*profile.Sample{{Location: []*profile.Location{function(4, "sync.(*Mutex).Unlock"), a, root}, Value: []int64{7}}},
	}
	if got, _, _, err := rank(contended, "delay"); err != nil || got[0] != (ranked{"a", 7, 7}) {
		t.Errorf("%v: %+v", err, got)
	}
	var text bytes.Buffer
	if err := (&capture{kind: "cpu", prof: p}).printTop(&text, 8); err != nil {
		t.Fatal(err)
	}
	const want = `
cpu profile, 4.00 s
    self          with calls           function
  3.00 s  75.0 %      4.00 s  100.0 %  a
  1.00 s  25.0 %      1.00 s   25.0 %  b
`
	if text.String() != want {
		t.Errorf("got\n%q", &text)
	}
}

func TestProfiler(t *testing.T) {
	p := profiler{}
	if err := p.kinds.UnmarshalText([]byte("cpu,heap,mutex,cpu")); err != nil || len(p.kinds) != 3 {
		t.Fatalf("%v: %v", err, p.kinds)
	}
	if err := p.start(); err != nil {
		t.Fatal(err)
	}
	captures, err := p.stop()
	if err != nil || len(captures) != 3 {
		t.Fatalf("%v: %d profiles", err, len(captures))
	}
	dir := t.TempDir()
	for _, c := range captures {
		if err := c.printTop(new(bytes.Buffer), 5); err != nil {
			t.Error(err)
		}
		if err := c.save(dir); err != nil {
			t.Error(err)
		}
		if info, err := os.Stat(filepath.Join(dir, c.kind+".pprof")); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", c.kind, err)
		}
	}
}
