package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

// TestDeletionVectorsAreKnown writes over what older files have and looks, after each
// flush, merge and reopen, whether all files know what they overwrite without
// looking it up, and whether it is right.
func TestDeletionVectorsAreKnown(t *testing.T) {
	rng := rand.New(rand.NewPCG(newSeed(t), 1))
	ctx := context.Background()
	mem := vfs.NewMem()
	opts := testOptions(mem)
	opts.FileBytes = 8 << 10
	var db *DB
	var c *Container
	open := func() {
		var err error
		if db, err = Open(ctx, "db", opts); err != nil {
			t.Fatal(err)
		}
	}
	open()
	defer func() { db.Close() }()
	c, err := db.CreateContainer(ctx, "docs", ContainerDef{PartitionKey: []string{"/k"}, Index: IndexAll()})
	if err != nil {
		t.Fatal(err)
	}
	for round := range 12 {
		for range 200 {
			if rng.IntN(40) == 0 {
				if err := c.DeleteLogicalPartition(ctx, StringKey(strconv.Itoa(rng.IntN(20))), nil); err != nil {
					t.Fatal(err)
				}
			}
			doc := fmt.Appendf(nil, `{"id":"%d","k":"%d","n":%d}`, rng.IntN(50), rng.IntN(20), rng.IntN(5))
			if _, err := c.Upsert(ctx, doc, nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		what := "flush"
		p := c.routing.Load().parts[0]
		switch round % 4 {
		case 1:
			what = "merge"
			runs := p.Version.Load().Runs
			for _, f := range runs[len(runs)-1].Files {
				if err := writeAnew(ctx, &p.Tree, f); err != nil {
					t.Fatal(err)
				}
			}
		case 3:
			what = "open"
			if round < 8 {
				if err := db.Compact(ctx); err != nil {
					t.Fatal(err)
				}
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			open()
			if c, err = db.Container("docs"); err != nil {
				t.Fatal(err)
			}
			p = c.routing.Load().parts[0]
		}
		runs := p.Version.Load().Runs
		for i, r := range runs {
			for _, f := range r.Files {
				for _, older := range runs[i+1:] {
					for _, old := range older.Files {
						if f.VectorCache.Known(f, old) == nil && what != "open" {
							t.Fatalf("round %d, after %s: file %d does not know what it overwrites in %d", round, what, f.Ref.Number, old.Ref.Number)
						}
					}
				}
			}
		}
		n, err := c.Count(ctx, AllPartitions(), Eq("/n", 3))
		if err != nil {
			t.Fatal(err)
		}
		want := int64(0)
		for it, err := range c.ScanAll(ctx, nil) {
			if err != nil {
				t.Fatal(err)
			}
			if it.Body[len(it.Body)-2] == '3' {
				want++
			}
		}
		if n != want {
			t.Fatalf("round %d, after %s: %d documents, not %d", round, what, n, want)
		}
		checkVerified(t, db)
	}
}
