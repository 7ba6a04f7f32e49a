package host

import (
	"sync"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
)

const (
	// lateTime is how long a message waits at most that only tells a follower what was committed.
	lateTime = 4 * time.Millisecond
	// hurryAfter is after how many such times commands get an entry although earlier ones have no
	// outcome yet. A quorum on the same continent answers before.
	hurryAfter = 3
)

// late has the replicas that hold such messages, or commands, back. While a group is written to,
// the next entries for a follower say the same, so most of these messages need never be sent, nor
// answered.
type late struct {
	mu       sync.Mutex
	replicas []*replica
	wake     chan struct{}
}

// add notes that a replica holds messages back.
func (l *late) add(r *replica) {
	l.mu.Lock()
	l.replicas = append(l.replicas, r)
	first := len(l.replicas) == 1
	l.mu.Unlock()
	if first {
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
}

// lateLoop has messages sent that were held back.
func (h *Host) lateLoop() {
	for {
		select {
		case <-h.ctx.Done():
			return
		case <-h.late.wake:
		}
		select {
		case <-h.ctx.Done():
			return
		case <-time.After(lateTime):
		}
		h.late.mu.Lock()
		all := h.late.replicas
		h.late.replicas = nil
		h.late.mu.Unlock()
		for _, r := range all {
			r.do(r.sendLate)
		}
	}
}

// send sends a message, or holds it back for a moment.
func (r *replica) send(m *pb.Message) {
	if m.GetType() == pb.MsgApp {
		if len(m.GetEntries()) == 0 {
			r.beLate()
			r.held[m.GetTo()] = m // what an older one says this one says too
			return
		}
		delete(r.held, m.GetTo())
	}
	r.h.net.Send(nodeOf(m.GetTo()), r.def.ID, m)
}

// beLate has sendLate called in a moment.
func (r *replica) beLate() {
	if !r.late {
		r.late = true
		r.h.late.add(r)
	}
}

// watch has commands that wait for an entry looked at again in a moment.
func (r *replica) watch() {
	if r.g != nil && r.g.Waiting() > 0 {
		r.beLate()
	}
}

// sendLate sends what was held back.
func (r *replica) sendLate() {
	r.late = false
	if r.g != nil {
		before := r.waits
		if r.waits = r.g.Waiting(); r.waits == 0 || r.waits != before {
			r.lates = 0
		}
		if r.lates++; r.waits > 0 && r.lates >= hurryAfter {
			r.g.Hurry()
		}
	}
	for to, m := range r.held {
		r.h.net.Send(nodeOf(to), r.def.ID, m)
	}
	clear(r.held)
}
