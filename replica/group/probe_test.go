package group

import (
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/cleavestore/cleave/internal/vfs"
)

// TestProbe: a follower that has come back is sent what it lacks once, however many rounds of reads it confirms before it
// answers; again some ticks later, since the message may be lost; and at once if it refuses.
func TestProbe(t *testing.T) {
	base := FirstBase([]uint64{1, 2, 3}, 1000)
	r, err := open(t, vfs.NewMem(), 1, &base)
	must(t, err)
	for i := 0; i < 40 && !r.g.IsLeader(); i++ {
		must(t, r.g.Tick())
		r.second(0)
	}
	for n := range uint64(20) { // of which the third replica hears nothing
		must(t, r.g.Propose(keyed(n+1, r.g.Applied())))
		r.second(0)
	}
	must(t, r.g.ReportUnreachable(3))
	from := r.g.Applied() - 20 // the third has the entries up to here, and then one of another leader
	answer := func(kind pb.MessageType, change func(*pb.Message)) {
		t.Helper()
		m := &pb.Message{Type: kind.Enum(), From: new(uint64(3)), To: new(uint64(1)), Term: new(r.g.Term())}
		change(m)
		must(t, r.g.Step(m))
		must(t, r.work())
	}
	// rounds has both followers confirm rounds of reads, and returns how many entries the third one was sent.
	rounds := func(n int) (messages, entries int) {
		t.Helper()
		for range n {
			if _, err := r.g.Read(); err != nil {
				t.Fatal(err)
			}
			must(t, r.work())
			sent := r.sent
			r.sent = nil
			for _, m := range sent {
				if m.GetType() == pb.MsgHeartbeat {
					answer(pb.MsgHeartbeatResp, func(a *pb.Message) { a.From, a.Context = m.To, m.GetContext() })
				}
			}
			for _, m := range r.sent {
				if m.GetTo() == 3 && m.GetType() == pb.MsgApp && len(m.GetEntries()) > 0 {
					messages, entries = messages+1, entries+len(m.GetEntries())
				}
			}
			r.sent = nil
		}
		return messages, entries
	}
	if messages, entries := rounds(50); messages != 1 || entries == 0 {
		t.Errorf("%d messages with %d entries before the first answer", messages, entries)
	}
	for range repeatTicks {
		must(t, r.g.Tick())
	}
	if messages, _ := rounds(50); messages != 1 {
		t.Errorf("%d messages some ticks later", messages)
	}
	answer(pb.MsgAppResp, func(a *pb.Message) {
		a.Index, a.Reject, a.RejectHint, a.LogTerm = new(r.g.Applied()-1), new(true), new(from), new(r.g.Term())
	})
	r.sent = nil
	must(t, r.g.ReportUnreachable(3))
	if messages, _ := rounds(1); messages != 1 {
		t.Errorf("%d messages to one that was unreachable", messages)
	}
	answer(pb.MsgAppResp, func(a *pb.Message) { a.Index = new(r.g.Applied()) })
	if messages, _ := rounds(50); messages != 0 {
		t.Errorf("%d messages to one that has everything", messages)
	}
	if len(r.reads) != 50+50+1+50 {
		t.Errorf("%d reads were confirmed", len(r.reads))
	}
}
