package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

func idsOf(t testing.TB, tx *Tx, ids IDRange, o *ScanOptions) (got []string) {
	t.Helper()
	for it, err := range tx.Scan(ids, o) {
		must(t, err)
		got = append(got, it.ID)
	}
	return got
}

func TestView(t *testing.T) {
	ctx := context.Background()
	db, c := openStore(t, testOptions(vfs.NewMem()))
	for i := range 4 {
		upsert(t, c, fmt.Sprint("i", i), 10)
	}
	var outside *Tx
	var pulled func() (Item, error, bool)
	err := c.View(ctx, StringKey("a"), func(tx *Tx) error {
		outside = tx
		var stop func()
		pulled, stop = iter.Pull2(tx.Scan(IDRange{}, nil))
		t.Cleanup(stop)
		if it, err, ok := pulled(); !ok || err != nil || it.ID != "i0" {
			t.Errorf("pulled: %v, %v, %v", it.ID, err, ok)
		}
		upsert(t, c, "i2", 99)
		upsert(t, c, "new", 10)
		must(t, c.Delete(ctx, StringKey("a"), "i0", nil))
		must(t, db.Flush(ctx))
		must(t, db.Compact(ctx))
		if it, err := tx.Read("i2"); err != nil || len(it.Body) >= 99 || it.Seq > tx.Seq() {
			t.Errorf("i2: %.40q, %v", it.Body, err)
		}
		if _, err := tx.Read("new"); !errors.Is(err, ErrNotFound) {
			t.Errorf("new: %v", err)
		}
		if got := idsOf(t, tx, IDRange{}, nil); !slices.Equal(got, []string{"i0", "i1", "i2", "i3"}) {
			t.Errorf("scan: %v", got)
		}
		if err := tx.Upsert(doc("x", "a", 1), nil); !errors.Is(err, ErrReadOnly) {
			t.Errorf("write: %v", err)
		}
		if err := tx.Delete("i1", nil); !errors.Is(err, ErrReadOnly) {
			t.Errorf("delete: %v", err)
		}
		return errInjected
	})
	if err != errInjected {
		t.Errorf("View: %v", err)
	}
	if _, err := outside.Read("i1"); !errors.Is(err, ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
	for _, err := range outside.Scan(IDRange{}, nil) {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("after the end: %v", err)
		}
	}
	if _, err, ok := pulled(); !ok || !errors.Is(err, ErrClosed) {
		t.Errorf("a scan that is pulled after the end: %v, %v", err, ok)
	}
	if n := db.Stats().Snapshots; n != 0 {
		t.Errorf("%d sequences held", n)
	}
	if err := c.View(ctx, PartitionKey{}, nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("zero key: %v", err)
	}
}

func TestUpdate(t *testing.T) {
	ctx := context.Background()
	db, c := openStore(t, testOptions(vfs.NewMem()))
	old, err := c.Upsert(ctx, doc("b", "a", 0), nil)
	must(t, err)
	upsert(t, c, "d", 10)
	metas, err := c.UpdateWith(ctx, StringKey("a"), nil, func(tx *Tx) error {
		refused := func(what string, err, want error) {
			t.Helper()
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", what, err, want)
			}
		}
		refused("create b", tx.Create(doc("b", "a", 1), nil), ErrExists)
		refused("replace c", tx.Replace(doc("c", "a", 1), nil), ErrNotFound)
		refused("delete c", tx.Delete("c", nil), ErrNotFound)
		refused("etag", tx.Upsert(doc("b", "a", 1), &WriteOptions{IfMatch: old.ETag + 1}), ErrPrecondition)
		refused("key", tx.Upsert(doc("b", "other", 1), nil), ErrKeyMismatch)
		refused("durability", tx.Upsert(doc("b", "a", 1), &WriteOptions{Durability: Synced}), ErrInvalid)
		must(t, tx.Replace(doc("b", "a", 1), &WriteOptions{IfMatch: old.ETag}))
		refused("etag of its own", tx.Upsert(doc("b", "a", 1), &WriteOptions{IfMatch: old.ETag}), ErrPrecondition)
		must(t, tx.Create(doc("c", "a", 2), nil))
		must(t, tx.Create(doc("a", "a", 3), nil))
		must(t, tx.Upsert(doc("c", "a", 44444), nil))
		must(t, tx.Delete("d", nil))
		must(t, tx.Create(doc("e", "a", 5), nil))
		must(t, tx.Delete("e", nil))
		if it, err := tx.Read("c"); err != nil || string(it.Body) != string(doc("c", "a", 44444)) || it.ETag != 0 {
			t.Errorf("own write: %s, %v", it.Body, err)
		}
		if _, err := tx.Read("d"); !errors.Is(err, ErrNotFound) {
			t.Errorf("own delete: %v", err)
		}
		for _, tc := range []struct {
			ids  IDRange
			o    ScanOptions
			want []string
		}{
			{IDRange{}, ScanOptions{}, []string{"a", "b", "c"}},
			{IDRange{}, ScanOptions{Limit: 2}, []string{"a", "b"}},
			{IDRange{From: "b"}, ScanOptions{}, []string{"b", "c"}},
			{IDRange{After: "b"}, ScanOptions{}, []string{"c"}},
			{IDRange{Before: "c"}, ScanOptions{}, []string{"a", "b"}},
			{IDRange{After: "a", Before: "c"}, ScanOptions{Reverse: true}, []string{"b"}},
			{IDRange{Prefix: "b"}, ScanOptions{}, []string{"b"}},
			{IDRange{}, ScanOptions{Reverse: true}, []string{"c", "b", "a"}},
			{IDRange{To: "b"}, ScanOptions{Reverse: true, Limit: 1}, []string{"b"}},
			{IDRange{To: "bb"}, ScanOptions{Reverse: true}, []string{"b", "a"}},
			{IDRange{To: "x"}, ScanOptions{Reverse: true, Limit: 2}, []string{"c", "b"}},
			{IDRange{From: "d"}, ScanOptions{}, nil},
		} {
			if got := idsOf(t, tx, tc.ids, &tc.o); !slices.Equal(got, tc.want) {
				t.Errorf("%+v %+v: %v, want %v", tc.ids, tc.o, got, tc.want)
			}
		}
		// A loop shows what was there when it began.
		n := 0
		for it, err := range tx.Scan(IDRange{}, nil) {
			must(t, err)
			must(t, tx.Upsert(doc(it.ID+"+", "a", 0), nil))
			n++
		}
		if n != 3 {
			t.Errorf("%d items in a loop that writes", n)
		}
		return nil
	})
	must(t, err)
	if len(metas) != 8 || metas[0].ID != "b" || metas[1].ID != "c" || metas[1].Seq != metas[0].Seq+1 {
		t.Errorf("%+v", metas)
	}
	if it, err := c.Read(ctx, StringKey("a"), "c"); err != nil || it.ETag != metas[1].ETag || string(it.Body) != string(doc("c", "a", 44444)) {
		t.Errorf("%s, %v", it.Body, err)
	}
	seq := db.Stats().LastSeq
	if err := c.Update(ctx, StringKey("a"), func(tx *Tx) error {
		must(t, tx.Delete("b", nil))
		return errInjected
	}); err != errInjected {
		t.Errorf("error of fn: %v", err)
	}
	if now := db.Stats().LastSeq; now != seq {
		t.Errorf("sequences %d to %d were given out", seq+1, now)
	}
	if n := db.Stats().Snapshots; n != 0 {
		t.Errorf("%d sequences held", n)
	}
}

// TestConflicts: of two transactions that overlap, which one is refused.
func TestConflicts(t *testing.T) {
	ctx := context.Background()
	for _, tc := range []struct {
		name         string
		tx           func(tx *Tx)
		other        func(c *Container) error
		si, serial   bool // whether there is a conflict
		afterFlushed bool
	}{
		{name: "same item", tx: func(tx *Tx) { must(t, tx.Upsert(doc("i1", "a", 1), nil)) },
			other: func(c *Container) error { _, err := c.Upsert(ctx, doc("i1", "a", 2), nil); return err }, si: true, serial: true},
		{name: "another item", tx: func(tx *Tx) { must(t, tx.Upsert(doc("i1", "a", 1), nil)) },
			other: func(c *Container) error { _, err := c.Upsert(ctx, doc("i2", "a", 2), nil); return err }},
		{name: "same item deleted", tx: func(tx *Tx) { must(t, tx.Upsert(doc("i1", "a", 1), nil)) },
			other: func(c *Container) error { return c.Delete(ctx, StringKey("a"), "i1", nil) }, si: true, serial: true},
		{name: "both create", tx: func(tx *Tx) { must(t, tx.Create(doc("new", "a", 1), nil)) },
			other: func(c *Container) error { _, err := c.Create(ctx, doc("new", "a", 2), nil); return err }, si: true, serial: true},
		{name: "created and deleted", tx: func(tx *Tx) { must(t, tx.Create(doc("new", "a", 1), nil)) },
			other: func(c *Container) error {
				if _, err := c.Create(ctx, doc("new", "a", 2), nil); err != nil {
					return err
				}
				return c.Delete(ctx, StringKey("a"), "new", nil)
			}, si: true, serial: true},
		{name: "logical partition deleted", tx: func(tx *Tx) { must(t, tx.Create(doc("new", "a", 1), nil)) },
			other: func(c *Container) error { return c.DeleteLogicalPartition(ctx, StringKey("a"), nil) }, si: true, serial: true},
		{name: "another logical partition deleted", tx: func(tx *Tx) { must(t, tx.Create(doc("new", "a", 1), nil)) },
			other: func(c *Container) error { return c.DeleteLogicalPartition(ctx, StringKey("b"), nil) }},
		{name: "read item", tx: func(tx *Tx) {
			_, err := tx.Read("i2")
			must(t, err)
			must(t, tx.Upsert(doc("i1", "a", 1), nil))
		}, other: func(c *Container) error { _, err := c.Upsert(ctx, doc("i2", "a", 2), nil); return err }, serial: true},
		{name: "read item that was not there", tx: func(tx *Tx) {
			if _, err := tx.Read("new"); !errors.Is(err, ErrNotFound) {
				t.Error(err)
			}
			must(t, tx.Upsert(doc("i1", "a", 1), nil))
		}, other: func(c *Container) error { _, err := c.Upsert(ctx, doc("new", "a", 2), nil); return err }, serial: true},
		{name: "phantom", tx: func(tx *Tx) {
			idsOf(t, tx, IDRange{From: "i2"}, nil)
			must(t, tx.Upsert(doc("i1", "a", 1), nil))
		}, other: func(c *Container) error { _, err := c.Upsert(ctx, doc("i22", "a", 2), nil); return err }, serial: true},
		{name: "before the range", tx: func(tx *Tx) {
			idsOf(t, tx, IDRange{From: "i2"}, nil)
			must(t, tx.Upsert(doc("i1", "a", 1), nil))
		}, other: func(c *Container) error { _, err := c.Upsert(ctx, doc("i11", "a", 2), nil); return err }},
		{name: "at the open end of the range", tx: func(tx *Tx) {
			idsOf(t, tx, IDRange{After: "i0", Before: "i2"}, nil)
			must(t, tx.Upsert(doc("x", "a", 1), nil))
		}, other: func(c *Container) error {
			return errors.Join(second(c.Upsert(ctx, doc("i0", "a", 2), nil)), second(c.Upsert(ctx, doc("i2", "a", 2), nil)))
		}},
		{name: "within a prefix", tx: func(tx *Tx) {
			idsOf(t, tx, IDRange{Prefix: "i1"}, nil)
			must(t, tx.Upsert(doc("x", "a", 1), nil))
		}, other: func(c *Container) error { _, err := c.Upsert(ctx, doc("i1x", "a", 2), nil); return err }, serial: true},
		{name: "behind the limit", tx: func(tx *Tx) {
			idsOf(t, tx, IDRange{}, &ScanOptions{Limit: 2})
			must(t, tx.Upsert(doc("x", "a", 1), nil))
		}, other: func(c *Container) error { _, err := c.Upsert(ctx, doc("i11", "a", 2), nil); return err }},
		{name: "within the limit", tx: func(tx *Tx) {
			idsOf(t, tx, IDRange{}, &ScanOptions{Limit: 2})
			must(t, tx.Upsert(doc("x", "a", 1), nil))
		}, other: func(c *Container) error { _, err := c.Upsert(ctx, doc("i01", "a", 2), nil); return err }, serial: true},
		{name: "reverse, behind the limit", tx: func(tx *Tx) {
			idsOf(t, tx, IDRange{}, &ScanOptions{Limit: 2, Reverse: true})
			must(t, tx.Upsert(doc("x", "a", 1), nil))
		}, other: func(c *Container) error { _, err := c.Upsert(ctx, doc("i1", "a", 2), nil); return err }},
		{name: "reverse, within the limit", tx: func(tx *Tx) {
			idsOf(t, tx, IDRange{}, &ScanOptions{Limit: 2, Reverse: true})
			must(t, tx.Upsert(doc("x", "a", 1), nil))
		}, other: func(c *Container) error { return c.Delete(ctx, StringKey("a"), "i2", nil) }, serial: true},
		{name: "another partition key", tx: func(tx *Tx) {
			idsOf(t, tx, IDRange{}, nil)
			must(t, tx.Upsert(doc("i1", "a", 1), nil))
		}, other: func(c *Container) error { _, err := c.Upsert(ctx, doc("i1", "b", 2), nil); return err }},
		{name: "reads only", tx: func(tx *Tx) { idsOf(t, tx, IDRange{}, nil) },
			other: func(c *Container) error { _, err := c.Upsert(ctx, doc("i1", "a", 2), nil); return err }},
	} {
		for _, where := range []string{"memory", "frozen", "files", "settled", "split", "late", "late, in files"} {
			for _, serializable := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/%v", tc.name, where, serializable), func(t *testing.T) {
					db, c := openStore(t, testOptions(vfs.NewMem()))
					for i := range 4 {
						upsert(t, c, fmt.Sprint("i", i), 10)
					}
					upsert(t, c, "xx", 10)
					must(t, c.Delete(ctx, StringKey("a"), "xx", nil))
					must(t, db.Flush(ctx))
					calls := 0
					_, err := c.UpdateWith(ctx, StringKey("a"), &UpdateOptions{Serializable: serializable, Reruns: -1}, func(tx *Tx) error {
						calls++
						tc.tx(tx)
						if strings.HasPrefix(where, "late") {
							// Between the look without a lock and the commit.
							db.opts.lookedAhead = func() {
								db.opts.lookedAhead = nil
								must(t, tc.other(c))
								if where != "late" {
									must(t, db.Flush(ctx))
								}
							}
							return nil
						}
						must(t, tc.other(c))
						p := c.routing.Load().parts[0]
						switch where {
						case "frozen":
							p.Freeze()
						case "files":
							must(t, db.Flush(ctx))
						case "settled":
							must(t, db.Flush(ctx))
							must(t, db.Compact(ctx))
						case "split":
							for i := range 8 {
								_, err := c.Upsert(ctx, doc("x", fmt.Sprint("more", i), 1), nil)
								must(t, err)
							}
							job, err := c.Split(ctx, p.ID, nil)
							must(t, err)
							must(t, job.Wait(ctx))
						}
						return nil
					})
					want := tc.si
					if serializable {
						want = tc.serial
					}
					if got := errors.Is(err, ErrConflict); got != want || !got && err != nil || calls != 1 {
						t.Errorf("%v, want conflict %v; %d calls", err, want, calls)
					}
				})
			}
		}
	}
}

// TestRerun: after a conflict fn is called anew and sees what it met, at once
// where that has waited for its sync.
func TestRerun(t *testing.T) {
	ctx := context.Background()
	db, c := openStore(t, testOptions(vfs.NewMem()))
	upsert(t, c, "x", 10)
	calls := 0
	must(t, c.Update(ctx, StringKey("a"), func(tx *Tx) error {
		calls++
		it, err := tx.Read("x")
		must(t, err)
		if calls == 1 {
			_, err := c.Upsert(ctx, doc("x", "a", 41), nil)
			must(t, err)
		} else if string(it.Body) != string(doc("x", "a", 41)) {
			t.Errorf("second try read %.40s", it.Body)
		}
		return tx.Upsert(doc("x", "a", 42), nil)
	}))
	if calls != 2 || db.Stats().Conflicts != 1 {
		t.Errorf("%d calls, %d conflicts", calls, db.Stats().Conflicts)
	}
	calls = 0
	err := c.Update(ctx, StringKey("a"), func(tx *Tx) error {
		calls++
		_, err := c.Upsert(ctx, doc("x", "a", calls), nil)
		must(t, err)
		return tx.Upsert(doc("x", "a", 0), nil)
	})
	if !errors.Is(err, ErrConflict) || calls != 1+defaultReruns {
		t.Errorf("%v after %d calls", err, calls)
	}
	canceled, cancel := context.WithCancel(ctx)
	err = c.Update(canceled, StringKey("a"), func(tx *Tx) error {
		_, err := c.Upsert(ctx, doc("x", "a", 1), nil)
		must(t, err)
		cancel()
		return tx.Upsert(doc("x", "a", 0), nil)
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

func TestNestedUpdate(t *testing.T) {
	ctx := context.Background()
	_, c := openStore(t, testOptions(vfs.NewMem()))
	upsert(t, c, "x", 10)
	nop := func(*Tx) error { return nil }
	var deep func(n int) error
	deep = func(n int) error {
		if n == 0 {
			return c.Update(ctx, StringKey("b"), nop)
		}
		return deep(n - 1)
	}
	must(t, c.Update(ctx, StringKey("a"), func(tx *Tx) error {
		if err := c.Update(ctx, StringKey("a"), nop); !errors.Is(err, ErrNestedUpdate) {
			t.Errorf("Update: %v", err)
		}
		if _, err := c.UpdateWith(ctx, StringKey("a"), nil, nop); !errors.Is(err, ErrNestedUpdate) {
			t.Errorf("UpdateWith: %v", err)
		}
		if err := deep(30); !errors.Is(err, ErrNestedUpdate) {
			t.Errorf("30 calls away: %v", err)
		}
		done := make(chan error)
		go func() { done <- c.Update(ctx, StringKey("b"), nop) }() // another goroutine's
		must(t, <-done)
		return c.View(ctx, StringKey("a"), func(tx *Tx) error { // a View may be
			_, err := tx.Read("x")
			return err
		})
	}))
	must(t, c.View(ctx, StringKey("a"), func(*Tx) error { return c.Update(ctx, StringKey("a"), nop) }))
	must(t, c.Update(ctx, StringKey("a"), nop))
}

// TestScanAgain: each loop over a scan of a transaction begins anew, also after a loop that
// was left early.
func TestScanAgain(t *testing.T) {
	_, c := openStore(t, testOptions(vfs.NewMem()))
	key := StringKey("a")
	for _, id := range []string{"x", "y"} {
		must(t, second(c.Upsert(t.Context(), fmt.Appendf(nil, `{"id":%q,"k":"a"}`, id), nil)))
	}
	for _, reverse := range []bool{false, true} {
		must(t, c.Update(t.Context(), key, func(tx *Tx) error {
			must(t, tx.Upsert([]byte(`{"id":"z","k":"a"}`), nil))
			scan := tx.Scan(IDRange{}, &ScanOptions{Reverse: reverse})
			for range scan {
				break
			}
			n := 0
			for _, err := range scan {
				must(t, err)
				n++
			}
			if n != 3 {
				t.Errorf("reverse %v: %d items in the second loop", reverse, n)
			}
			return nil
		}))
	}
}

// TestUpdatePanics: a panic of fn leaves nothing behind.
func TestUpdatePanics(t *testing.T) {
	ctx := context.Background()
	db, c := openStore(t, testOptions(vfs.NewMem()))
	func() {
		defer func() { _ = recover() }()
		_ = c.Update(ctx, StringKey("a"), func(tx *Tx) error {
			must(t, tx.Upsert(doc("x", "a", 1), nil))
			panic("fn")
		})
	}()
	if _, err := c.Read(ctx, StringKey("a"), "x"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	if n := db.Stats().Snapshots; n != 0 {
		t.Errorf("%d sequences held", n)
	}
	must(t, c.Update(ctx, StringKey("a"), func(*Tx) error { return nil }))
}

// TestScanOpenAtCommit: a serializable transaction depends on what a scan has given that ends only after the commit.
func TestScanOpenAtCommit(t *testing.T) {
	ctx := context.Background()
	_, c := openStore(t, testOptions(vfs.NewMem()))
	for i := range 3 {
		upsert(t, c, fmt.Sprint("i", i), 10)
	}
	_, err := c.UpdateWith(ctx, StringKey("a"), &UpdateOptions{Serializable: true, Reruns: -1}, func(tx *Tx) error {
		pulled, stop := iter.Pull2(tx.Scan(IDRange{}, nil))
		t.Cleanup(stop)
		if it, err, ok := pulled(); !ok || err != nil || it.ID != "i0" {
			t.Errorf("pulled: %v, %v, %v", it.ID, err, ok)
		}
		upsert(t, c, "i0", 99)
		return tx.Upsert(doc("sum", "a", 1), nil)
	})
	if !errors.Is(err, ErrConflict) {
		t.Errorf("the item that the scan gave was written meanwhile: %v, want a conflict", err)
	}
}
