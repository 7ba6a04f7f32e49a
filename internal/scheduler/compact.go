package scheduler

import "time"

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
			retry := &p.Data().CompactRetry
			if left := retry.Left(); left > 0 {
				wait = sooner(wait, left)
				continue
			}
			done, err := p.RewriteSome(s.ctx)
			if err != nil {
				s.env.Background("compaction", err)
				retry.Failed()
				continue
			}
			retry.Succeeded()
			worked = worked || done
		}
		if !worked && !s.Sleep(s.rewriteWanted, wait) {
			return
		}
	}
}
