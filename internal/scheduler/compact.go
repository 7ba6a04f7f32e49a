package scheduler

import (
	"time"

	"github.com/cleavestore/cleave/internal/tiers"
)

// compact rewrites files until the store closes or fails: as long as there is something
// to do, one piece of work in each partition in turn.
func (s *Scheduler) compact() {
	for {
		worked := false
		var wait time.Duration
		for _, p := range s.store.Partitions() {
			if s.ctx.Err() != nil || s.env.Failed() {
				return
			}
			if left := p.Data().CompactRetry.Left(); left > 0 {
				wait = sooner(wait, left)
				continue
			}
			worked = s.rewriteSome(p) || worked
		}
		if !worked && !s.Sleep(s.rewriteWanted, wait) {
			return
		}
	}
}

// rewriteSome does one piece of work in a partition, and says whether there was some.
func (s *Scheduler) rewriteSome(p Partition) bool {
	retry := &p.Data().CompactRetry
	done, err := p.RewriteSome(s.ctx)
	if err != nil {
		s.env.Background("compaction", err)
		retry.Failed()
		return false
	}
	retry.Succeeded()
	return done
}

// lookEvery is how often a compaction looks after other partitions.
const lookEvery = 100 * time.Millisecond

// Meanwhile compacts in partitions whose writers slow down because they have many runs. A
// compaction calls it between two pieces of work, on its goroutine: one of gigabytes would
// keep them waiting for a minute.
func (s *Scheduler) Meanwhile() {
	now, looked := int64(time.Since(s.begun)), s.looked.Load()
	if now-looked < int64(lookEvery) || !s.looked.CompareAndSwap(looked, now) {
		return
	}
	for _, p := range s.store.Partitions() {
		t := p.Data()
		if t.Version.Load().Ages() >= tiers.ManyRuns && !t.Compacting.Locked() && t.CompactRetry.Left() <= 0 && s.ctx.Err() == nil {
			s.rewriteSome(p)
		}
	}
}
