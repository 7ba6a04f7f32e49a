package engine

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/segment"
)

// damagedExpiring returns a store by a clock, with a container "a" of files of which the first one is damaged.
func damagedExpiring(t *testing.T, def ContainerDef) (*damagedWriter, *testClock) {
	w := &damagedWriter{t: t, mem: vfs.NewMem(), docs: map[string]map[string]string{"a": {}}}
	w.opts = testOptions(w.mem)
	w.opts.FileBytes = 8 << 10
	clock := newTestClock(w.opts)
	w.open()
	def.PartitionKey = []string{"/k"}
	must(t, second(w.db.CreateContainer(t.Context(), "a", def)))
	w.write("a", 1)
	must(t, w.db.Compact(t.Context()))
	w.flip(w.segments("a")[0], segment.SectionGroups)
	return w, clock
}

// TestCountBesideDamage: items that follow the default time to live and have expired are not counted. That holds for
// those in a file that a compaction has set aside too, then and after the next open.
func TestCountBesideDamage(t *testing.T) {
	ctx := t.Context()
	w, clock := damagedExpiring(t, ContainerDef{Index: IndexAll(), MinPartitions: 1, DefaultTTL: time.Hour, MutableTTL: true})
	c := w.container("a")
	p := c.routing.Load().parts[0]
	damaged := p.Version.Load().Runs[0].Files[0]
	for i := range damagedDocs { // those of the other files get versions, so that the run is compacted
		key, id := damagedDocID(i)
		if epk := key.EPK(); epk.Compare(&damaged.Max) >= 0 {
			must(t, second(c.Upsert(ctx, fmt.Appendf(nil, `{"id":%q,"k":"%d"}`, id, i%40), nil)))
		}
	}
	w.settle()
	if v := p.Version.Load(); v.FilesAside() != 1 || len(v.Runs) != 2 {
		t.Fatalf("%d files are set aside, of %d runs", v.FilesAside(), len(v.Runs))
	}
	count := func(want int64) {
		t.Helper()
		if n, err := w.container("a").Count(ctx, AllPartitions(), Filter{}); err != nil || n != want {
			t.Errorf("%d items, %v, want %d", n, err, want)
		}
	}
	count(damagedDocs)
	clock.pass(2 * time.Hour)
	count(0)
	w.reopen()
	count(0)
}

// TestExpiryBesideDamage: in a container that keeps changes, the items behind a damaged file get their tombstones when they
// have expired.
func TestExpiryBesideDamage(t *testing.T) {
	ctx := t.Context()
	w, clock := damagedExpiring(t, ContainerDef{DefaultTTL: time.Hour, ChangeRetention: time.Hour})
	clock.pass(4 * time.Hour)
	for pass := range 3 { // the second one sees the tombstones of the first, and a third one would see no more
		if err := w.db.expireItems(ctx); errors.Is(err, ErrCorrupt) != (pass < 2) {
			t.Errorf("pass %d over a damaged file: %v", pass, err)
		}
		clock.pass(time.Minute)
	}
	v := w.container("a").routing.Load().parts[0].Version.Load()
	damaged := v.Runs[0].Files[0]
	behind, left := 0, 0
	for i := range damagedDocs {
		key, id := damagedDocID(i)
		if epk := key.EPK(); epk.Compare(&damaged.Max) < 0 {
			continue
		}
		behind++
		k := itemKey(key, id)
		var newest item.Version
		if !v.Active.Get(k.Lookup(), lsm.MaxSequence, &newest) || !newest.Deleted() {
			left++
		}
	}
	if behind < damagedDocs/2 || left > 0 {
		t.Errorf("%d of %d items behind the damaged file have no tombstone", left, behind)
	}
}
