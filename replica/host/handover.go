package host

import (
	"context"
	"errors"
	"fmt"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/cleavestore/cleave/replica/group"
	"github.com/cleavestore/cleave/replica/topology"
)

// A handover is a change of the leader that was planned: a node is to be closed, or is given back its
// groups, or a step of the planner says so. Writes wait while it is under way, so each of its parts is short:
//
//  1. The leader asks the replica that is to follow whether it is there. If no answer comes within
//     readyTicks, or the replica lacks more than mostLacking entries, the handover has come to nothing, and no
//     write has waited. Without that a dead or stopped process would hold writes up.
//  2. The group hands over: see group.HandOver.
//  3. Who waits for this replica is told when it knows the new leader, at most successorTicks later. A
//     client that was told before would have to look for the leader, and wait between two tries.
//
// Both messages are Raft messages that raft itself never makes, as those about removals are. Raft must not see
// the answer: it would take the context for the number of a round of reads.
//
//	question: MsgHeartbeat with context "ready?"; Index is 1 if the other replica is to lead although it may not be the preferred one
//	answer:   MsgHeartbeatResp with context "ready?"
const (
	readyContext   = "ready?"
	readyTicks     = 1
	successorTicks = 5
)

// handover is a handover that this replica has begun.
type handover struct {
	to    uint64
	drain bool
	ticks int  // since the other replica was asked
	begun bool // it has answered, and the group hands over
	done  []func(error)
}

func isReady(m *pb.Message, kind pb.MessageType) bool {
	return m.GetType() == kind && string(m.GetContext()) == readyContext
}

// handTo begins a handover. With stay the other replica was chosen, and does not hand over to the preferred leader; of a node on which
// leaders are not wanted, no other choice is needed. done, which may be nil, is called with how it has ended. Errors for done:
// ErrChange, group.ErrNotLeader, group.ErrBusy.
func (r *replica) handTo(to uint64, drain, stay bool, done func(error)) {
	if done == nil {
		done = func(error) {}
	}
	switch lacks, heard := r.g.Progress(to); {
	case !r.g.IsLeader():
		done(group.ErrNotLeader)
	case r.hand != nil && r.hand.to == to:
		r.hand.done = append(r.hand.done, done)
	case r.hand != nil:
		done(group.ErrBusy)
	case !heard || lacks > mostLacking && !r.h.closing.Load(): // of a node that ends, the others would elect one later
		done(fmt.Errorf("group %d: replica %d lacks %d entries, or was not heard of lately: %w", r.def.ID, to, lacks, ErrChange))
	default:
		r.hand = &handover{to: to, drain: drain, done: []func(error){done}}
		m := &pb.Message{Type: pb.MsgHeartbeat.Enum(), From: new(r.g.Replica()), To: &to, Context: []byte(readyContext)}
		if avoid := r.h.cfg.Avoid; stay && (avoid == nil || !avoid(r.h.cfg.Node)) {
			m.Index = new(uint64(1))
		}
		r.h.net.Send(nodeOf(to), r.def.ID, m)
	}
}

// sayReady answers a leader that is about to hand over to this replica, unless it could not lead: it
// has entries to apply, or its disk takes long.
func (r *replica) sayReady(m *pb.Message) {
	if len(r.applies) == 0 && r.g.Applied() >= r.g.Held() && !r.h.sync.stalled() {
		r.chosen = 0
		if m.GetIndex() == 1 {
			r.chosen = r.g.Term() + 1
		}
		r.h.net.Send(nodeOf(m.GetFrom()), r.def.ID, &pb.Message{Type: pb.MsgHeartbeatResp.Enum(), From: new(r.g.Replica()), To: new(m.GetFrom()), Context: []byte(readyContext)})
	}
}

// isThere is called when the replica that is to lead has answered.
func (r *replica) isThere(from uint64) {
	hand := r.hand
	if hand == nil || hand.begun || hand.to != from {
		return
	}
	if err := r.g.HandOver(hand.to, hand.drain); err != nil {
		r.endHandover(err)
		r.check(err)
		return
	}
	hand.begun, r.succeeds = true, successorTicks
}

// passHandover is called at each tick.
func (r *replica) passHandover() {
	r.succeeds = max(r.succeeds-1, 0)
	if hand := r.hand; hand != nil && !hand.begun {
		if hand.ticks++; hand.ticks > readyTicks {
			r.deaf = hand.to
			r.endHandover(fmt.Errorf("group %d: replica %d does not answer: %w", r.def.ID, hand.to, ErrChange))
		}
	}
}

// lookAtHandover is called when what the group had to do is done.
func (r *replica) lookAtHandover() {
	hand := r.hand
	switch {
	case hand == nil:
	case r.g == nil:
		r.endHandover(r.failure)
	case !r.g.IsLeader():
		r.deaf = 0
		r.endHandover(nil)
	case hand.begun && !r.g.HandingOver():
		r.deaf = hand.to
		r.endHandover(fmt.Errorf("group %d: replica %d did not take over: %w", r.def.ID, hand.to, ErrChange))
	}
	r.status.succeeded.Store(len(r.parked) > 0 || r.succeeds > 0 && r.g != nil && r.g.Leader() == 0)
	if len(r.parked) > 0 && (r.succeeds == 0 || r.g == nil || r.g.Leader() != 0) {
		parked := r.parked
		r.parked = nil
		for _, tell := range parked {
			tell()
		}
	}
}

func (r *replica) endHandover(err error) {
	done := r.hand.done
	r.hand = nil
	for _, f := range done {
		f(err)
	}
}

// tell tells who has proposed a command what has become of it. After a handover it waits until it is known
// who leads.
func (r *replica) tell(done func(group.Outcome), o group.Outcome) {
	again := errors.Is(o.Err, group.ErrNotLeader) || errors.Is(o.Err, group.ErrUnknown)
	if again && r.succeeds > 0 && r.g != nil && r.g.Leader() == 0 {
		r.parked = append(r.parked, func() { done(o) })
		return
	}
	done(o)
}

// handOver gives the leadership to the follower that has the most of the log, of those that have not
// lately left a handover without an answer if there are others. For stay see handTo.
func (r *replica) handOver(stay bool) {
	if r.g == nil || !r.g.IsLeader() || r.hand != nil {
		return
	}
	connected := func(o uint64) bool { return r.h.connectedFor(nodeOf(o)) > 0 }
	to, _ := r.g.Successor(func(o uint64) bool { return o != r.deaf && connected(o) })
	if to == 0 {
		to, _ = r.g.Successor(connected)
	}
	if to != 0 {
		r.balance = balanceTicks
		r.handTo(to, !r.h.sync.stalled(), stay, nil)
	}
}

// Transfer has the replica on another node lead, until it fails or another one is chosen, whichever is preferred as the leader. It
// returns when this one does not lead any more. Errors:
// group.ErrNotLeader; ErrChange if the other one does not vote, is behind, or does not come, after
// which this one goes on; group.ErrBusy if another handover is under way; that of ctx.
func (h *Host) Transfer(ctx context.Context, id, node uint64) error {
	r := h.replicas.get(id)
	if r == nil {
		return fmt.Errorf("group %d: %w", id, ErrNoGroup)
	}
	ended := make(chan error, 1)
	r.do(func() {
		switch {
		case r.failure != nil:
			ended <- r.failure
			return
		case h.closing.Load():
			ended <- ErrClosed
			return
		}
		on, ok := r.describe().On(topology.NodeID(node))
		if !ok || on.Role != topology.Voter {
			ended <- fmt.Errorf("node %d has no replica of group %d that votes: %w", node, id, ErrChange)
			return
		}
		r.balance = balanceTicks
		r.handTo(on.ID, true, true, func(err error) { ended <- err })
	})
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-h.stop:
		return ErrClosed
	}
}
