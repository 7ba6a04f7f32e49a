package group

import (
	"bytes"
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"
)

// A change of the members may be known to fewer replicas than hold it. For instance the leader replaces replica
// 2 by 4, tells 2 that the change is committed, and is lost with its disk. Then 4 has the change in its log and
// does not know that it may vote. A replica that lags behind asks for votes, and gets none, since its log is
// too short. And 2, which knows everything, may not be elected. All data is there, and no replica can lead.
//
// So a replica that may not be elected, and is asked to vote for one with a shorter log, tells all members what was
// committed. It sends what the leader of its term could have sent: an append without entries. Of a receiver
// that has the entry, and only of such a one, it raises the commit. That an entry of an index and a term is
// committed stays true whoever says it, so nothing depends on the term in which it is said. Raft takes the sender of an
// append for the leader, and would send it what is for the leader; so the receiver forgets that at once.

// notLeading marks such an append.
var notLeading = []byte("not of a leader")

// step gives raft a message. What raft refuses is for nobody.
func (g *Group) step(m *pb.Message) {
	g.node.Step(m)
	if m.GetType() == pb.MsgApp && bytes.Equal(m.GetContext(), notLeading) {
		_ = g.node.ForgetLeader() // only a leader refuses
	}
	g.inform(m)
}

// inform answers a request to vote with what was committed, if this replica may not be elected and the one that
// asks lacks some of it.
func (g *Group) inform(m *pb.Message) {
	if t := m.GetType(); t != pb.MsgPreVote && t != pb.MsgVote {
		return
	}
	at, conf := g.state.applied, g.state.confs[len(g.state.confs)-1].conf
	if m.GetIndex() >= at || slices.Contains(conf.GetVoters(), g.Replica()) || slices.Contains(conf.GetVotersOutgoing(), g.Replica()) {
		return
	}
	term, err := g.cfg.Log.Term(at)
	if err != nil || m.GetLogTerm() > term {
		return // the log does not have it any more, or the other one has newer entries
	}
	for _, id := range slices.Concat(conf.GetVoters(), conf.GetVotersOutgoing(), conf.GetLearners()) {
		g.send = append(g.send, &pb.Message{
			Type: pb.MsgApp.Enum(), From: new(g.Replica()), To: new(id), Term: new(g.Term()), LogTerm: new(term), Index: new(at), Commit: new(at), Context: notLeading,
		})
	}
}
