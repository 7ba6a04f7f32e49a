package host

import (
	"errors"
	"time"

	"github.com/cleavestore/cleave/replica/group"
	"github.com/cleavestore/cleave/replica/topology"
	"github.com/cleavestore/cleave/wal"
)

const (
	// orphanTicks is how long a replica looks for a new leader by itself before it leaves that
	// to Raft's timeouts, and retryTicks how long it waits between two tries. A first try is
	// made after forgetTime, when the others have noticed too.
	orphanTicks, retryTicks = 20, 4
	forgetTime              = 20 * time.Millisecond
	// steadyTime is how long a node must have been connected before it is given leaderships,
	// and balanceTicks how long a group waits between two tries to give its away. It looks
	// whether it can every lookTicks.
	steadyTime   = 3 * time.Second
	goneTime     = 10 * time.Second // without a connection, after which no log is kept for a snapshot that is being installed
	balanceTicks = 100
	lookTicks    = 7
	// mostLacking is how many entries the preferred leader may lack.
	mostLacking = 64
)

func isStalled(err error) bool { return errors.Is(err, wal.ErrStalled) }

// Connected implements transport.Handler.
func (h *Host) Connected(node uint64) {
	h.peers.Lock()
	defer h.peers.Unlock()
	h.peers.since[node] = time.Now()
}

// Disconnected implements transport.Handler.
func (h *Host) Disconnected(node uint64) {
	h.peers.Lock()
	delete(h.peers.since, node)
	h.peers.Unlock()
	if h.closing.Load() {
		return
	}
	h.leading(node, (*group.Group).ReportUnreachable)
	time.AfterFunc(goneTime, func() {
		if h.connectedFor(node) > 0 || h.closing.Load() {
			return
		}
		h.leading(node, (*group.Group).ForgetSnapshot)
	})
	time.AfterFunc(ReconnectTime, func() {
		if h.connectedFor(node) > 0 || h.closing.Load() {
			return
		}
		for _, r := range h.replicas.all() {
			if r.status.leader.Load() == node {
				r.do(func() { r.lost(node) })
			}
		}
	})
}

// leading tells each group that is led from here something of its replica on another node.
func (h *Host) leading(node uint64, tell func(*group.Group, uint64) error) {
	for _, r := range h.replicas.all() {
		r.do(func() {
			if d := r.status.described.Load(); d != nil && r.g != nil && r.g.IsLeader() {
				if on, ok := d.On(topology.NodeID(node)); ok {
					r.check(tell(r.g, on.ID))
				}
			}
		})
	}
}

// connectedFor returns how long there has been a connection with a node, 0 if there is none.
func (h *Host) connectedFor(node uint64) time.Duration {
	h.peers.Lock()
	defer h.peers.Unlock()
	since, found := h.peers.since[node]
	if !found {
		return 0
	}
	return max(time.Since(since), 1)
}

// lost is called when the node of the leader is gone.
func (r *replica) lost(node uint64) {
	if r.g == nil || nodeOf(r.g.Leader()) != node {
		return
	}
	if r.check(r.g.ForgetLeader()); r.g == nil {
		return
	}
	// The others have noticed it too. They do not ask all at once.
	rank := 0
	for _, o := range r.voters() {
		if o == r.h.cfg.Node {
			break
		}
		if o != node && r.h.connectedFor(o) > 0 {
			rank++
		}
	}
	r.orphan, r.wait = orphanTicks, retryTicks
	if rank > 0 {
		r.wait = retryTicks / 2 // between the tries of the first one
		return
	}
	time.AfterFunc(forgetTime, func() {
		r.do(func() {
			if r.g != nil && r.orphan > 0 && r.g.Leader() == 0 {
				r.check(r.g.Campaign())
			}
		})
	})
}

// seekLeader is called at each tick.
func (r *replica) seekLeader() {
	if r.orphan == 0 || r.g == nil {
		return
	}
	r.orphan--
	switch {
	case r.g.Leader() != 0:
		r.orphan = 0
	case r.wait > 0:
		r.wait--
	default:
		r.wait = retryTicks
		r.check(r.g.Campaign())
	}
}

// prefer hands over to the preferred leader, if that is there and has nearly everything, and this one was not chosen.
func (r *replica) prefer() {
	if r.g == nil || r.balance > 0 || r.h.closing.Load() || !r.status.leading.Load() || r.chosen == r.g.Term() {
		return
	}
	r.balance = lookTicks
	nodes := r.voters()
	if len(nodes) == 0 || nodes[0] == r.h.cfg.Node || r.h.connectedFor(nodes[0]) < steadyTime {
		return
	}
	to, lacks := r.g.Successor(func(o uint64) bool { return nodeOf(o) == nodes[0] })
	switch {
	case to == 0:
		r.balance = 1 // it has not answered since Raft has forgotten who has
	case lacks <= mostLacking:
		r.balance = balanceTicks
		r.handTo(to, true, false, nil)
	}
}
