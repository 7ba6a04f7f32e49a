package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/vfs"
)

// reader opens the store of a writer read-only.
func reader(t *testing.T, fsys vfs.FS) *DB {
	t.Helper()
	opts := testOptions(fsys)
	opts.ReadOnly = true
	db, err := Open(t.Context(), "mem", opts)
	must(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

// TestRefresh: a read-only store sees what its writer did, by one Refresh after the other, and
// what was begun before sees what it saw.
func TestRefresh(t *testing.T) {
	ctx := context.Background()
	mem := vfs.NewMem()
	writer, wc := openStore(t, testOptions(mem))
	a := StringKey("a")
	if err := writer.Refresh(ctx); !errors.Is(err, ErrInvalid) {
		t.Errorf("of a writer: %v", err)
	}
	for i := range 400 {
		upsert(t, wc, fmt.Sprintf("%04d", i), 20)
	}
	db := reader(t, mem)
	c, err := db.Container("c")
	must(t, err)
	count := func(what string, c interface {
		Count(context.Context, Scope, Filter) (int64, error)
	}, want int64) {
		t.Helper()
		if n, err := c.Count(ctx, AllPartitions(), Filter{}); err != nil || n != want {
			t.Errorf("%s: %d, %v, want %d", what, n, err, want)
		}
	}
	count("at first", c, 400)
	snapshot, err := c.Snapshot(ctx)
	must(t, err)
	query := c.Query(ctx, AllPartitions(), Query{})

	// The writer overwrites, deletes, splits and compacts away all that the reader has open.
	for i := range 200 {
		must(t, wc.Delete(ctx, a, fmt.Sprintf("%04d", i), nil))
	}
	for _, k := range []string{"b", "d"} {
		_, err := wc.Upsert(ctx, smallDocument("x", k, 10), nil)
		must(t, err)
	}
	job, err := wc.Split(ctx, wc.Partitions()[0].ID, nil)
	must(t, err)
	must(t, job.Wait(ctx))
	must(t, writer.Compact(ctx))
	other, err := writer.CreateContainer(ctx, "other", byK)
	must(t, err)
	upsert(t, other, "1", 10)
	count("without a refresh", c, 400)

	seen := 0
	for it, err := range c.Scan(ctx, a, IDRange{}, nil) { // a refresh in the middle
		must(t, err)
		if seen == 0 {
			must(t, db.Refresh(ctx))
		}
		if want := fmt.Sprintf("%04d", seen); it.ID != want {
			t.Fatalf("item %s, want %s", it.ID, want)
		}
		seen++
	}
	if seen != 400 {
		t.Errorf("the scan under way: %d items", seen)
	}
	count("refreshed", c, 202)
	count("the snapshot", snapshot, 400)
	if _, err := c.Read(ctx, a, "0001"); !errors.Is(err, ErrNotFound) {
		t.Errorf("a deleted item: %v", err)
	}
	if _, err := snapshot.Read(ctx, a, "0001"); err != nil {
		t.Errorf("of the snapshot: %v", err)
	}
	seen = 0
	for _, err := range query.All() {
		must(t, err)
		seen++
	}
	if seen != 202 || len(c.Partitions()) != 2 {
		t.Errorf("%d results, %d partitions", seen, len(c.Partitions()))
	}
	must(t, c.View(ctx, a, func(tx *Tx) error {
		must(t, db.Refresh(ctx))
		if got := idsOf(t, tx, IDRange{}, nil); len(got) != 200 {
			t.Errorf("the view: %d items", len(got))
		}
		return nil
	}))
	oc, err := db.Container("other")
	must(t, err)
	count("a new container", oc, 1)
	if again, err := db.Container("c"); err != nil || again != c {
		t.Errorf("another handle: %v", err)
	}
	if _, err := c.Upsert(ctx, smallDocument("x", "a", 1), nil); !errors.Is(err, ErrReadOnly) {
		t.Errorf("a write: %v", err)
	}

	// A container that is dropped, and made again with the same name.
	must(t, writer.DropContainer(ctx, "other"))
	other, err = writer.CreateContainer(ctx, "other", byK)
	must(t, err)
	must(t, db.Refresh(ctx))
	if _, err := oc.Read(ctx, a, "1"); !errors.Is(err, ErrClosed) {
		t.Errorf("of a dropped container: %v", err)
	}
	if oc, err = db.Container("other"); err != nil {
		t.Fatal(err)
	}
	upsert(t, other, "2", 10)
	must(t, db.Refresh(ctx))
	count("made again", oc, 1)

	ctxShort, cancel := context.WithCancel(ctx)
	cancel()
	if err := db.Refresh(ctxShort); err == nil {
		t.Error("a refresh without time")
	}
	count("after a refresh that failed", c, 202)
	count("the snapshot at last", snapshot, 400)
	if err := db.Shutdown(ctxShort); !errors.As(err, new(*ShutdownError)) {
		t.Errorf("shutdown beside the snapshot of a former state: %v", err)
	}
	must(t, snapshot.Close())
	must(t, db.Shutdown(ctx))
	if err := db.Refresh(ctx); !errors.Is(err, ErrClosed) {
		t.Errorf("refresh after the end: %v", err)
	}
	if _, err := c.Read(ctx, a, "0300"); !errors.Is(err, ErrClosed) {
		t.Errorf("read after the end: %v", err)
	}
}

// TestRefreshDroppedScan: a scan of a Container that the writer has dropped is refused, and holds nothing.
func TestRefreshDroppedScan(t *testing.T) {
	ctx := t.Context()
	mem := vfs.NewMem()
	writer, wc := openStore(t, testOptions(mem))
	upsert(t, wc, "1", 10)
	db := reader(t, mem)
	c, err := db.Container("c")
	must(t, err)
	must(t, writer.DropContainer(ctx, "c"))
	must(t, db.Refresh(ctx))
	for what, items := range map[string]func(func(Item, error) bool){
		"scan":             c.Scan(ctx, StringKey("a"), IDRange{}, nil),
		"scan of all":      c.ScanAll(ctx, nil),
		"what is readable": c.ScanReadable(ctx, PartitionKey{}, new(RepairReport)),
	} {
		if _, err := collectItems(items); !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if held := db.Stats().Holders; len(held) > 0 {
		t.Errorf("held by %v", held)
	}
	must(t, db.Shutdown(ended()))
}

// TestRefreshDropped: a Container that the writer has dropped still tells what it was, and refuses calls.
func TestRefreshDropped(t *testing.T) {
	ctx := t.Context()
	mem := vfs.NewMem()
	writer, wc := openStore(t, testOptions(mem), ContainerDef{
		PartitionKey: []string{"/k"}, Index: IndexAll(), DefaultTTL: time.Hour, MutableTTL: true, Throughput: 500,
	})
	must(t, wc.SetKeyLimits(ctx, StringKey("a"), KeyLimits{Bytes: 5000}))
	db := reader(t, mem)
	c, err := db.Container("c")
	must(t, err)
	told := func() string { return fmt.Sprintf("%+v %v", c.Def(), iterated(c.LimitedKeys())) }
	before := told()
	must(t, writer.DropContainer(ctx, "c"))
	for range 2 {
		must(t, db.Refresh(ctx))
		if now := told(); now != before {
			t.Errorf("it was %s, now %s", before, now)
		}
		if _, err := c.Usage(ctx, StringKey("a"), nil); !errors.Is(err, ErrClosed) {
			t.Errorf("usage: %v", err)
		}
	}
}

// TestRefreshBeside refreshes while a writer writes, flushes and compacts, and readers read. The
// writer writes each round to two items at once; readers never see two rounds at a time, nor go
// back.
func TestRefreshBeside(t *testing.T) {
	ctx := context.Background()
	mem := vfs.NewMem()
	writer, wc := openStore(t, testOptions(mem))
	pk := StringKey("a")
	write := func(round int) {
		b := wc.NewBatch(pk)
		must(t, errors.Join(b.Upsert(doc("x", "a", round), nil), b.Upsert(doc("y", "a", round), nil)))
		must(t, second(wc.Commit(ctx, b)))
	}
	write(0)
	db := reader(t, mem)
	c, err := db.Container("c")
	must(t, err)
	var stop atomic.Bool
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			last := ""
			for !stop.Load() {
				var x string
				n := 0
				for it, err := range c.Scan(ctx, pk, IDRange{}, nil) {
					if err != nil {
						t.Error(err)
						return
					}
					round := string(it.Body[len(`{"id":"x"`):])
					if n++; n == 1 {
						x = round
					} else if round != x {
						t.Errorf("two rounds: %s and %s", x, round)
					}
				}
				it, err := c.Read(ctx, pk, "y")
				if err != nil || n != 2 {
					t.Errorf("%d items, %v", n, err)
					return
				}
				if y := string(it.Body); len(y) < len(last) || len(y) == len(last) && y < last {
					t.Errorf("back from %s to %s", last, y)
				} else {
					last = y
				}
			}
		})
	}
	for round := 1; round <= 60; round++ {
		write(round)
		switch round % 10 {
		case 4:
			must(t, writer.Flush(ctx))
		case 9:
			must(t, writer.Compact(ctx))
		}
		must(t, db.Refresh(ctx))
		if it, err := c.Read(ctx, pk, "x"); err != nil || string(it.Body) != string(doc("x", "a", round)) {
			t.Fatalf("round %d: %s, %v", round, it.Body, err)
		}
	}
	stop.Store(true)
	readers.Wait()
	must(t, db.Shutdown(ctx))
}
