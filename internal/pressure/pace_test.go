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
	"github.com/cleavestore/cleave/internal/tiers"
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

// nestedTiers is a partition of whose runs one compaction after the other is under way, nested in each
// other: runs that flushes write, of one size, in front of the inputs of a large one. Frozen
// memtables stand for runs.
type nestedTiers struct {
	*testStore
	frozen []lsm.Frozen
	mu     sync.Mutex
	bytes  int64 // of all runs
	small  int   // runs in front of the large compaction
	ready  int   // of them, runs that no compaction has merged
}

const (
	runBytes   = 8 << 20                            // what a flush takes of the write buffers, and writes
	largeBytes = tiers.Runs * tiers.Runs * runBytes // of the inputs of the large compaction
	readSecond = 100 << 20                          // what compactions read in a second
)

func newTiers(t *testing.T) *nestedTiers {
	r := &nestedTiers{testStore: newStore(t), bytes: largeBytes}
	r.tree.TableBytes.Store(runBytes)
	r.tree.RunBytes.Store(runBytes)
	for range 2 * tiers.MostRuns {
		r.freeze()
	}
	r.frozen = r.tree.Version.Load().Frozen
	r.change(0, 0, 0)
	return r
}

// change adds runs to those in front and to those that are ready, and bytes.
func (r *nestedTiers) change(small, ready int, bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.small, r.ready, r.bytes = r.small+small, r.ready+ready, r.bytes+bytes
	r.tree.Swap(func(v lsm.Version) lsm.Version {
		v.Frozen, v.RunBytes = r.frozen[:tiers.ManyRuns+r.small], r.bytes
		return v
	})
}

// compact reads so many bytes, at readSecond, and lets others in between.
func (r *nestedTiers) compact(bytes, behind int64) {
	job := r.tree.Drain.BeginNested(bytes, tiers.Runs-1, behind)
	for i := range int64(100) {
		job.Wrote(i, 100)
		time.Sleep(time.Duration(bytes * int64(time.Second) / readSecond / 100))
		r.mu.Lock()
		ready, below := r.ready, r.bytes-int64(r.ready)*runBytes
		r.mu.Unlock()
		if ready >= tiers.Runs {
			job.Pause()
			r.change(0, -tiers.Runs, 0)
			r.compact(tiers.Runs*runBytes, below+tiers.Runs*runBytes)
			r.change(1-tiers.Runs, 0, 0)
			job.Resume()
		}
	}
	job.End(false)
}

// TestPacedToCompactions: while a compaction of many seconds is under way, writers that are
// faster write evenly, and about as much as it reads: nested compactions merge what they write
// meanwhile. None of them is held up for long.
func TestPacedToCompactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const (
			size = 16 << 10
			most = 20 * time.Millisecond // that a write may be held up
		)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r := newTiers(t)
		var ended atomic.Bool
		go func() {
			r.compact(largeBytes, largeBytes)
			ended.Store(true)
		}()
		var written []int64 // in each second
		longest, total := time.Duration(0), int64(0)
		for start := time.Now(); !ended.Load(); time.Sleep(100 * time.Microsecond) { // 160 MB/s
			begun := time.Now()
			if _, err := r.gate.Admit(ctx, r.tree, size); err != nil {
				t.Fatal(err)
			}
			r.gate.Done(size)
			longest = max(longest, time.Since(begun))
			if int(begun.Sub(start)/time.Second) == len(written) {
				written = append(written, 0)
			}
			written[len(written)-1] += size
			if total += size; total%runBytes == 0 {
				r.change(1, 1, runBytes)
			}
		}
		if longest > most {
			t.Errorf("a write was held up for %v, at most %v is wanted", longest, most)
		}
		whole := written[:len(written)-1] // seconds
		if mean := total / int64(len(written)); slices.Min(whole) < mean/10*7 {
			t.Errorf("written in each second: %v, which is not even", written)
		}
		if total < largeBytes/10*8 || total > largeBytes/10*11 {
			t.Errorf("%d bytes were written while %d were compacted", total, int64(largeBytes))
		}
	})
}
