package scheduler

import (
	"time"

	"github.com/cleavestore/cleave/wal"
)

const (
	// Interval is how often Store.Tick is called.
	Interval = 250 * time.Millisecond
	// IdleFlush is how long a partition takes no writes before its memtable is flushed.
	IdleFlush = 30 * time.Second

	vouchAfter = time.Second // without writes
)

// idleBytes is the size from which a memtable is flushed when its partition takes no
// more writes. Otherwise the space of deleted items would not come back.
const idleBytes = 64 << 10

// upkeeper looks after the log, and after partitions that take no writes.
type upkeeper struct {
	*Scheduler
	position wal.Position // of the log when it was last seen to move
	moved    time.Time
	idle     map[Partition]stillness
}

// stillness says since when a partition has had the same newest write.
type stillness struct {
	seq   uint64
	since time.Time
}

// upkeep looks after the store until it closes.
func (s *Scheduler) upkeep() {
	u := upkeeper{Scheduler: s, moved: time.Now(), idle: make(map[Partition]stillness)}
	ticker := time.NewTicker(Interval)
	defer ticker.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.log.SpareWanted():
			if err := s.log.MakeSpare(s.ctx); err != nil {
				s.env.Background("make a spare log file", s.env.Uncertain(err))
			}
		case <-ticker.C:
			if !s.env.Failed() {
				u.tick(time.Now())
			}
		}
	}
}

func (u *upkeeper) tick(now time.Time) {
	if err := u.vouch(now); err != nil {
		u.env.Background("sync the log", u.env.Uncertain(err))
		if u.env.Failed() {
			return
		}
		// Otherwise the disk is full. What follows may make room.
	}
	if err := u.store.ShrinkLog(); err != nil {
		u.env.Background("shrink the log", err)
	}
	u.flushIdle(now)
	u.store.Tick()
}

// vouch vouches for the last records once nothing follows them.
func (u *upkeeper) vouch(now time.Time) error {
	at := u.log.Appended()
	if at != u.position {
		u.position, u.moved = at, now
		return nil
	}
	if now.Sub(u.moved) < vouchAfter {
		return nil
	}
	err := u.log.Vouch()
	u.position = u.log.Appended()
	return err
}

// flushIdle flushes partitions that took no writes for IdleFlush.
func (u *upkeeper) flushIdle(now time.Time) {
	for p := range u.idle {
		if p.Data().Dropped.Load() {
			delete(u.idle, p)
		}
	}
	for _, p := range u.store.Partitions() {
		if p.Data().Version.Load().Active.Bytes() < idleBytes {
			delete(u.idle, p)
			continue
		}
		seq := p.LastSeq()
		if was, ok := u.idle[p]; !ok || was.seq != seq {
			u.idle[p] = stillness{seq, now}
			continue
		}
		if now.Sub(u.idle[p].since) >= IdleFlush {
			p.Freeze()
			delete(u.idle, p)
			u.FlushSoon()
		}
	}
}

// syncAtIntervals syncs the log until the store closes or fails.
func (s *Scheduler) syncAtIntervals(interval time.Duration) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-ticker.C:
			if s.env.Failed() {
				return
			}
			if err := s.log.Sync(); err != nil {
				s.env.Background("sync the log", s.env.Uncertain(err))
			}
		}
	}
}
