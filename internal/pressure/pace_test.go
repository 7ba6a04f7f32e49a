package pressure

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestPacedToFlushes: writers that are faster than flushes, and than flushes that stall for
// a second now and then, do not stop: no write is held up for long, none waits for
// memory, and they are about as fast as what they wait for.
func TestPacedToFlushes(t *testing.T) {
	for _, writers := range []int{1, 64} {
		for _, stall := range []time.Duration{0, time.Second} {
			t.Run(fmt.Sprint(writers, " writers, stalls of ", stall), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { pacedToFlushes(t, writers, stall) })
			})
		}
	}
}

func pacedToFlushes(t *testing.T, writers int, stall time.Duration) {
	size := int64(1 << 10)
	if writers > 1 {
		size = 512 // 64 writes that are held up for mostPause take little memory
	}
	const (
		table   = limit / 5
		flushed = 200 * time.Millisecond // a memtable
		total   = 10 * table
		most    = 20 * time.Millisecond // that a write may be held up
	)
	s := newStore(t)
	var longest, waits atomic.Int64
	var active atomic.Int64 // bytes
	full := make(chan struct{}, 1)
	done := make(chan struct{})
	var flusher sync.WaitGroup
	flusher.Go(func() { // flushes one memtable after the other
		for n := 0; ; {
			select {
			case <-full:
			case <-done:
				return
			}
			for active.Load() >= table {
				active.Add(-table)
				n++
				s.Env.FrozenBytes.Add(table)
				f := s.gate.Drain.Begin(table)
				for i := range int64(100) {
					f.Wrote(i, 100)
					time.Sleep(flushed / 100)
					if stall > 0 && n%8 == 0 && i == 50 {
						time.Sleep(stall)
					}
				}
				s.Env.FrozenBytes.Add(-table)
				s.Env.Pool.Unreserve(table)
				f.End(false)
				s.gate.Release()
			}
		}
	})
	var wg sync.WaitGroup
	start := time.Now()
	var left atomic.Int64
	left.Store(total / size)
	for range writers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				begun := time.Now()
				if _, err := s.gate.Admit(t.Context(), s.tree, size); err != nil {
					t.Error(err)
					return
				}
				if !s.Env.Pool.Reserve(size, 0) {
					t.Error("the memory that was promised is not there")
				}
				s.gate.Done(size)
				held := int64(time.Since(begun))
				if held > int64(most) {
					waits.Add(1)
				}
				if old := longest.Load(); held > old {
					longest.CompareAndSwap(old, held)
				}
				if active.Add(size) >= table {
					select {
					case full <- struct{}{}:
					default:
					}
				}
				time.Sleep(time.Microsecond * time.Duration(writers)) // a million a second together
			}
		})
	}
	wg.Wait()
	took := time.Since(start)
	close(done)
	flusher.Wait()
	if waits.Load() > 0 {
		t.Errorf("%d of %d writes were held up for more than %v, the longest for %v", waits.Load(), total/size, most, time.Duration(longest.Load()))
	}
	drained := total/table*flushed + stall*(total/table/8)
	if took > drained*6/5 {
		t.Errorf("writers took %v, flushes of all take %v", took, drained)
	}
}
