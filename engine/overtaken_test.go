package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

// overtake has fn happen when the next write was looked up and does not have the
// commit lock yet.
func overtake(db *DB, fn func()) {
	db.opts.lookedAhead = func() {
		db.opts.lookedAhead = nil
		fn()
	}
}

// TestOvertakenByFlush: what a conditional write has found in files is overwritten,
// and that is in files, before it is judged.
func TestOvertakenByFlush(t *testing.T) {
	ctx := context.Background()
	key := StringKey("a")
	for name, write := range map[string]func(c *Container, seen ETag) error{
		"one": func(c *Container, seen ETag) error {
			return second(c.Replace(ctx, doc("x", "a", 3), &WriteOptions{IfMatch: seen}))
		},
		"batch": func(c *Container, seen ETag) error {
			b := c.NewBatch(key)
			must(t, b.Replace(doc("x", "a", 3), &WriteOptions{IfMatch: seen}))
			return second(c.Commit(ctx, b))
		},
		"patch": func(c *Container, seen ETag) error {
			return second(c.Patch(ctx, key, "x", new(Patch).Set("/n", 3), &WriteOptions{IfMatch: seen}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			db, c := openStore(t, testOptions(vfs.NewMem()))
			meta, err := c.Upsert(ctx, doc("x", "a", 1), nil)
			must(t, err)
			must(t, db.Flush(ctx))
			overtake(db, func() {
				must(t, second(c.Upsert(ctx, doc("x", "a", 2), nil)))
				must(t, db.Flush(ctx))
			})
			if err := write(c, meta.ETag); !errors.Is(err, ErrPrecondition) {
				t.Errorf("a write for a version that is overwritten: %v", err)
			}
			if it, err := c.Read(ctx, key, "x"); err != nil || string(it.Body) != string(doc("x", "a", 2)) {
				t.Errorf("%s, %v", it.Body, err)
			}
		})
	}
}

// TestOvertakenUntilCancelled: a patch whose item others keep changing ends with its context.
func TestOvertakenUntilCancelled(t *testing.T) {
	db, c := openStore(t, testOptions(vfs.NewMem()))
	must(t, second(c.Upsert(t.Context(), doc("x", "a", 0), nil)))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const cancelled, last = 3, 6
	tries := 0
	var again func()
	again = func() {
		db.opts.lookedAhead = nil
		if tries++; tries == cancelled {
			cancel()
		}
		if tries < last {
			must(t, second(c.Upsert(t.Context(), doc("x", "a", tries), nil)))
			db.opts.lookedAhead = again
		}
	}
	db.opts.lookedAhead = again
	if err := second(c.Patch(ctx, StringKey("a"), "x", new(Patch).Increment("/n", 1), nil)); !errors.Is(err, context.Canceled) || tries != cancelled {
		t.Errorf("%v after %d tries", err, tries)
	}
}

// TestOvertakenBySplit: the partition that a write was looked up in is replaced
// before the write has its lock. It goes to the one that took its place.
func TestOvertakenBySplit(t *testing.T) {
	ctx := context.Background()
	key := StringKey("a")
	for name, write := range map[string]func(c *Container) error{
		"upsert": func(c *Container) error { return second(c.Upsert(ctx, doc("new", "a", 1), nil)) },
		"create": func(c *Container) error { return second(c.Create(ctx, doc("new", "a", 1), nil)) },
		"batch": func(c *Container) error {
			b := c.NewBatch(key)
			must(t, b.Create(doc("new", "a", 1), nil))
			return second(c.Commit(ctx, b))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSplitStore(t, byK, nil)
			for i := range 20 {
				s.put(i, fmt.Sprint(i), "text")
			}
			must(s.t, s.db.Flush(ctx))
			overtake(s.db, func() { s.split(0, nil) })
			must(s.t, write(s.c))
			s.docs[itemID{"c", key, "new"}] = string(doc("new", "a", 1))
			s.check()
			s.reopen(s.mem.Crash(vfs.CrashOptions{}))
			s.check()
		})
	}
}

// TestOvertakenByDrop: the container of a write is dropped before the write has its
// partition's lock.
func TestOvertakenByDrop(t *testing.T) {
	ctx := context.Background()
	db, c := openStore(t, testOptions(vfs.NewMem()))
	overtake(db, func() { must(t, db.DropContainer(ctx, "c")) })
	if _, err := c.Upsert(ctx, doc("x", "a", 1), nil); !errors.Is(err, ErrClosed) {
		t.Errorf("write to a container that was dropped: %v", err)
	}
}
