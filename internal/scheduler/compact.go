package scheduler

import (
	"runtime"
	"time"
)

// mostCompactors bounds the goroutines that compact. Flushers feed hardly more than one of them;
// the others are for partitions that would have to wait while compactions of gigabytes run.
const mostCompactors = 3

// compactors is how many goroutines compact: flushes and callers have the other half of the
// processors.
func compactors() int { return min(mostCompactors, max(1, runtime.GOMAXPROCS(0)/2)) }

// compact rewrites files until the store closes or fails: as long as there is something
// to do, one piece of work in each partition in turn.
func (s *Scheduler) compact(wanted Signal) {
	for {
		worked := false
		var wait time.Duration
		for _, p := range s.store.Partitions() {
			if s.ctx.Err() != nil || s.env.Failed() {
				return
			}
			done, left := s.rewrite(p)
			if done {
				worked = true
				s.wakeOthers(wanted) // they have passed over this partition, and it may need more
			}
			if left > 0 {
				wait = sooner(wait, left)
			}
		}
		if !worked && !s.Sleep(wanted, wait) {
			return
		}
	}
}

// wakeOthers asks the compactors, except one, to look at all partitions.
func (s *Scheduler) wakeOthers(except Signal) {
	for _, wanted := range s.rewriteWanted {
		if wanted != except {
			wanted.Raise()
		}
	}
}

// rewrite does one piece of work in a partition, unless another compactor is at it. After a
// failure, left is how long to wait before it is tried again.
func (s *Scheduler) rewrite(p Partition) (done bool, left time.Duration) {
	t := p.Data()
	if !t.CompactTurn.CompareAndSwap(false, true) {
		return false, 0
	}
	defer t.CompactTurn.Store(false)
	if left = t.CompactRetry.Left(); left > 0 {
		return false, left
	}
	done, err := p.RewriteSome(s.ctx)
	if err != nil {
		s.env.Background("compaction", err)
		t.CompactRetry.Failed()
		s.gate.Release() // writes that wait for fewer runs
		return false, t.CompactRetry.Left()
	}
	t.CompactRetry.Succeeded()
	return done, 0
}
