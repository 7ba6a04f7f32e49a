package group

import pb "go.etcd.io/raft/v3/raftpb"

// A replica that installs a snapshot answers nothing meanwhile, so for Raft it is as good as gone. If the log did not keep what comes behind the
// snapshot, the replica would need another one at once, and while clients write it would never catch up. So the leader notes which entry the
// snapshot is of, until the replica has told that it has the entry. A second try, of a later entry, does not count: the replica may
// be at the first one still.

// awaits notes that a replica gets a snapshot of an entry.
func (g *Group) awaits(replica, index uint64) {
	if at := g.sent[replica]; at < g.cfg.Log.Base().Index {
		g.sent[replica] = index
	}
}

// installed takes in an answer: what it lacks from there on, Raft knows.
func (g *Group) installed(m *pb.Message) {
	if !m.GetReject() && m.GetIndex() >= g.sent[m.GetFrom()] {
		delete(g.sent, m.GetFrom())
	}
}

// ForgetSnapshot tells a leader that a replica which may be at a snapshot is gone: the log keeps nothing more for it.
func (g *Group) ForgetSnapshot(replica uint64) error {
	delete(g.sent, replica)
	return nil
}
