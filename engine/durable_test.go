package engine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/cleavestore/cleave/internal/vfs"
)

// TestRefusalsAreDurable: what a conditional write answers must not rest on a
// version that a crash could still take back, any more than what a read shows.
func TestRefusalsAreDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		gate, db, c := openGated(t)
		written := make(chan error, 2)
		go func() { written <- second(c.Create(ctx, smallDocument("x", "a", 10), nil)) }()
		go func() { written <- c.Delete(ctx, StringKey("a"), "old", nil) }()
		synctest.Wait()
		answers := make(chan error, 2)
		go func() { answers <- second(c.Create(ctx, smallDocument("x", "a", 10), nil)) }()
		go func() { answers <- second(c.Replace(ctx, smallDocument("old", "a", 10), nil)) }()
		synctest.Wait()
		if n := len(written) + len(answers); n != 0 {
			t.Errorf("%d writes are answered before the sync", n)
		}
		if _, err := c.Read(ctx, StringKey("a"), "x"); !errors.Is(err, ErrNotFound) {
			t.Errorf("read before the sync: %v", err)
		}
		if _, err := c.Read(ctx, StringKey("a"), "old"); err != nil {
			t.Errorf("read before the sync: %v", err)
		}
		gate.release()
		for range 2 {
			must(t, <-written)
			if err := <-answers; !errors.Is(err, ErrExists) && !errors.Is(err, ErrNotFound) {
				t.Errorf("after the sync: %v", err)
			}
		}
		if s := db.Stats(); s.Failed != nil {
			t.Error(s.Failed)
		}
		must(t, db.Close())
	})
}

// TestRefusalsOfSynced: what refuses a write that asks for a sync survives a power cut, though it was written without one.
func TestRefusalsOfSynced(t *testing.T) {
	there := smallDocument("3", "a", 1)
	for name, write := range map[string]func(c *Container) error{
		"one": func(c *Container) error {
			return second(c.Create(t.Context(), there, &WriteOptions{Durability: Synced}))
		},
		"batch": func(c *Container) error {
			b := c.NewBatch(StringKey("a"))
			b.Durability = Synced
			must(t, b.Create(there, nil))
			return second(c.Commit(t.Context(), b))
		},
	} {
		mem, _, c := bufferedStore(t)
		if err := write(c); !errors.Is(err, ErrExists) {
			t.Errorf("%s: %v", name, err)
		}
		if err := holds(mem.Crash(vfs.CrashOptions{Keep: vfs.KeepNone}), 10); err != nil {
			t.Errorf("%s, after a power cut: %v", name, err)
		}
	}
}

// TestBufferedBehindSynced: a write that needs no sync, behind one of its partition
// that waits for its own, is not shown before that one is durable. What shows it
// would show both.
func TestBufferedBehindSynced(t *testing.T) {
	for name, write := range map[string]func(context.Context, *Container, *WriteOptions) error{
		"upsert": func(ctx context.Context, c *Container, o *WriteOptions) error {
			_, err := c.Upsert(ctx, smallDocument("second", "a", 10), o)
			return err
		},
		"delete": func(ctx context.Context, c *Container, o *WriteOptions) error {
			return c.Delete(ctx, StringKey("a"), "old", o)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				gate, db, c := openGated(t)
				acked := make(chan error, 2)
				go func() {
					_, err := c.Upsert(ctx, smallDocument("first", "a", 10), &WriteOptions{Durability: Synced})
					acked <- err
				}()
				synctest.Wait()
				go func() { acked <- write(ctx, c, &WriteOptions{Durability: Buffered}) }()
				synctest.Wait()
				if n := len(acked); n != 0 {
					t.Errorf("%d writes are acknowledged before the sync", n)
				}
				for _, id := range []string{"first", "second"} {
					if _, err := c.Read(ctx, StringKey("a"), id); !errors.Is(err, ErrNotFound) {
						t.Errorf("%s is read before the sync: %v", id, err)
					}
				}
				if _, err := c.Read(ctx, StringKey("a"), "old"); err != nil {
					t.Errorf("deleted before the sync: %v", err)
				}
				gate.release()
				for range 2 {
					if err := <-acked; err != nil {
						t.Error(err)
					}
				}
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
