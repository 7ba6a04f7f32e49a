package engine

import (
	"errors"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/segment"
)

// TestCompactSearchMeetsDamage: damage that Compact meets while it looks whether a partition has anything to compact sets the
// file aside, and keeps it from no other partition.
func TestCompactSearchMeetsDamage(t *testing.T) {
	ctx := t.Context()
	w := &damagedWriter{t: t, mem: vfs.NewMem()}
	w.opts = testOptions(w.mem)
	w.open()
	must(t, second(w.db.CreateContainer(ctx, "a", ContainerDef{Kind: Opaque, MinPartitions: 2})))
	put := func() {
		t.Helper()
		c := w.container("a")
		for _, key := range keyOfEachPartition(c) {
			must(t, second(c.Put(ctx, key, "x", []byte("body"), nil)))
		}
		must(t, w.db.Flush(ctx))
	}
	put()
	w.flip(w.segments("a")[0], segment.SectionGroups)
	put()
	if err := w.db.Compact(ctx); !errors.Is(err, ErrCorrupt) {
		t.Errorf("compact: %v", err)
	}
	parts := w.container("a").routing.Load().parts
	if n := parts[0].Version.Load().FilesAside(); n != 1 {
		t.Errorf("%d files are set aside", n)
	}
	if n := len(parts[1].Version.Load().Runs); n != 1 {
		t.Errorf("%d runs in the partition that is not damaged", n)
	}
}

// TestCompactPastDamage: Compact drops what is dead in the runs on both sides of a file in which it meets damage.
func TestCompactPastDamage(t *testing.T) {
	ctx := t.Context()
	w := &damagedWriter{t: t, mem: vfs.NewMem()}
	w.opts = testOptions(w.mem)
	w.open()
	must(t, second(w.db.CreateContainer(ctx, "a", ContainerDef{Kind: Opaque})))
	c := w.container("a")
	for _, id := range []string{"x", "y", "z"} { // each run has a version that a snapshot holds
		put := func() { must(t, second(c.Put(ctx, StringKey("k"), id, []byte("body"), nil))) }
		put()
		s, err := c.Snapshot(ctx)
		must(t, err)
		put()
		must(t, w.db.Flush(ctx))
		must(t, s.Close())
	}
	w.flip(w.segments("a")[1], segment.SectionGroups)
	if err := w.db.Compact(ctx); !errors.Is(err, ErrCorrupt) {
		t.Errorf("compact: %v", err)
	}
	runs := w.container("a").routing.Load().parts[0].Version.Load().Runs
	if len(runs) != 3 || runs[0].Older() != 0 || runs[1].Older() != 1 || runs[2].Older() != 0 {
		for i, r := range runs {
			t.Errorf("run %d has %v dead versions", i, r.Older())
		}
	}
}
