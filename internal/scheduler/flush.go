package scheduler

import "time"

// SmallMemtable is the size below which a memtable is not worth a file: the log keeps it.
const SmallMemtable = 256 << 10

// MayFlush says that a flush may begin beside those that run.
func (s *Scheduler) MayFlush() bool {
	return s.flushes.Load() < s.calm || s.gate.Waiting() || s.gate.Pacing()
}

// flush flushes until the store closes.
func (s *Scheduler) flush() {
	for {
		p, wait := s.nextFlush()
		if p == nil {
			if !s.Sleep(s.flushWanted, wait) {
				return
			}
			continue
		}
		err := s.flushOne(p)
		if s.ctx.Err() != nil {
			return
		}
		if err != nil {
			s.env.Background("flush", err)
			s.gate.Flushed(err)
			continue
		}
		s.gate.Flushed(nil)
		if err := s.store.ReleaseLog(); err != nil {
			s.env.Background("release log files", err)
		}
		s.RewriteSoon()
		s.FlushSoon()
	}
}

// flushOne flushes the partition that nextFlush chose.
func (s *Scheduler) flushOne(p Partition) error {
	t := p.Data()
	defer t.Flushing.Unlock()
	s.flushes.Add(1)
	defer s.flushes.Add(-1)
	err := p.FlushOldest(s.ctx)
	if err != nil {
		t.FlushRetry.Failed()
	} else {
		t.FlushRetry.Succeeded()
	}
	return err
}

// nextFlush takes the partition with the most frozen bytes. If nothing is frozen, it
// freezes a memtable first when memory asks for it. Partitions whose flush failed are
// left alone for a while; if only those have something to flush, it returns how long to
// wait. Tree.Flushing of the partition is held.
func (s *Scheduler) nextFlush() (Partition, time.Duration) {
	if s.env.Failed() || !s.MayFlush() {
		return nil, 0
	}
	parts := s.store.Partitions()
	best, wait := mostFrozen(parts)
	// Partitions whose flush failed must not hold up the others.
	if best == nil && (s.gate.Ripe() || s.gate.Starved() || wait > 0 && s.env.Pool.Used() > s.env.Pool.Limit()/4*3) && s.freezeLargest(parts) {
		best, wait = mostFrozen(parts)
	}
	if best == nil || !best.Data().Flushing.TryLock() {
		return nil, wait
	}
	return best, 0
}

// freezeLargest freezes the largest memtable of partitions whose flush has not failed.
// It passes over partitions whose turn to flush is taken: their memtable could only
// wait. If one of those memtables is larger, a memtable below SmallMemtable is frozen
// only while a write waits for memory.
func (s *Scheduler) freezeLargest(parts []Partition) bool {
	var largest Partition
	var most, taken int64
	for _, p := range parts {
		t := p.Data()
		n := t.Version.Load().Active.Reserved()
		if t.FlushRetry.Left() > 0 {
			continue
		}
		if t.Flushing.Locked() {
			taken = max(taken, n)
		} else if n > most {
			largest, most = p, n
		}
	}
	if largest == nil || most < min(taken, SmallMemtable) && !s.gate.Waiting() {
		return false
	}
	return largest.Freeze()
}

// mostFrozen returns the partition with the most frozen bytes of those that are not
// being flushed, and how long to wait for the first of those whose flush failed.
func mostFrozen(parts []Partition) (best Partition, wait time.Duration) {
	var most int64
	for _, p := range parts {
		t := p.Data()
		var n int64
		for _, f := range t.Version.Load().Frozen {
			n += f.Reserved()
		}
		if n == 0 || t.Flushing.Locked() {
			continue
		}
		if left := t.FlushRetry.Left(); left > 0 {
			wait = sooner(wait, left)
			continue
		}
		if n > most {
			best, most = p, n
		}
	}
	return best, wait
}
