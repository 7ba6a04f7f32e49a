package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/randtest"
	"github.com/cleavestore/cleave/internal/tiers"
	"github.com/cleavestore/cleave/internal/vfs"
)

// mergeFirst merges the newest runs of the only partition.
func mergeFirst(t *testing.T, db *DB, n int) error {
	t.Helper()
	done, err := db.partitions()[0].CompactRuns(context.Background(), func([]*lsm.Run, bool) (tiers.Plan, error) { return tiers.Plan{First: 0, End: n}, nil })
	if err == nil && !done {
		t.Error("nothing was merged")
	}
	return err
}

// TestMergeKeepsTombstones merges a deletion with what is newer, and not with what it
// hides.
func TestMergeKeepsTombstones(t *testing.T) {
	ctx := context.Background()
	db, c := openStore(t, testOptions(vfs.NewMem()))
	flush := func() { must(t, db.Flush(ctx)) }
	upsert(t, c, "x", 10)
	upsert(t, c, "y", 10)
	flush()
	must(t, c.Delete(ctx, StringKey("a"), "x", nil))
	flush()
	upsert(t, c, "y", 20)
	flush()
	must(t, mergeFirst(t, db, 2))
	if _, err := c.Read(ctx, StringKey("a"), "x"); !errors.Is(err, ErrNotFound) {
		t.Errorf("a deleted item: %v", err)
	}
	must(t, mergeFirst(t, db, 2))
	if _, err := c.Read(ctx, StringKey("a"), "x"); !errors.Is(err, ErrNotFound) {
		t.Errorf("a deleted item: %v", err)
	}
	if n := db.partitions()[0].Version.Load().Runs[0].Items(); n != 1 {
		t.Errorf("%d versions of one item", n)
	}
}

// TestMergeKeepsForSnapshots merges versions of an item that snapshots read with some
// that nobody reads.
func TestMergeKeepsForSnapshots(t *testing.T) {
	ctx := context.Background()
	db, c := openStore(t, testOptions(vfs.NewMem()))
	var snapshots []*Snapshot
	for i := range 9 {
		must(t, second(c.Upsert(ctx, doc("x", "a", i), nil)))
		if i%3 == 1 {
			s, err := c.Snapshot(ctx)
			must(t, err)
			defer s.Close()
			snapshots = append(snapshots, s)
		}
		must(t, db.Flush(ctx))
	}
	must(t, mergeFirst(t, db, 9))
	for i, s := range snapshots {
		if it, err := s.Read(ctx, StringKey("a"), "x"); err != nil || string(it.Body) != string(doc("x", "a", 3*i+1)) {
			t.Errorf("snapshot %d: %s, %v", i, it.Body, err)
		}
	}
	if n := db.partitions()[0].Version.Load().Runs[0].Items(); n != 4 {
		t.Errorf("%d versions, of which four are read", n)
	}
}

// TestMergeOfDamaged: a merge that meets damage fails and leaves its inputs, what can
// be read of them included.
func TestMergeOfDamaged(t *testing.T) {
	ctx := context.Background()
	mem := vfs.NewMem()
	opts := testOptions(mem)
	db, c := openStore(t, opts)
	for i := range 3 {
		for n := range 200 {
			upsert(t, c, fmt.Sprint(i, "-", n), 100)
		}
		must(t, db.Flush(ctx))
	}
	must(t, db.Close())
	name, b := firstSegment(t, mem)
	b = append([]byte(nil), b...)
	b[len(b)/2] ^= 1 // a document in the midst
	must(t, mem.WriteFile(name, b))
	db, err := Open(ctx, "damaged", opts)
	must(t, err)
	defer db.Close()
	c, err = db.Container("c")
	must(t, err)
	unreadable := func() (n int) {
		for i := range 3 {
			for j := range 200 {
				switch _, err := c.Read(ctx, StringKey("a"), fmt.Sprint(i, "-", j)); {
				case errors.Is(err, ErrCorrupt):
					n++
				default:
					must(t, err)
				}
			}
		}
		return n
	}
	before := unreadable()
	runs := len(db.partitions()[0].Version.Load().Runs)
	err = mergeFirst(t, db, runs)
	if after := unreadable(); !errors.Is(err, ErrCorrupt) || before == 0 || after != before {
		t.Errorf("merge: %v; %d items unreadable, %d before", err, after, before)
	}
	if n := len(db.partitions()[0].Version.Load().Runs); n != runs {
		t.Errorf("%d runs, were %d", n, runs)
	}
}

// TestDroppedIsNotSearched: dropping a container waits for the turn of its compactions. The search for overwritten versions,
// which may read all keys, ends when the partition is dropped.
func TestDroppedIsNotSearched(t *testing.T) {
	o := testOptions(vfs.NewMem())
	o.memtableBytes, o.FileBytes = 4<<20, 4<<20
	db, c := openStore(t, o)
	for i := range 6000 { // two runs without a key in common
		must(t, second(c.Upsert(t.Context(), doc(fmt.Sprintf("%05d", i), "a", i), &WriteOptions{Durability: Buffered})))
		if i == 1000 {
			must(t, db.Flush(t.Context()))
		}
	}
	must(t, db.Flush(t.Context()))
	p := db.partitions()[0]
	runs := p.Version.Load().Runs
	p.Dropped.Store(true)
	// Every thousand keys or so the search asks the context: this one has ended when it is asked for the third time.
	plan, err := p.PickDead(&randtest.AskedContext{Context: t.Context(), Left: 2})(runs, true)
	if p.Dropped.Store(false); err != nil || plan.Len() > 0 || len(runs) != 2 {
		t.Errorf("of %d runs of a dropped partition it chooses %+v, %v", len(runs), plan, err)
	}
}
