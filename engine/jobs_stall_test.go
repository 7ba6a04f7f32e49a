package engine

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
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
			s.must(p.merging.take(context.Background())) // as a merge does
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
					s.must(err)
				default:
					t.Fatal("a flush waits for the merge")
				}
			}
			if drop {
				go p.merging.leave()
				s.must(s.db.DropContainer(ctx, "c"))
				if err := job.Wait(ctx); err == nil {
					t.Error("a partition was split whose container was dropped")
				}
				return
			}
			p.merging.leave()
			s.must(job.Wait(ctx))
			s.check()
		})
	}
}
