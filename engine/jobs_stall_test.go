package engine

import (
	"sync/atomic"
	"syscall"
	"time"

	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/vfs"
)

// TestFlushWhileSplitWaits has a split that nobody asked for wait for a merge:
// memtables of the partition are flushed meanwhile, and it can be dropped.
func TestFlushWhileSplitWaits(t *testing.T) {
	for _, drop := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newSplitStore(t, byK, func(o *Options) { o.manual = false })
			for i := range 100 {
				s.put(i, "a", strings.Repeat("x", 100))
			}
			p := s.db.partitions()[0]
			must(s.t, p.Compacting.Lock(context.Background())) // as a merge does
			job := p.queueSplit(nil)
			synctest.Wait()
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			for i := range 3 {
				s.put(i, "b", fmt.Sprint("while the split waits ", i))
				done := make(chan error, 1)
				go func() { done <- s.db.Flush(ctx) }()
				synctest.Wait()
				select {
				case err := <-done:
					must(s.t, err)
				default:
					t.Fatal("a flush waits for the merge")
				}
			}
			if drop {
				done := make(chan error, 1)
				go func() { done <- s.db.DropContainer(ctx, "c") }()
				synctest.Wait() // nobody can reach the container now; the merge is waited for
				p.Compacting.Unlock()
				must(s.t, <-done)
				if err := job.Wait(ctx); err == nil {
					t.Error("a partition was split whose container was dropped")
				}
				return
			}
			p.Compacting.Unlock()
			must(s.t, job.Wait(ctx))
			s.check()
		})
	}
}

// TestInheritanceEndsLater has children fail to note that they inherit nothing
// any more: it is tried again, and what has grown too large is split.
func TestInheritanceEndsLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		faulty := vfs.NewFaulty(mem)
		s := newSplitStore(t, byK, func(o *Options) { o.manual, o.fs, o.MaxPartitionBytes = false, faulty, 30<<10 })
		s.mem = mem
		for i := range 200 {
			s.put(i, "a", strings.Repeat("x", 100))
		}
		must(s.t, s.db.Flush(t.Context()))
		var failed atomic.Int32
		faulty.SetHook(func(c vfs.Call) error {
			// The first manifest of a child is part of the split, the second one is not.
			if c.Op == vfs.OpCreate && strings.Contains(c.Name, manifest.Name(2)) && c.Name != manifest.Name(2) && failed.Add(1) <= 4 {
				return syscall.ENOSPC
			}
			return nil
		})
		s.split(0, nil)
		if failed.Load() == 0 {
			t.Fatal("nothing failed: the test reached too little")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		for _, p := range s.db.partitions() {
			if len(p.Inherited()) > 0 {
				t.Errorf("partition %d has not ended its inheritance", p.ID)
			}
		}
		for i := range 1000 {
			s.put(i, "b", strings.Repeat("x", 100))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := len(s.ids()); n < 4 {
			t.Errorf("%d partitions after a load", n)
		}
		s.check()
		must(s.t, s.db.Close())
	})
}
