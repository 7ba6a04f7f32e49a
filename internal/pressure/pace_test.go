package pressure

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavestore/cleave/internal/lsm"
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
				f := s.gate.Drain.Begin(table, table)
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

// TestPacedToCompactions: while a compaction of seconds is under way, writers that are faster
// write evenly, and as much as its runs allow. None of them has to wait for its end.
func TestPacedToCompactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const (
			run     = 8 << 20 // what a flush takes of the write buffers
			size    = 16 << 10
			seconds = 6
			most    = 20 * time.Millisecond // that a write may be held up
		)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		s := newStore(t)
		for range lsm.ManyRuns + 1 {
			s.freeze()
		}
		room := int64(lsm.MostRuns - s.tree.Version.Load().Ages())
		s.tree.TableBytes.Store(run)
		var compaction sync.WaitGroup
		compaction.Go(func() {
			job := s.tree.Drain.Begin(1<<30, lsm.ManyRuns)
			for i := range int64(100 * seconds) {
				job.Wrote(i, 100*seconds)
				time.Sleep(10 * time.Millisecond)
			}
			job.End(false)
		})
		var written [seconds]int64
		all, longest := int64(0), time.Duration(0)
		for start := time.Now(); ; time.Sleep(100 * time.Microsecond) { // 160 MB/s
			begun := time.Now()
			if begun.Sub(start) >= seconds*time.Second {
				break
			}
			if _, err := s.gate.Admit(ctx, s.tree, size); err != nil {
				t.Fatal(err)
			}
			s.gate.Done(size)
			longest = max(longest, time.Since(begun))
			written[begun.Sub(start)/time.Second] += size
			if all += size; all%run == 0 {
				s.freeze()
			}
		}
		compaction.Wait()
		if longest > most {
			t.Errorf("a write was held up for %v, at most %v is wanted", longest, most)
		}
		if mean := all / seconds; slices.Min(written[:]) < mean/10*7 {
			t.Errorf("written in each second: %v, which is not even", written)
		}
		if all < (room-2*keptRuns)*run || all > room*run {
			t.Errorf("%d bytes written, where there is room for %d runs of %d", all, room, run)
		}
	})
}
