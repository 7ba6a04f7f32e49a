package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/randtest"
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

// unknownVectors returns a container whose newest file overwrites versions in several older ones. It does not
// know which: the older files were written anew before the store was opened again.
func unknownVectors(t *testing.T) (c *Container, newest *lsm.File, older []*lsm.File) {
	t.Helper()
	ctx := t.Context()
	opts := testOptions(vfs.NewMem())
	opts.FileBytes, opts.memtableBytes = 8<<10, 1<<20
	db, c := openStore(t, opts, ContainerDef{PartitionKey: []string{"/k"}, Index: IndexAll(), Compression: NoCompression})
	for _, pad := range []string{strings.Repeat("x", 300), ""} {
		for i := range 100 {
			must(t, second(c.Upsert(ctx, fmt.Appendf(nil, `{"id":"a","k":"%d","pad":"%s"}`, i, pad), nil)))
		}
		must(t, db.Flush(ctx))
	}
	p := c.routing.Load().parts[0]
	for _, f := range p.Version.Load().Runs[1].Files {
		must(t, writeAnew(ctx, &p.Tree, f))
	}
	must(t, db.Close())
	_, c = openStore(t, opts)
	runs := c.routing.Load().parts[0].Version.Load().Runs
	if len(runs) != 2 || len(runs[0].Files) != 1 || len(runs[1].Files) < 3 || newestKnows(runs[0].Files[0], runs[1].Files) > 0 {
		t.Fatal("the runs are not what the test is about")
	}
	return c, runs[0].Files[0], runs[1].Files
}

// newestKnows counts the older files of which a file knows what it overwrites in them.
func newestKnows(f *lsm.File, older []*lsm.File) (known int) {
	for _, old := range older {
		if f.VectorCache.Known(f, old) != nil {
			known++
		}
	}
	return known
}

// askClean asks the oldest source with keys from lo to hi whether none of its versions is dead.
func askClean(ctx context.Context, c *Container, lo, hi *item.Key) error {
	p := c.routing.Load().parts[0]
	guard := c.db.env.Epoch.Enter()
	defer guard.Leave()
	var q lsm.Sources
	if err := q.Open(p.Data(), p.Version.Load(), p.Visible.Load(), lifetime.Past{}, c.family.Indexing.Load(), true, lo, hi); err != nil {
		return err
	}
	q.Ctx = ctx
	_, err := q.List[len(q.List)-1].Clean()
	return err
}

// TestDeletionVectorsEnd: looking up all keys of a file in older ones ends with the context of the query.
func TestDeletionVectorsEnd(t *testing.T) {
	c, newest, older := unknownVectors(t)
	if err := askClean(&randtest.AskedContext{Context: t.Context(), Left: 5}, c, nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("it does not end: %v", err)
	}
	must(t, askClean(t.Context(), c, nil, nil))
	if n := newestKnows(newest, older); n != len(older) {
		t.Errorf("%d of %d vectors are known", n, len(older))
	}
}

// TestDeletionVectorsStayKnown: what a query of a few keys looks up does not push out what is known of older files with
// other keys.
func TestDeletionVectorsStayKnown(t *testing.T) {
	c, newest, older := unknownVectors(t)
	for i, f := range older {
		p := f.Properties()
		must(t, askClean(t.Context(), c, &p.Min, &p.Max))
		if n := newestKnows(newest, older); n != i+1 {
			t.Errorf("after queries of the keys of %d older files %d vectors are known", i+1, n)
		}
	}
}
