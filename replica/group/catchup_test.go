package group

import (
	"fmt"
	"strings"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/cleavestore/cleave/internal/vfs"
)

// TestInstallTakesLong: while a replica installs a snapshot, and answers nothing, the log keeps what comes behind that, until the replica
// has told that it has it, or is gone.
func TestInstallTakesLong(t *testing.T) {
	r := single(t, vfs.NewMem(), 1000)
	write := func() {
		t.Helper()
		for n := range uint64(10) {
			c := upsert(r.g.Applied()<<8|n, r.g.Applied(), "i")
			c.Batches[0].Operations[0].Body = fmt.Appendf(nil, `{"id":"i","k":"a","pad":%q}`, strings.Repeat("x", 200<<10))
			if out := r.ask(c); out.Err != nil {
				t.Fatal(out.Err)
			}
		}
	}
	keeps := func(what string, want uint64) {
		t.Helper()
		must(t, r.g.Truncate(ctx))
		if got := r.g.cfg.Log.Base().Index; got != want {
			t.Errorf("%s: the log begins behind entry %d, want %d", what, got, want)
		}
	}
	silence := func() { // so that Raft takes it for gone
		for range 3 * r.g.cfg.ElectionTicks {
			must(t, r.g.Tick())
			must(t, r.work())
		}
	}
	answer := func(index uint64, reject bool) {
		t.Helper()
		must(t, r.g.Step(&pb.Message{Type: pb.MsgAppResp.Enum(), From: new(uint64(2)), To: new(uint64(1)), Term: new(r.g.Term()), Index: &index, Reject: &reject}))
		must(t, r.work())
	}
	must(t, r.g.ProposeChange(&pb.ConfChangeV2{Changes: []*pb.ConfChangeSingle{{Type: pb.ConfChangeAddLearnerNode.Enum(), NodeId: new(uint64(2))}}}))
	must(t, r.work())
	silence()
	write()
	keeps("for one that is gone", r.g.Applied())

	write()
	first := r.g.Applied()
	r.snapshot()
	write()
	silence()
	keeps("while it installs a snapshot", first)
	must(t, r.g.ReportSnapshot(2, false)) // the answer took too long
	r.snapshot()                          // which is refused: it is at the first one
	silence()
	keeps("after a second try", first)
	answer(first-1, false)
	answer(first+1, true)
	silence()
	keeps("after other answers", first)
	answer(first, false)
	write()
	keeps("when it has installed the snapshot", first)
	silence()
	keeps("when it is gone again", r.g.Applied())

	write()
	first = r.g.Applied()
	r.snapshot()
	write()
	silence()
	keeps("while it installs another one", first)
	must(t, r.g.ForgetSnapshot(2))
	keeps("when its node is gone", r.g.Applied())

	write()
	r.snapshot()
	write()
	r.g.cfg.CatchUpBytes = 0
	keeps("when it lacks more than is kept", r.g.Applied())
	if r.g.sent[2] == 0 {
		t.Error("the snapshot was forgotten")
	}
	r.g.cfg.CatchUpBytes = 1 << 30
	write()
	first = r.g.Applied()
	r.snapshot()
	write()
	silence()
	keeps("while it installs one behind that", first)
}
