package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

// TestReverseScanReadError fails each read of a reverse scan once: it gives the
// right items or an error.
func TestReverseScanReadError(t *testing.T) {
	ctx := context.Background()
	faulty := vfs.NewFaulty(vfs.NewMem())
	opts := testOptions(faulty)
	opts.ReadMode = ReadPositioned
	db, c := openStore(t, opts)
	for i := range 50 {
		upsert(t, c, fmt.Sprintf("%03d", i), 700)
	}
	if err := db.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	failures := 0
	for n := int64(1); ; n++ {
		var reads int64
		faulty.SetHook(func(call vfs.Call) error {
			if call.Op == vfs.OpRead && strings.HasSuffix(call.Name, ".seg") {
				if reads++; reads == n {
					return syscall.EIO
				}
			}
			return nil
		})
		var got []string
		var failed error
		for it, err := range c.Scan(ctx, StringKey("a"), IDRange{To: "030"}, &ScanOptions{Reverse: true, Limit: 3}) {
			if failed = err; err == nil {
				got = append(got, it.ID)
			}
		}
		if failed != nil {
			failures++
			if !errors.Is(failed, ErrIO) {
				t.Errorf("read %d fails: %v", n, failed)
			}
		} else if strings.Join(got, " ") != "030 029 028" {
			t.Errorf("read %d fails: scan gives %v and no error", n, got)
		}
		if reads < n {
			break
		}
	}
	if failures == 0 {
		t.Error("no read failed: the test reached too little")
	}
}

// TestScanBorrow scans with and without Borrow while flushes and merges change
// the version of the partition between batches, and items are overwritten. All
// see the same.
func TestScanBorrow(t *testing.T) {
	ctx := context.Background()
	const n = 400
	for _, reverse := range []bool{false, true} {
		db, c := openStore(t, testOptions(vfs.NewMem()))
		for i := range n {
			upsert(t, c, fmt.Sprintf("%03d", i), 300+i)
			if i%150 == 149 {
				if err := db.Flush(ctx); err != nil {
					t.Fatal(err)
				}
			}
		}
		var want []Item
		for it, err := range c.Scan(ctx, StringKey("a"), IDRange{}, &ScanOptions{Reverse: reverse}) {
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, it)
		}
		if len(want) != n {
			t.Fatalf("%d items", len(want))
		}
		for _, all := range []bool{false, true} {
			o := &ScanOptions{Reverse: reverse, Borrow: true}
			items := c.Scan(ctx, StringKey("a"), IDRange{}, o)
			snapshot, err := c.Snapshot(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if all {
				items = snapshot.ScanAll(ctx, o)
			}
			i := 0
			for it, err := range items {
				if err != nil {
					t.Fatal(err)
				}
				w := &want[i]
				if it.ID != w.ID || string(it.Body) != string(w.Body) || it.Seq != w.Seq || it.Key.String() != w.Key.String() {
					t.Fatalf("item %d: %q of %d bytes, want %q of %d", i, it.ID, len(it.Body), w.ID, len(w.Body))
				}
				if i++; i%60 == 0 {
					upsert(t, c, w.ID, 50)
					err := db.Flush(ctx)
					if i%180 == 0 {
						err = db.Compact(ctx)
					}
					if err != nil {
						t.Fatal(err)
					}
				}
			}
			if i != n {
				t.Errorf("reverse %t, all %t: %d items", reverse, all, i)
			}
			if err := snapshot.Close(); err != nil {
				t.Fatal(err)
			}
			for i := range want { // some are overwritten
				if want[i], err = c.Read(ctx, want[i].Key, want[i].ID); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// TestScanBodies: the body of a loop may do anything to the store.
func TestScanBodies(t *testing.T) {
	ctx := context.Background()
	const n = 600
	for _, reverse := range []bool{false, true} {
		for _, body := range []struct {
			name string
			do   func(db *DB, c *Container, it Item) error
			all  bool // all items are seen
		}{
			{"write", func(_ *DB, c *Container, it Item) error {
				_, err := c.Upsert(ctx, smallDocument(it.ID+"+", "a", 10), nil)
				return err
			}, true},
			{"delete", func(_ *DB, c *Container, it Item) error { return c.Delete(ctx, it.Key, it.ID, nil) }, true},
			{"settle", func(db *DB, _ *Container, it Item) error {
				if !strings.HasSuffix(it.ID, "50") {
					return nil
				}
				return db.Compact(ctx)
			}, true},
			{"drop", func(db *DB, _ *Container, _ Item) error {
				if err := db.DropContainer(ctx, "c"); !errors.Is(err, ErrNoContainer) {
					return err
				}
				return nil
			}, false},
			{"close", func(db *DB, _ *Container, _ Item) error { return db.Close() }, false},
		} {
			t.Run(fmt.Sprintf("%s/%t", body.name, reverse), func(t *testing.T) {
				db, c := openStore(t, testOptions(vfs.NewMem()))
				for i := range n {
					upsert(t, c, fmt.Sprintf("%04d", i), 20)
				}
				seen := 0
				var failed error
				for it, err := range c.Scan(ctx, StringKey("a"), IDRange{}, &ScanOptions{Reverse: reverse}) {
					if failed = err; err != nil {
						break
					}
					seen++
					if err := body.do(db, c, it); err != nil {
						t.Fatal(err)
					}
				}
				if body.all && (failed != nil || seen != n) {
					t.Errorf("%d items, %v", seen, failed)
				}
				if !body.all && !errors.Is(failed, ErrClosed) {
					t.Errorf("%d items, %v: want ErrClosed", seen, failed)
				}
			})
		}
	}
}

// TestScanPassesOverDeleted: a scan that finds nothing but deleted items ends.
func TestScanPassesOverDeleted(t *testing.T) {
	ctx := context.Background()
	opts := testOptions(vfs.NewMem())
	opts.Durability, opts.memtableBytes = Buffered, 8<<20
	_, c := openStore(t, opts)
	const n = 8292 // more than twice what a scan passes over at a time
	for i := range n {
		upsert(t, c, fmt.Sprintf("%06d", i), 1)
	}
	for i := range n - 1 {
		if err := c.Delete(ctx, StringKey("a"), fmt.Sprintf("%06d", i), nil); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for it, err := range c.Scan(ctx, StringKey("a"), IDRange{}, nil) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, it.ID)
	}
	if len(got) != 1 || got[0] != fmt.Sprintf("%06d", n-1) {
		t.Errorf("found %v", got)
	}
}
