package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavestore/cleave/internal/vfs"
)

// TestCountHoldsUpNobodyElse stops the count of a logical partition that is nearly
// full, which reads files. Writes to other logical partitions go on, and a write to
// the same one waits no longer than its context lasts.
func TestCountHoldsUpNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		opts := testOptions(vfs.NewMem())
		var armed atomic.Bool // the next count is stopped
		opts.clock = func() time.Time {
			if strings.Contains(string(debug.Stack()), ").countSome(") && armed.CompareAndSwap(true, false) {
				<-gate
			}
			return time.Now()
		}
		db, c := openStore(t, opts, ContainerDef{PartitionKey: []string{"/k"}, Limits: ContainerLimits{LogicalPartitionBytes: 100_000}})
		var ids atomic.Int32
		put := func(ctx context.Context, key string) error {
			return second(c.Upsert(ctx, smallDocument(fmt.Sprint(ids.Add(1)), key, 30_000), nil))
		}
		for _, key := range []string{"a", "a", "b", "c"} { // the partition holds more than a logical one may
			must(t, put(t.Context(), key))
		}
		armed.Store(true)
		counted := background(func() error { return put(t.Context(), "a") })
		synctest.Wait()
		if len(counted) > 0 {
			t.Fatal("nothing was counted: the test reached too little")
		}
		ctx, cancel := context.WithCancel(t.Context())
		other := background(func() error { return put(ctx, "d") })
		same := background(func() error { return put(ctx, "a") })
		synctest.Wait() // both have come as far as they can
		cancel()
		synctest.Wait()
		select {
		case err := <-other:
			must(t, err)
		default:
			t.Error("a write to another logical partition waits for the count")
		}
		select {
		case err := <-same:
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		default:
			t.Error("a write to the same logical partition ignores its context")
		}
		close(gate)
		synctest.Wait()
		must(t, <-counted)
		must(t, db.Close())
	})
}

// TestCountedWhileReplaced: a write waits until it is counted, and meanwhile a split empties the partition that it was routed
// to. What it replaces is not found there, and it is not refused for that: the write is routed again.
func TestCountedWhileReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := testOptions(vfs.NewMem())
		hook := func() {}
		opts.lookedAhead = func() { hook() }
		db, c := openStore(t, opts, ContainerDef{PartitionKey: []string{"/k"}, Limits: ContainerLimits{LogicalPartitionBytes: 100_000}})
		put := func(id, key string) error {
			return second(c.Upsert(t.Context(), smallDocument(id, key, 30_000), nil))
		}
		for _, id := range []string{"1", "2", "3"} {
			must(t, put(id, "a"))
		}
		must(t, put("1", "b"))
		var late, split <-chan error
		hook = func() { // the first write was counted, and no other one of its key is until it has ended
			hook = func() {}
			late = background(func() error { return put("2", "a") })
			synctest.Wait()
			split = background(func() error {
				job, err := c.Split(t.Context(), c.Partitions()[0].ID, nil)
				must(t, err)
				return job.Wait(t.Context())
			})
			synctest.Wait()
		}
		must(t, put("1", "a"))
		must(t, <-split)
		if err := <-late; err != nil {
			t.Errorf("a document of the same size in the place of another: %v", err)
		}
		must(t, db.Close())
	})
}
