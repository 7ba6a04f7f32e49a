package engine

import (
	"context"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

// TestListenerUsesTheStore: listeners may call the store, and a panic in one
// does not reach it.
func TestListenerUsesTheStore(t *testing.T) {
	ctx := context.Background()
	done := make(chan error)
	opts := testOptions(vfs.NewMem())
	var db *DB
	var c *Container
	flushes := 0
	opts.Events = &EventListener{
		Flushed: func(FlushEvent) {
			if flushes++; flushes > 1 {
				return
			}
			_, err := c.Upsert(ctx, smallDocument("from the listener", "a", 10), nil)
			if err == nil {
				err = db.Flush(ctx)
			}
			done <- err
		},
		Compacted: func(CompactionEvent) {
			done <- db.DropContainer(ctx, "c")
			panic("in a listener")
		},
	}
	db, c = openStore(t, opts)
	upsert(t, c, "1", 10)
	if err := db.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	upsert(t, c, "2", 10)
	if err := db.Compact(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	until(func() bool { return db.Stats().ListenerPanics == 1 })
}
