package host

import (
	"runtime"
	"sync"
	"time"

	"github.com/cleavestore/cleave/replica/group"
	"github.com/cleavestore/cleave/wal"
)

// syncer is the queue of appends that are written and not durable.
type syncer struct {
	mu     sync.Mutex
	wake   *sync.Cond
	queue  []pending
	closed bool
	added  uint64
	since  time.Time // when the wait for the log has begun; zero: there is none
}

type pending struct {
	r *replica
	written
}

func (s *syncer) init() { s.wake = sync.NewCond(&s.mu) }

// add queues an append.
func (s *syncer) add(r *replica, g *group.Group, a *group.Append) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, pending{r, written{g, a}})
	if a.Position > 0 {
		s.added++
	}
	if len(s.queue) == 1 {
		s.wake.Signal()
	}
}

func (s *syncer) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.wake.Signal()
}

// count returns how many appends have written something.
func (s *syncer) count() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.added
}

// stalled reports whether the log takes long.
func (s *syncer) stalled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.since.IsZero() && time.Since(s.since) > StallTime
}

// next returns what is to be waited for; empty: the host closes.
func (s *syncer) next(before []pending) []pending {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since = time.Time{}
	for len(s.queue) == 0 && !s.closed {
		s.wake.Wait()
	}
	// Other groups may be about to append, and this sync can serve them too.
	for n := 0; n < len(s.queue) && !s.closed; {
		n = len(s.queue)
		s.mu.Unlock()
		runtime.Gosched()
		s.mu.Lock()
	}
	some := s.queue
	s.queue = emptied(before)
	s.since = time.Now()
	return some
}

// syncLoop makes appends durable and tells their groups.
func (h *Host) syncLoop() {
	var some []pending
	for {
		if some = h.sync.next(some); len(some) == 0 {
			return
		}
		pos := wal.Position(0)
		for i := range some {
			pos = max(pos, some[i].a.Position)
		}
		if err := h.waitLog(pos); err != nil {
			h.fail(err)
			return
		}
		for i := range some {
			p := &some[i]
			p.r.put(func(b *batch) bool { b.written = append(b.written, p.written); return true })
		}
	}
}

// waitLog waits until the log is durable up to pos. On a full disk it waits for space.
func (h *Host) waitLog(pos wal.Position) error {
	for {
		err := h.log.Wait(pos)
		if err == nil || !isStalled(err) {
			return err
		}
		h.cfg.Logger.Error("the disk of the Raft log is full", "node", h.cfg.Node, "err", err)
		select {
		case <-h.ctx.Done():
			return err
		case <-time.After(StallTime):
		}
	}
}
