package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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

// TestListenerRefreshed: functions of a listener are called one at a time, also by two states of a read-only store.
func TestListenerRefreshed(t *testing.T) {
	ctx := t.Context()
	mem := vfs.NewMem()
	_, wc := openStore(t, testOptions(mem))
	upsert(t, wc, "1", 10)
	o := tickingOptions(testOptions(mem))
	o.ReadOnly, o.SlowCall = true, time.Microsecond
	begun, leave := make(chan struct{}), make(chan struct{})
	var inside, calls atomic.Int32
	var together atomic.Bool
	var first sync.Once
	o.Events = &EventListener{SlowCall: func(SlowCallEvent) {
		if inside.Add(1) > 1 {
			together.Store(true)
		}
		first.Do(func() {
			close(begun)
			<-leave
		})
		inside.Add(-1)
		calls.Add(1)
	}}
	db, c := openStore(t, o)
	must(t, second(c.Read(ctx, StringKey("a"), "1")))
	<-begun
	must(t, db.Refresh(ctx))
	must(t, second(c.Read(ctx, StringKey("a"), "1")))
	tries := 0
	until(func() bool { tries++; return together.Load() || tries > 100_000 })
	close(leave)
	must(t, db.Shutdown(ctx))
	if together.Load() || calls.Load() != 2 {
		t.Errorf("%d calls, two at once: %v", calls.Load(), together.Load())
	}
}
