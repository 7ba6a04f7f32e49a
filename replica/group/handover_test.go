package group

import (
	"errors"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/cleavestore/cleave/internal/vfs"
)

// second answers as the second replica of a group, which stores nothing, until there is nothing to answer.
// It returns how many messages of a kind it has got.
func (r *rig) second(kind pb.MessageType) (got int) {
	r.t.Helper()
	must(r.t, r.work())
	for len(r.sent) > 0 {
		sent := r.sent
		r.sent = nil
		for _, m := range sent {
			if m.GetType() == kind {
				got++
			}
			answer := &pb.Message{From: new(uint64(2)), To: new(uint64(1)), Term: new(m.GetTerm())}
			switch m.GetType() {
			case pb.MsgPreVote:
				answer.Type = pb.MsgPreVoteResp.Enum()
			case pb.MsgVote:
				answer.Type = pb.MsgVoteResp.Enum()
			case pb.MsgHeartbeat:
				answer.Type, answer.Context = pb.MsgHeartbeatResp.Enum(), m.GetContext()
			case pb.MsgApp:
				answer.Type, answer.Index = pb.MsgAppResp.Enum(), new(m.GetIndex()+uint64(len(m.GetEntries())))
			default:
				continue
			}
			must(r.t, r.g.Step(answer))
		}
		must(r.t, r.work())
	}
	return got
}

// TestHandOver: a command that is under way has its outcome before raft transfers the leadership, and
// commands that come meanwhile have no entry. If the other replica does not come, they have one after a
// few ticks. If it does, nothing was done for them.
func TestHandOver(t *testing.T) {
	base := FirstBase([]uint64{1, 2}, 1000)
	r, err := open(t, vfs.NewMem(), 1, &base)
	must(t, err)
	for i := 0; i < 40 && !r.g.IsLeader(); i++ {
		must(t, r.g.Tick())
		r.second(0)
	}
	must(t, r.g.HandOver(1, true)) // to itself
	if !r.g.IsLeader() || r.g.HandingOver() {
		t.Fatal("it hands over to itself")
	}
	after := r.g.Applied()
	propose := func(n uint64) {
		t.Helper()
		must(t, r.g.Propose(keyed(n, after)))
	}
	propose(1)
	must(t, r.work()) // its entry is under way
	must(t, r.g.HandOver(2, true))
	if err := r.g.HandOver(2, true); !errors.Is(err, ErrBusy) {
		t.Errorf("a second one: %v", err)
	}
	propose(2)
	last, _ := r.g.cfg.Log.LastIndex()
	for _, m := range r.sent {
		if m.GetType() == pb.MsgTimeoutNow {
			t.Error("raft hands over while a command has no outcome")
		}
	}
	if n := r.second(pb.MsgTimeoutNow); n != 1 { // which is lost
		t.Errorf("%d messages that it is to lead", n)
	}
	if len(r.done) != 1 || r.done[0].Err != nil || r.done[0].ID != keyed(1, after).ID {
		t.Fatalf("%+v", r.done)
	}
	if now, _ := r.g.cfg.Log.LastIndex(); now != last {
		t.Errorf("%d entries were made meanwhile", now-last)
	}
	ticks := 0
	for ; ticks < 20 && len(r.done) < 2; ticks++ {
		must(t, r.g.Tick())
		r.second(0)
	}
	if ticks != handTicks+1 || r.done[1].Err != nil || !r.g.IsLeader() || r.g.HandingOver() {
		t.Errorf("%d ticks later: %+v", ticks, r.done)
	}

	// A command without an outcome, since the quorum is away.
	propose(3)
	must(t, r.work())
	r.sent = nil
	must(t, r.g.HandOver(2, true))
	propose(4)
	must(t, r.work())
	for ticks = 0; ticks < 20 && !r.g.handing.sent; ticks++ {
		must(t, r.g.Tick())
		must(t, r.work())
	}
	if ticks != drainTicks+1 {
		t.Errorf("raft was told after %d ticks", ticks)
	}
	// The other one asks for votes.
	term := r.g.Term() + 1
	end, _ := r.g.cfg.Log.LastIndex()
	of, _ := r.g.cfg.Log.Term(end)
	r.done = nil
	must(t, r.g.Step(&pb.Message{Type: pb.MsgVote.Enum(), From: new(uint64(2)), To: new(uint64(1)), Term: &term, Index: &end, LogTerm: &of, Context: []byte("CampaignTransfer")}))
	must(t, r.work())
	if r.g.IsLeader() || r.g.HandingOver() {
		t.Fatal("it leads")
	}
	if len(r.done) != 2 || !errors.Is(r.done[0].Err, ErrUnknown) || !errors.Is(r.done[1].Err, ErrNotLeader) || r.done[1].ID != keyed(4, after).ID {
		t.Errorf("%+v", r.done)
	}
}
