package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/segment"
)

// TestScanMeetsDamageAtBatchEnd: a scan passes over so many deleted documents that its batch ends
// where the next group is damaged. It shows what comes before the damage, each document once, and
// then ends with the error, also if the files change between the batches.
func TestScanMeetsDamageAtBatchEnd(t *testing.T) {
	ctx := context.Background()
	for _, compression := range []Compression{FastCompression, NoCompression} {
		for deleted := 4064; deleted < 4096; deleted += lone(8) {
			w := &damagedWriter{t: t, mem: vfs.NewMem()}
			w.opts = testOptions(w.mem)
			w.opts.FileBytes, w.opts.memtableBytes, w.opts.ReadMode = 1<<20, 4<<20, ReadPositioned
			w.open()
			c, err := w.db.CreateContainer(ctx, "a", ContainerDef{PartitionKey: []string{"/k"}, Compression: compression})
			must(t, err)
			for i := range 200 {
				upsert(t, c, fmt.Sprintf("b%03d", i), 60+i*i%97)
			}
			must(t, w.db.Flush(ctx))
			w.flip(w.segments("a")[0], segment.SectionGroups)
			c = w.container("a")
			for i := range deleted {
				upsert(t, c, fmt.Sprintf("a%04d", i), 1)
				must(t, c.Delete(ctx, StringKey("a"), fmt.Sprintf("a%04d", i), nil))
			}
			var shown []string
			for it, err := range c.Scan(ctx, StringKey("a"), IDRange{}, nil) {
				if err != nil {
					if !errors.Is(err, ErrCorrupt) {
						t.Fatal(err)
					}
					shown = append(shown, "the end")
				} else if shown = append(shown, it.ID); len(shown) == 1 {
					upsert(t, c, "c", 1)
					must(t, w.db.Flush(ctx))
				}
			}
			if n := len(shown); n == 0 || shown[n-1] != "the end" || !slices.Equal(shown, slices.Compact(slices.Sorted(slices.Values(shown)))) {
				t.Fatalf("%v, %d deleted: %q", compression, deleted, shown)
			}
			must(t, w.db.Close())
		}
	}
}
