package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cleavestore/cleave/internal/randtest"
	"github.com/cleavestore/cleave/internal/vfs"
)

// TestScanMerged compares scans with a model: over memtables and many files, with items
// that were overwritten or deleted, of sizes below and above that of a batch, while loops
// write. Items of scans that do not borrow stay as they were shown.
func TestScanMerged(t *testing.T) {
	ctx := context.Background()
	rng := randtest.New(t)
	for _, compression := range []Compression{FastCompression, SmallCompression, NoCompression} {
		t.Run(compression.String(), func(t *testing.T) {
			opts := testOptions(vfs.NewMem())
			opts.FileBytes = 256 << 10
			db, c := openStore(t, opts, ContainerDef{PartitionKey: []string{"/k"}, Compression: compression})
			model := make(map[string][]byte)
			write := func() {
				id := fmt.Sprintf("%03d", rng.IntN(300))
				if rng.IntN(6) == 0 {
					if err := c.Delete(ctx, StringKey("a"), id, nil); err != nil && !errors.Is(err, ErrNotFound) {
						t.Fatal(err)
					}
					delete(model, id)
					return
				}
				model[id] = randomDocument(rng, id)
				must(t, second(c.Upsert(ctx, model[id], nil)))
			}
			for round := range 60 / lone(1) {
				for range rng.IntN(60) {
					write()
				}
				switch {
				case round%25 == 24:
					must(t, db.Compact(ctx))
				case rng.IntN(3) > 0:
					must(t, db.Flush(ctx))
				}
				for range 4 {
					scanMerged(t, c, model, rng, write)
				}
			}
		})
	}
}

// randomDocument makes a document of some 40 bytes to 60 KB.
func randomDocument(rng *rand.Rand, id string) []byte {
	size := rng.IntN(600)
	switch rng.IntN(10) {
	case 0:
		size = rng.IntN(60_000)
	case 1:
		size = rng.IntN(6_000)
	}
	text := make([]byte, size/2)
	for i := range text {
		text[i] = 'a' + byte(rng.IntN(26))
	}
	return fmt.Appendf(nil, `{"id":%q,"k":"a","x":%q,"y":"%[2]s"}`, id, text)
}

func scanMerged(t *testing.T, c *Container, model map[string][]byte, rng *rand.Rand, write func()) {
	ctx := context.Background()
	ids := make([]string, 0, len(model))
	want := make(map[string][]byte, len(model))
	for id, body := range model {
		ids = append(ids, id)
		want[id] = body
	}
	slices.Sort(ids)
	r := IDRange{From: fmt.Sprintf("%03d", rng.IntN(300)), Before: fmt.Sprintf("%03d", rng.IntN(400))}
	ids = slices.DeleteFunc(ids, func(id string) bool { return id < r.From || id >= r.Before })
	o := &ScanOptions{Reverse: rng.IntN(2) == 0, Borrow: rng.IntN(2) == 0, InPlace: rng.IntN(3) == 0}
	if o.Reverse {
		slices.Reverse(ids)
	}
	if rng.IntN(2) == 0 {
		o.Limit = 1 + rng.IntN(40)
		ids = ids[:min(len(ids), o.Limit)]
	}
	i := 0
	var kept []Item
	for it, err := range c.Scan(ctx, StringKey("a"), r, o) {
		must(t, err)
		if i == len(ids) || it.ID != ids[i] || !bytes.Equal(it.Body, want[it.ID]) {
			t.Fatalf("item %d of %d: %q of %d bytes; %+v, %+v", i, len(ids), it.ID, len(it.Body), r, o)
		}
		i++
		if !o.Borrow && !o.InPlace {
			kept = append(kept, it)
		}
		if rng.IntN(30) == 0 {
			write()
		}
	}
	if i != len(ids) {
		t.Fatalf("%d items, want %d; %+v, %+v", i, len(ids), r, o)
	}
	for _, it := range kept {
		if !bytes.Equal(it.Body, want[it.ID]) {
			t.Fatalf("item %q that was kept has changed", it.ID)
		}
	}
}
