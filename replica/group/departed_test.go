package group

import (
	"slices"
	"testing"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/cleavestore/cleave/internal/vfs"
)

// TestInform: a replica that was removed, and is asked for its vote, tells the members what was committed. One of them has the
// entries and did not know that; now it does. To be told again does not end its election. A voter tells nobody.
func TestInform(t *testing.T) {
	base := FirstBase([]uint64{1, 2}, 1000)
	one, err := open(t, vfs.NewMem(), 1, &base)
	must(t, err)
	two, err := open(t, vfs.NewMem(), 2, &base)
	must(t, err)
	const all = 1 << 40
	known := uint64(all) // the second replica hears that entries up to here were committed
	exchange := func() {
		t.Helper()
		for must(t, one.work()); len(one.sent) > 0; must(t, one.work()) {
			sent := one.sent
			one.sent = nil
			for _, m := range sent {
				if m.GetTo() == 3 && m.GetType() == pb.MsgApp { // it has no store here
					end := m.GetIndex() + uint64(len(m.GetEntries()))
					must(t, one.g.Step(&pb.Message{Type: pb.MsgAppResp.Enum(), From: new(uint64(3)), To: new(uint64(1)), Term: new(m.GetTerm()), Index: &end}))
				}
				if m.GetTo() != 2 {
					continue
				}
				m.Commit = new(min(m.GetCommit(), known))
				must(t, two.g.Step(m))
				must(t, two.work())
			}
			for _, m := range two.sent {
				must(t, one.g.Step(m))
			}
			two.sent = nil
		}
	}
	for i := 0; i < 40 && !one.g.IsLeader(); i++ {
		must(t, one.g.Tick())
		exchange()
	}
	asks := func(index, term uint64) {
		t.Helper()
		must(t, one.g.Step(&pb.Message{Type: pb.MsgPreVote.Enum(), From: new(uint64(3)), To: new(uint64(1)), Term: new(one.g.Term() + 1), Index: &index, LogTerm: &term}))
		must(t, one.work())
		one.sent = slices.DeleteFunc(one.sent, func(m *pb.Message) bool { return m.GetType() != pb.MsgApp })
	}
	asks(0, 0)
	if len(one.sent) > 0 {
		t.Errorf("a voter has sent %v", one.sent)
	}
	known = one.g.Applied()
	must(t, one.g.ProposeChange(&pb.ConfChangeV2{Changes: []*pb.ConfChangeSingle{
		{Type: pb.ConfChangeAddNode.Enum(), NodeId: new(uint64(3))}, {Type: pb.ConfChangeRemoveNode.Enum(), NodeId: new(uint64(1))},
	}}))
	exchange()
	at := one.g.Applied()
	if conf := one.g.Config(); slices.Contains(conf.GetVoters(), 1) || two.g.Applied() >= at {
		t.Fatalf("%v; entries %d and %d are applied", conf, at, two.g.Applied())
	}
	term, err := one.g.cfg.Log.Term(at)
	must(t, err)
	known = all
	asks(at, term)
	if len(one.sent) != 2 {
		t.Fatalf("%v", one.sent)
	}
	exchange()
	if conf := two.g.Config(); two.g.Applied() != at || !slices.Contains(conf.GetVoters(), 3) || slices.Contains(conf.GetVoters(), 1) {
		t.Errorf("entry %d of %d is applied: %v", two.g.Applied(), at, conf)
	}
	if two.g.Leader() != 0 {
		t.Errorf("it takes replica %d for the leader", two.g.Leader())
	}
	must(t, two.g.Campaign())
	must(t, two.work())
	two.sent = nil
	asks(at, term)
	exchange()
	if is := two.g.node.BasicStatus().RaftState; is != raft.StatePreCandidate {
		t.Errorf("it is told what it knows, and is %v", is)
	}
}
