package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/segment"
)

// TestCountBesideDamage: items that follow the default time to live and have expired are not counted. That holds for
// those in a file that a compaction has set aside too, then and after the next open.
func TestCountBesideDamage(t *testing.T) {
	ctx := t.Context()
	w := &damagedWriter{t: t, mem: vfs.NewMem(), docs: map[string]map[string]string{"a": {}}}
	w.opts = testOptions(w.mem)
	w.opts.FileBytes = 8 << 10
	clock := newTestClock(w.opts)
	w.open()
	def := ContainerDef{PartitionKey: []string{"/k"}, Index: IndexAll(), MinPartitions: 1, DefaultTTL: time.Hour, MutableTTL: true}
	must(t, second(w.db.CreateContainer(ctx, "a", def)))
	w.write("a", 1)
	must(t, w.db.Compact(ctx))
	w.flip(w.segments("a")[0], segment.SectionGroups)
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
