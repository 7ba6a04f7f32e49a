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
// Or the only voter is replaced, and its log goes on with entries that are not committed: the new one, which does not know
// yet that its own vote suffices, asks for one that it does not get.
//
// So a replica that may not be elected, and is asked to vote by one that does not know that, tells all members what was
// committed. It sends what the leader of its term could have sent: an append without entries. Of a receiver
// that has the entry, and only of such a one, it raises the commit. That an entry of an index and a term is
// committed stays true, no matter which replica says it, so nothing depends on the term in which it is said. Raft takes the sender of an
// append for the leader: it would send it what is for the leader, so the receiver forgets that at once, and it would
// give up an election. So raft gets only what raises its commit, and each replica a bounded number of these.

// notLeading marks such an append.
var notLeading = []byte("not of a leader")

// step gives raft a message. What raft refuses is for nobody.
func (g *Group) step(m *pb.Message) {
	if m.GetType() != pb.MsgApp || !bytes.Equal(m.GetContext(), notLeading) {
		g.node.Step(m)
		g.inform(m)
		return
	}
	has, err := g.cfg.Log.Term(m.GetIndex())
	if err == nil && has == m.GetLogTerm() && m.GetCommit() > g.node.BasicStatus().HardState.GetCommit() {
		g.node.Step(m)
		_ = g.node.ForgetLeader() // only a leader refuses
	}
}

// inform answers a request to vote with what was committed, if this replica may not be elected. The one that asks does not
// know that.
func (g *Group) inform(m *pb.Message) {
	if t := m.GetType(); t != pb.MsgPreVote && t != pb.MsgVote {
		return
	}
	at, conf := g.state.applied, g.state.confs[len(g.state.confs)-1].conf
	if slices.Contains(conf.GetVoters(), g.Replica()) || slices.Contains(conf.GetVotersOutgoing(), g.Replica()) {
		return
	}
	term, err := g.cfg.Log.Term(at)
	if err != nil {
		return // the log does not have it any more
	}
	for _, id := range slices.Concat(conf.GetVoters(), conf.GetVotersOutgoing(), conf.GetLearners()) {
		g.send = append(g.send, &pb.Message{
			Type: pb.MsgApp.Enum(), From: new(g.Replica()), To: new(id), Term: new(g.Term()), LogTerm: new(term), Index: new(at), Commit: new(at), Context: notLeading,
		})
	}
}
