package group

import (
	"errors"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// Leader returns the id of the replica that is the leader as far as this one knows, 0 if it
// knows none.
func (g *Group) Leader() uint64 {
	if g.failed != nil {
		return 0
	}
	return g.node.BasicStatus().Lead
}

// IsLeader reports whether this replica takes itself for the leader.
func (g *Group) IsLeader() bool {
	return g.failed == nil && g.node.BasicStatus().RaftState == raft.StateLeader
}

// View is what a replica knows of its group.
type View struct {
	Leader, Term uint64 // of Leader and Term
	Leads        bool   // this replica takes itself for the leader
}

// View returns what the replica knows now.
func (g *Group) View() View {
	if g.failed != nil {
		return View{}
	}
	s := g.node.BasicStatus()
	return View{Leader: s.Lead, Term: s.HardState.GetTerm(), Leads: s.RaftState == raft.StateLeader}
}

// Config returns the group's members, as this replica has applied them.
func (g *Group) Config() *pb.ConfState {
	return proto.CloneOf(g.state.confs[len(g.state.confs)-1].conf)
}

// Campaign has this replica, if it does not lead, ask to be elected.
func (g *Group) Campaign() error {
	return g.guard(func() error {
		_ = g.node.Campaign() // raft may refuse, and the next call tries again
		return nil
	})
}

// ForgetLeader tells a follower that its leader has died: it may vote for another one at
// once. If the leader lives, the follower learns of it by the next heartbeat.
func (g *Group) ForgetLeader() error {
	return g.guard(func() error {
		_ = g.node.ForgetLeader() // only a leader refuses
		return nil
	})
}

// Successor returns the replica that a leader may hand over to best, and how many entries it
// lacks: of those that may and have been heard of lately, the one that has most of the log.
// 0: there is none.
func (g *Group) Successor(may func(replica uint64) bool) (best, lacks uint64) {
	if !g.IsLeader() {
		return 0, 0
	}
	last, _ := g.cfg.Log.LastIndex() // never fails
	match := uint64(0)
	g.node.WithProgress(func(id uint64, kind raft.ProgressType, pr trackerProgress) {
		if kind == raft.ProgressTypePeer && id != g.cfg.Log.Replica() && pr.RecentActive && may(id) && (best == 0 || pr.Match > match) {
			best, match = id, pr.Match
		}
	})
	return best, last - min(last, match)
}

// ReportUnreachable tells a leader that messages to a replica were lost.
func (g *Group) ReportUnreachable(replica uint64) error {
	delete(g.probes, replica)
	return g.guard(func() error { g.node.ReportUnreachable(replica); return nil })
}

// ProposeChange proposes a change of the members. Config tells when it was made.
func (g *Group) ProposeChange(c *pb.ConfChangeV2) error {
	if !g.IsLeader() {
		return ErrNotLeader
	}
	err := g.guard(func() error { return g.node.ProposeConfChange(c) })
	if errors.Is(err, raft.ErrProposalDropped) {
		return ErrBusy
	}
	return err
}

// Term returns the Raft term that this replica has come to.
func (g *Group) Term() uint64 {
	if g.failed != nil {
		return 0
	}
	return g.node.BasicStatus().HardState.GetTerm()
}

// Replica returns the id of this replica.
func (g *Group) Replica() uint64 { return g.cfg.Log.Replica() }

// ChangedAt returns the newest entry that this replica has applied and that has changed the
// members or the range of the group, or one behind it: after a restart, and in a replica that
// began with a snapshot, the base of the log counts as such an entry. Of two descriptions of a
// group, the one with the higher entry is right.
func (g *Group) ChangedAt() uint64 {
	at := g.state.confs[len(g.state.confs)-1].index
	if n := len(g.state.splits); n > 0 {
		at = max(at, g.state.splits[n-1].index)
	}
	return at
}

// Progress returns how many entries a replica lacks, as far as this leader knows; ok says that
// this one leads, and has heard of the other one lately.
func (g *Group) Progress(replica uint64) (lacks uint64, ok bool) {
	if !g.IsLeader() {
		return 0, false
	}
	last, _ := g.cfg.Log.LastIndex() // never fails
	g.node.WithProgress(func(id uint64, _ raft.ProgressType, pr trackerProgress) {
		if id == replica && pr.RecentActive && pr.Match > 0 {
			lacks, ok = last-min(last, pr.Match), true
		}
	})
	return lacks, ok
}
