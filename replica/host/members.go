package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/cleavestore/cleave/replica/group"
	"github.com/cleavestore/cleave/replica/topology"
)

// ErrChange says that a change of a group has come to nothing, or cannot be made now.
var ErrChange = errors.New("change of the group has come to nothing")

// describe returns the group as this replica knows it.
func (r *replica) describe() *topology.Group {
	span, _ := r.g.Range()
	d := &topology.Group{ID: topology.GroupID(r.def.ID), Container: r.def.Container, Range: span, Epoch: r.g.ChangedAt()}
	conf := r.g.Config()
	roles := make(map[uint64]topology.Role)
	for _, id := range conf.GetLearners() {
		roles[id] = topology.Incoming
		if topology.IsReader(id) {
			roles[id] = topology.Learner
		}
	}
	for _, id := range slices.Concat(conf.GetVoters(), conf.GetVotersOutgoing()) {
		roles[id] = topology.Voter
	}
	for _, id := range slices.Sorted(maps.Keys(roles)) {
		d.Replicas = append(d.Replicas, topology.Replica{ID: id, Node: topology.NodeOf(id), Role: roles[id]})
		d.NextReplica = id + 1
	}
	return d
}

// voters returns the nodes whose replicas vote, the one that is preferred as the leader first:
// the first one of the cluster's description while it has a replica, otherwise one that follows
// from the id of the group.
func (r *replica) voters() (nodes []uint64) {
	d := r.status.described.Load()
	if d == nil {
		return nil
	}
	for _, o := range d.Replicas {
		if o.Role == topology.Voter {
			nodes = append(nodes, uint64(o.Node))
		}
	}
	slices.Sort(nodes)
	first := 0
	if len(nodes) > 0 {
		first = int(r.def.ID % uint64(len(nodes)))
	}
	if len(r.def.Replicas) > 0 {
		if at := slices.Index(nodes, r.def.Replicas[0]); at >= 0 {
			first = at
		}
	}
	nodes = slices.Concat(nodes[first:], nodes[:first])
	if avoid := r.h.cfg.Avoid; avoid != nil {
		slices.SortStableFunc(nodes, func(a, b uint64) int {
			return cmp.Compare(boolInt(avoid(a)), boolInt(avoid(b)))
		})
	}
	return nodes
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Group returns what this node knows of a group of which it has a replica, nil if it has none,
// or waits for its first snapshot. It must not be changed.
func (h *Host) Group(id uint64) *topology.Group {
	r := h.replicas.get(id)
	if r == nil {
		return nil
	}
	return r.status.described.Load()
}

// Leads reports whether this node takes itself for the leader of a group, and whether the
// replica that is incoming there, if one is, has all but the newest entries.
func (h *Host) Leads(id uint64) (leads, caughtUp bool) {
	r := h.replicas.get(id)
	if r == nil {
		return false, false
	}
	lacks := r.status.lacks.Load()
	return r.status.leading.Load(), lacks > 0 && lacks-1 <= mostLacking
}

// Groups returns the groups of which this node has a replica, by their ids.
func (h *Host) Groups() []uint64 {
	all := h.replicas.all()
	out := make([]uint64, len(all))
	for i, r := range all {
		out[i] = r.def.ID
	}
	return out
}

// follow notes how far the incoming replica of a group that leads here has come.
func (r *replica) follow() {
	lacks := uint64(0)
	if d := r.status.described.Load(); d != nil && r.status.leading.Load() {
		if in, moving := d.Moving(); moving {
			if n, ok := r.g.Progress(in.ID); ok {
				lacks = n + 1
			}
		}
	}
	r.status.lacks.Store(lacks)
}

// AddReplica gives a node an empty replica of a group, which gets a snapshot and all entries but
// does not vote. This node must lead the group. The node makes the replica when it hears of it.
// AddReplica returns when the change was applied here. Errors: those of Split, but for
// group.ErrRange.
func (h *Host) AddReplica(ctx context.Context, id, node uint64) (added uint64, err error) {
	return h.add(ctx, id, node, topology.ReplicaID)
}

// AddReader is AddReplica for a replica that is to stay as it is: clients read from it, at the weaker
// levels.
func (h *Host) AddReader(ctx context.Context, id, node uint64) (added uint64, err error) {
	return h.add(ctx, id, node, topology.ReaderID)
}

func (h *Host) add(ctx context.Context, id, node uint64, newID func(topology.NodeID, uint64) uint64) (added uint64, err error) {
	if node == 0 || node > uint64(topology.MaxNode) {
		return 0, fmt.Errorf("node %d: ids are from 1 to %d: %w", node, topology.MaxNode, ErrChange)
	}
	err = h.change(ctx, id, func(r *replica) error {
		if _, on := r.describe().On(topology.NodeID(node)); on {
			return fmt.Errorf("node %d has a replica of group %d: %w", node, id, ErrChange)
		}
		added = newID(topology.NodeID(node), r.g.Applied())
		return r.g.ProposeChange(single(pb.ConfChangeAddLearnerNode, added))
	}, func(r *replica) bool { return slices.Contains(r.g.Config().GetLearners(), added) })
	return added, err
}

// Promote has a replica vote that AddReplica has added, in the place of another one if instead is
// not 0: both at once, by joint consensus. Errors: those of AddReplica; ErrChange if the replica
// has not come far enough. If instead is the replica on this node, it hands over first, and the
// error is group.ErrNotLeader.
func (h *Host) Promote(ctx context.Context, id, incoming, instead uint64) error {
	return h.change(ctx, id, func(r *replica) error {
		if lacks, ok := r.g.Progress(incoming); !ok || lacks > mostLacking {
			return fmt.Errorf("replica %d of group %d has not caught up: %w", incoming, id, ErrChange)
		}
		c := single(pb.ConfChangeAddNode, incoming)
		if instead != 0 {
			if instead == r.g.Replica() {
				r.handOver(true)
				return group.ErrNotLeader
			}
			c.Changes = append(c.Changes, single(pb.ConfChangeRemoveNode, instead).Changes...)
		}
		return r.g.ProposeChange(c)
	}, func(r *replica) bool {
		conf := r.g.Config()
		return slices.Contains(conf.GetVoters(), incoming) && len(conf.GetVotersOutgoing()) == 0
	})
}

// RemoveReplica removes a replica from a group. Its node destroys it when it hears of that. The
// last voter stays. If it is the one on this node, see Promote.
func (h *Host) RemoveReplica(ctx context.Context, id, gone uint64) error {
	return h.change(ctx, id, func(r *replica) error {
		conf := r.g.Config()
		switch {
		case gone == r.g.Replica():
			r.handOver(true)
			return group.ErrNotLeader
		case slices.Equal(conf.GetVoters(), []uint64{gone}):
			return fmt.Errorf("replica %d is the last voter of group %d: %w", gone, id, ErrChange)
		}
		return r.g.ProposeChange(single(pb.ConfChangeRemoveNode, gone))
	}, func(r *replica) bool { return !r.member(gone) })
}

func single(kind pb.ConfChangeType, replica uint64) *pb.ConfChangeV2 {
	return &pb.ConfChangeV2{Changes: []*pb.ConfChangeSingle{{Type: kind.Enum(), NodeId: &replica}}}
}

// member reports whether a replica is one of the group's, as this one has applied it.
func (r *replica) member(replica uint64) bool {
	conf := r.g.Config()
	return slices.Contains(slices.Concat(conf.GetVoters(), conf.GetLearners(), conf.GetVotersOutgoing(), conf.GetLearnersNext()), replica)
}

// change proposes a change of a group and waits until it is applied here.
func (h *Host) change(ctx context.Context, id uint64, propose func(*replica) error, done func(*replica) bool) error {
	r := h.replicas.get(id)
	if r == nil {
		return fmt.Errorf("group %d: %w", id, ErrNoGroup)
	}
	for tries, end := 0, uint64(0); ; tries++ {
		var err error
		made := false
		finished := make(chan struct{})
		r.call(func() {
			switch {
			case r.failure != nil:
				err = r.failure
			case h.closing.Load():
				err = ErrClosed
			case tries == 0:
				err = propose(r)
				r.check(err)
			default:
				made = done(r)
				if !made && end > 0 && (r.g.Applied() >= end || tries > changeTries) {
					err = fmt.Errorf("group %d: %w", id, ErrChange)
				}
			}
		}, func() {
			if end == 0 && err == nil {
				end, _ = r.log.LastIndex() // never fails
			}
			close(finished)
		})
		select {
		case <-finished:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-h.stop:
			return ErrClosed
		}
		if err != nil || made {
			return err
		}
		select {
		case <-time.After(h.cfg.Tick / 10):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// changeTries is how often it is looked whether a change was made.
const changeTries = 1000

// A replica that was removed may not hear of it: its leader sends it nothing more. So one that
// has not heard of a leader for a while asks. A leader that has applied the removal, and
// another command since, so that a quorum knows of it, answers with a notice, upon which the
// replica is destroyed. Both are Raft messages that raft itself never makes:
//
//	question: MsgHeartbeatResp with context "removed?"; RejectHint is the replica, Index is 1 if
//	          another one than the replica has passed it on
//	notice:   MsgHeartbeat with context "removed"; To is the replica
//
// All members that the replica knows may have left the group too, while its node was down. So now and then it asks all
// nodes. Whichever replica a node has of the group then takes the question.
const (
	question, notice = "removed?", "removed"
	askTicks         = 20            // between questions
	askAllTicks      = 10 * askTicks // between those for all nodes
)

func isQuestion(m *pb.Message) bool {
	return m.GetType() == pb.MsgHeartbeatResp && string(m.GetContext()) == question
}

func isNotice(m *pb.Message) bool {
	return m.GetType() == pb.MsgHeartbeat && string(m.GetContext()) == notice
}

// begins reports whether a message of a kind may be the first one that a replica gets.
func begins(kind pb.MessageType) bool {
	switch kind {
	case pb.MsgApp, pb.MsgHeartbeat, pb.MsgVote, pb.MsgPreVote:
		return true
	}
	return false
}

// step gives the group a message, unless it is about a removal.
func (r *replica) step(m *pb.Message) {
	if r.g == nil {
		return
	}
	switch from := m.GetFrom(); {
	case isNotice(m):
		r.destroy()
		return
	case isReady(m, pb.MsgHeartbeat):
		r.sayReady(m)
		return
	case isReady(m, pb.MsgHeartbeatResp):
		r.isThere(from)
		return
	case isQuestion(m):
		r.answer(m)
		return
	case m.GetType() == pb.MsgApp || m.GetType() == pb.MsgHeartbeat:
		r.idle = 0
		r.heard = from
	default:
		r.heard = from
	}
	r.check(r.g.Step(m))
}

// wonder is called at each tick: it asks whether this replica was removed, if that may be.
func (r *replica) wonder() {
	if r.g == nil {
		return
	}
	if r.idle++; r.idle%askTicks != 0 || r.g.IsLeader() {
		return
	}
	conf := r.g.Config()
	others := slices.Concat(conf.GetVoters(), conf.GetLearners(), conf.GetVotersOutgoing(), []uint64{r.heard})
	if r.idle%askAllTicks == 0 {
		for _, p := range r.h.net.Peers() {
			others = append(others, topology.ReplicaID(topology.NodeID(p.Node), 0))
		}
	}
	slices.Sort(others)
	for _, to := range slices.Compact(others) {
		if to != 0 && to != r.g.Replica() {
			r.ask(to, r.g.Replica(), 0)
		}
	}
}

func (r *replica) ask(to, about, passed uint64) {
	r.h.net.Send(nodeOf(to), r.def.ID, &pb.Message{
		Type: pb.MsgHeartbeatResp.Enum(), From: new(r.g.Replica()), To: &to, RejectHint: &about, Index: &passed, Context: []byte(question),
	})
}

// answer answers a question.
func (r *replica) answer(m *pb.Message) {
	about := m.GetRejectHint()
	if r.member(about) || r.g.Applied() < r.g.Held() {
		return
	}
	if !r.g.IsLeader() {
		if leader := r.g.Leader(); leader != 0 && m.GetIndex() == 0 && leader != about {
			r.ask(leader, about, 1)
		}
		return
	}
	if r.telling[about] {
		return
	}
	c := r.h.emptyCommand(r.g.Applied())
	r.telling[about] = true
	r.take(proposal{c, func(o group.Outcome) {
		delete(r.telling, about)
		if o.Err == nil && r.g != nil && !r.member(about) {
			r.h.net.Send(nodeOf(about), r.def.ID, &pb.Message{Type: pb.MsgHeartbeat.Enum(), From: new(r.g.Replica()), To: &about, Context: []byte(notice)})
		}
	}})
}

// destroy removes this replica, whose group has removed it. Another worker serves other groups
// meanwhile.
func (r *replica) destroy() {
	stop := make(chan struct{})
	defer close(stop)
	r.h.workers.Go(func() { r.h.work(stop) })
	err := r.g.Destroy(context.Background())
	switch {
	case errors.Is(err, group.ErrBusy):
		return // another notice will come
	case err != nil:
		// The next Open completes what was begun.
		r.fail(err)
		return
	}
	r.leave()
}

// leave takes a replica from the node whose log is gone.
func (r *replica) leave() {
	r.g, r.failure, r.applies, r.gone = nil, fmt.Errorf("group %d: %w", r.def.ID, ErrNoGroup), nil, true
	r.h.replicas.remove(r)
	r.h.cfg.Logger.Info("a replica was removed", "node", r.h.cfg.Node, "group", r.def.ID, "replica", r.log.Replica())
	if r.h.cfg.Changed != nil {
		r.h.cfg.Changed(r.def.ID)
	}
}
