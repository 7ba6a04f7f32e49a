package group

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/testenv"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/replica/command"
	"github.com/cleavestore/cleave/replica/raftlog"
)

var (
	ctx   = context.Background()
	start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	key   = engine.StringKey("a")
)

var containerDef = engine.ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 1, Replicated: true}

// rig is one replica whose host does everything at once.
type rig struct {
	t     testing.TB
	fs    vfs.FS
	now   time.Time
	db    *engine.DB
	c     *engine.Container
	log   *raftlog.Store
	g     *Group
	done  []Outcome
	reads []ReadDone
	sent  []*pb.Message

	created []uint64
}

// open opens a replica; first makes it.
func open(t testing.TB, fs vfs.FS, id uint64, first *raftlog.Base) (*rig, error) {
	r := &rig{t: t, fs: fs, now: start}
	o := &engine.Options{MemoryBudget: 16 << 20, LogFileBytes: 64 << 10, LogBytes: 512 << 10, MaxPartitionBytes: -1}
	testenv.Put(o, &testenv.Env{
		FS: func() vfs.FS { return fs }, Clock: func() time.Time { return r.now }, Steady: func() time.Duration { return 0 }, Pause: func(time.Duration) {}, Manual: true,
		Opened: func(testenv.Store) func() { return func() {} }, Watch: func(testenv.Store, string) func() func() { return nil },
	})
	var err error
	if r.db, err = engine.Open(ctx, "store", o); err != nil {
		return nil, err
	}
	if r.c, err = r.db.EnsureContainer(ctx, "items", containerDef); err != nil {
		return nil, err
	}
	if r.log, err = raftlog.Open(ctx, fs, "raft", raftlog.Options{FirstFileBytes: 64 << 10, MaxFileBytes: 64 << 10, Fresh: first != nil}); err != nil {
		return nil, err
	}
	if first != nil {
		if _, err = r.log.Create(1, id, *first); err != nil {
			return nil, err
		}
	}
	if r.log.Group(1) == nil {
		return r, raftlog.ErrRemoved
	}
	r.g, err = Open(ctx, Config{
		Log: r.log.Group(1), DB: r.db, Container: r.c, Min: "", Max: "FF", Now: func() time.Time { return r.now },
		ElectionTicks: 10, HeartbeatTicks: 3, KeepBytes: 1 << 20, CatchUpBytes: 16 << 20,
	})
	return r, err
}

// work does what the group has to do.
func (r *rig) work() error {
	for {
		w, err := r.g.Ready()
		if err != nil || w == nil {
			return err
		}
		r.created = append(r.created, w.Created...)
		r.done, r.reads, r.sent = append(r.done, w.Outcomes...), append(r.reads, w.Reads...), append(r.sent, w.Send...)
		for _, a := range w.Appends {
			if err := r.g.Write(ctx, a); err != nil {
				return err
			}
			if err := r.log.Wait(a.Position); err != nil {
				return err
			}
			if err := r.g.Written(a); err != nil {
				return err
			}
		}
		for _, a := range w.Applies {
			if err := r.g.Apply(ctx, a); err != nil {
				return err
			}
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// single returns the leader of a group of one.
func single(t testing.TB, fs vfs.FS, window uint64) *rig {
	t.Helper()
	base := FirstBase([]uint64{1}, window)
	r, err := open(t, fs, 1, &base)
	must(t, err)
	r.lead()
	return r
}

func (r *rig) lead() {
	r.t.Helper()
	for i := 0; i < 100 && !r.g.IsLeader(); i++ {
		must(r.t, r.g.Tick())
		must(r.t, r.work())
	}
	if !r.g.IsLeader() {
		r.t.Fatal("no leader")
	}
}

// upsert is a command that writes an item.
func upsert(n, after uint64, id string) *command.Command {
	return &command.Command{ID: commandID(n), After: after, Batches: []command.Batch{{Key: key, Operations: []command.Operation{
		{Kind: command.Upsert, Body: fmt.Appendf(nil, `{"id":%q,"k":"a","n":%d}`, id, n)},
	}}}}
}

func increment(n, after uint64, id string) *command.Command {
	return &command.Command{ID: commandID(n), After: after, Batches: []command.Batch{{Key: key, Operations: []command.Operation{
		{Kind: command.Patch, ID: id, Edits: []command.Edit{{Kind: command.EditIncrement, Path: "/n", By: 1}}},
	}}}}
}

// ask proposes a command and returns its outcome.
func (r *rig) ask(c *command.Command) Outcome {
	r.t.Helper()
	must(r.t, r.g.Propose(c))
	must(r.t, r.work())
	if len(r.done) != 1 || r.done[0].ID != c.ID {
		r.t.Fatalf("outcomes %+v", r.done)
	}
	out := r.done[0]
	r.done = nil
	return out
}

func (r *rig) body(id string) string {
	r.t.Helper()
	it, err := r.c.Read(ctx, key, id)
	must(r.t, err)
	return string(it.Body)
}

// TestOnce: a command that is proposed again does nothing, also after a restart and with the
// log truncated; too late it is refused.
func TestOnce(t *testing.T) {
	mem := vfs.NewMem()
	r := single(t, mem, 12)
	out := r.ask(upsert(1, r.g.Applied(), "i"))
	if out.Err != nil || out.Duplicate || len(out.Results) != 1 || out.Results[0].Err != nil || out.Index != r.g.Applied() {
		t.Fatalf("%+v", out)
	}
	after := r.g.Applied()
	inc := increment(2, after, "i")
	if first := r.ask(inc); first.Err != nil || first.Duplicate {
		t.Fatalf("%+v", first)
	}
	again := func() {
		t.Helper()
		if out := r.ask(increment(2, after, "i")); out.Err != nil || !out.Duplicate || out.Index != after+1 {
			t.Errorf("again: %+v", out)
		}
		if got := r.body("i"); got != `{"id":"i","k":"a","n":2}` {
			t.Errorf("the item is %s", got)
		}
	}
	again()
	must(t, r.g.Truncate(ctx))
	again()
	mem = mem.Crash(vfs.CrashOptions{Keep: vfs.KeepNone})
	var err error
	r, err = open(t, mem, 1, nil)
	must(t, err)
	r.lead()
	again()
	for i := uint64(10); r.g.Applied() < after+12; i++ {
		r.ask(upsert(i, r.g.Applied(), "other"))
	}
	if out := r.ask(increment(2, after, "i")); !errors.Is(out.Err, ErrExpired) {
		t.Errorf("too late: %+v", out)
	}
}

// TestRefusedCommand: what the container refuses is an outcome, and takes an entry.
func TestRefusedCommand(t *testing.T) {
	r := single(t, vfs.NewMem(), 100)
	out := r.ask(increment(1, r.g.Applied(), "missing"))
	if out.Err != nil || len(out.Results) != 1 || !errors.Is(out.Results[0].Err, engine.ErrNotFound) {
		t.Errorf("%+v", out)
	}
	bad := upsert(2, 1, "i")
	bad.Batches[0].Operations[0].Body = []byte(`{"id":"i","k":"b"}`)
	if err := r.g.Propose(bad); !errors.Is(err, engine.ErrKeyMismatch) {
		t.Errorf("proposed: %v", err)
	}
	// One that another leader let in is refused by every replica.
	bad.Time = start
	before := r.g.Applied()
	must(t, r.g.guard(func() error { return r.g.node.Propose(bad.Append(nil)) }))
	two := upsert(3, 1, "i")
	two.Time, two.Batches = start, append(two.Batches, two.Batches...)
	must(t, r.g.guard(func() error { return r.g.node.Propose(two.Append(nil)) }))
	must(t, r.work())
	if r.g.Applied() != before+2 || r.g.Held() != before+2 {
		t.Errorf("applied %d, held %d, was %d", r.g.Applied(), r.g.Held(), before)
	}
	if _, err := r.c.Read(ctx, key, "i"); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("the item: %v", err)
	}
}

// TestTooNewCommand: a replica stops at a command of a newer program, and goes no further.
func TestTooNewCommand(t *testing.T) {
	r := single(t, vfs.NewMem(), 100)
	before := r.g.Applied()
	newer := upsert(1, 1, "i").Append(nil)
	newer[0] = 99
	must(t, r.g.guard(func() error { return r.g.node.Propose(newer) }))
	if err := r.work(); !errors.Is(err, ErrFailed) || !errors.Is(err, engine.ErrTooNew) {
		t.Errorf("%v", err)
	}
	if r.g.Applied() != before {
		t.Errorf("applied %d, was %d", r.g.Applied(), before)
	}
	if err := r.g.Tick(); !errors.Is(err, ErrFailed) {
		t.Errorf("Tick: %v", err)
	}
}

// TestCatchUp: while a replica gets a snapshot, and then what was written meanwhile, the log keeps that, also if it is more than
// what is kept for one that is only slow. Otherwise a replica that takes long to get its snapshot would need the next
// one at once, and never catch up.
func TestCatchUp(t *testing.T) {
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
	base := func() uint64 {
		t.Helper()
		must(t, r.g.Truncate(ctx))
		return r.g.cfg.Log.Base().Index
	}
	write()
	if got, want := base(), r.g.Applied(); got != want {
		t.Fatalf("the log begins behind entry %d, want %d", got, want)
	}
	must(t, r.g.ProposeChange(&pb.ConfChangeV2{Changes: []*pb.ConfChangeSingle{{Type: pb.ConfChangeAddLearnerNode.Enum(), NodeId: new(uint64(2))}}}))
	must(t, r.work())
	snapshot := uint64(0)
	for range 20 { // it has nothing
		must(t, r.g.Step(&pb.Message{Type: pb.MsgHeartbeatResp.Enum(), From: new(uint64(2)), To: new(uint64(1)), Term: new(r.g.Term())}))
		must(t, r.work())
		for _, m := range r.sent {
			if m.GetTo() == 2 && m.GetType() == pb.MsgApp {
				must(t, r.g.Step(&pb.Message{Type: pb.MsgAppResp.Enum(), From: new(uint64(2)), To: new(uint64(1)), Term: new(r.g.Term()), Index: new(m.GetIndex()), Reject: new(true), RejectHint: new(uint64(0))}))
				must(t, r.work())
			}
		}
		r.sent = nil
		r.g.node.WithProgress(func(id uint64, _ raft.ProgressType, pr trackerProgress) {
			if id == 2 {
				snapshot = pr.PendingSnapshot
			}
		})
		if snapshot > 0 {
			break
		}
	}
	if snapshot == 0 {
		t.Fatal("it gets no snapshot")
	}
	write()
	if got := base(); got > snapshot {
		t.Errorf("the log begins behind entry %d, and the snapshot is of %d", got, snapshot)
	}
	acks := func(index uint64) {
		t.Helper()
		must(t, r.g.Step(&pb.Message{Type: pb.MsgAppResp.Enum(), From: new(uint64(2)), To: new(uint64(1)), Term: new(r.g.Term()), Index: &index}))
		must(t, r.work())
	}
	must(t, r.g.ReportSnapshot(2, true))
	if got := base(); got > snapshot {
		t.Errorf("it was sent: the log begins behind entry %d, and the snapshot is of %d", got, snapshot)
	}
	acks(snapshot)
	write()
	if got := base(); got > snapshot {
		t.Errorf("it was installed: the log begins behind entry %d, and the snapshot is of %d", got, snapshot)
	}
	last, _ := r.g.cfg.Log.LastIndex()
	acks(last)
	if got := base(); got != last {
		t.Errorf("all is there: the log begins behind entry %d, want %d", got, last)
	}
	write()
	r.g.cfg.CatchUpBytes = 0
	if got, want := base(), r.g.Applied(); got != want {
		t.Errorf("it lacks more than is kept: the log begins behind entry %d, want %d", got, want)
	}
}

// TestOutside: a command of another group's keys is refused.
func TestOutside(t *testing.T) {
	r := single(t, vfs.NewMem(), 100)
	var err error
	r.g.state.born.Max, err = partmap.ParseEPK("00000000000000000000000000000001")
	must(t, err)
	if err := r.g.Propose(upsert(1, r.g.Applied(), "i")); !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("%v", err)
	}
}

// TestClockAhead: an entry from a clock that is ahead waits.
func TestClockAhead(t *testing.T) {
	r := single(t, vfs.NewMem(), 100)
	c := upsert(1, 1, "i")
	c.Time = start.Add(time.Hour)
	must(t, r.g.guard(func() error { return r.g.node.Propose(c.Append(nil)) }))
	w, err := r.g.Ready()
	must(t, err)
	must(t, r.g.Write(ctx, w.Appends[0]))
	must(t, r.log.Wait(w.Appends[0].Position))
	must(t, r.g.Written(w.Appends[0]))
	w, err = r.g.Ready()
	must(t, err)
	apply := w.Applies[0]
	for range 2 {
		if err := r.g.Apply(ctx, apply); !errors.Is(err, ErrRetry) {
			t.Fatalf("%v", err)
		}
	}
	r.now = start.Add(time.Hour)
	must(t, r.g.Apply(ctx, apply))
	must(t, r.work())
	if it, err := r.c.Read(ctx, key, "i"); err != nil || !it.Modified.Equal(c.Time) {
		t.Errorf("%v, %v", it.Modified, err)
	}
}

// TestReadWaits: a read is done when the partition has come to what was committed.
func TestReadWaits(t *testing.T) {
	r := single(t, vfs.NewMem(), 100)
	r.ask(upsert(1, r.g.Applied(), "i"))
	id, err := r.g.Read()
	must(t, err)
	must(t, r.work())
	if len(r.reads) != 1 || r.reads[0].ID != id || r.reads[0].Index > r.g.Applied() {
		t.Errorf("%+v", r.reads)
	}
	gone, err := r.g.Read()
	must(t, err)
	r.g.EndRead(gone)
	must(t, r.work())
	if len(r.reads) != 1 {
		t.Errorf("%+v", r.reads)
	}
}

// TestFollower: a replica that does not lead takes no proposals.
func TestFollower(t *testing.T) {
	base := FirstBase([]uint64{1, 2, 3}, 100)
	r, err := open(t, vfs.NewMem(), 2, &base)
	must(t, err)
	must(t, r.work())
	if err := r.g.Propose(upsert(1, 1, "i")); !errors.Is(err, ErrNotLeader) {
		t.Errorf("%v", err)
	}
	if err := r.g.ProposeChange(new(pb.ConfChangeV2)); !errors.Is(err, ErrNotLeader) {
		t.Errorf("%v", err)
	}
}

// TestPanicOfRaft: what makes raft panic stops the group, not the process.
func TestPanicOfRaft(t *testing.T) {
	base := FirstBase([]uint64{1, 2, 3}, 100)
	r, err := open(t, vfs.NewMem(), 2, &base)
	must(t, err)
	err = r.g.Step(&pb.Message{Type: pb.MsgHeartbeat.Enum(), From: new(uint64(1)), To: new(uint64(2)), Term: new(uint64(2)), Commit: new(uint64(50))})
	if !errors.Is(err, ErrFailed) || !strings.Contains(err.Error(), "out of range") {
		t.Errorf("%v", err)
	}
	if _, err := r.g.Ready(); !errors.Is(err, ErrFailed) {
		t.Errorf("Ready: %v", err)
	}
}

// TestLostEntries: a partition that has less than its log begins with, or more than the log
// has, is no replica.
func TestLostEntries(t *testing.T) {
	mem := vfs.NewMem()
	r := single(t, mem, 100)
	for n := uint64(1); n < 10; n++ {
		r.ask(upsert(n, r.g.Applied(), "i"))
	}
	must(t, r.g.Truncate(ctx))
	must(t, r.log.Close())
	must(t, r.db.Close())
	other := vfs.NewMem()
	fresh := single(t, other, 100)
	must(t, fresh.log.Close())
	must(t, fresh.db.Close())
	swap := func(to, from *vfs.Mem) *vfs.Mem {
		out := to.Clone()
		for _, name := range out.Names() {
			if strings.HasPrefix(name, "raft/") {
				must(t, out.Remove(name))
			}
		}
		for _, name := range from.Names() {
			if strings.HasPrefix(name, "raft/") {
				b, err := from.ReadFile(name)
				must(t, err)
				out.WriteFile(name, b)
			}
		}
		return out
	}
	if _, err := open(t, swap(other, mem), 1, nil); !errors.Is(err, ErrBehind) {
		t.Errorf("a partition that is behind its log: %v", err)
	}
	if _, err := open(t, swap(mem, other), 1, nil); !errors.Is(err, raftlog.ErrLost) {
		t.Errorf("a partition that is ahead of its log: %v", err)
	}
}

// snapshot makes the MsgSnap that a leader sends to replica 2, with its stream.
func (r *rig) snapshot() (*pb.Message, []byte) {
	r.t.Helper()
	var b bytes.Buffer
	m, err := r.g.Export(ctx, &pb.Message{Type: pb.MsgSnap.Enum(), From: new(uint64(1)), To: new(uint64(2)), Term: new(r.g.Term())}, &b)
	must(r.t, err)
	return m, b.Bytes()
}

func (r *rig) take(m *pb.Message, stream []byte) error {
	if err := r.g.StepSnapshot(proto.CloneOf(m), func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(stream)), nil }); err != nil {
		return err
	}
	return r.work()
}

// TestInstallCrash stops a replica at each call of the file system while it installs a
// snapshot. Afterwards it has the snapshot or what it had before, in the partition and in the
// log, and a second try succeeds.
func TestInstallCrash(t *testing.T) {
	leader := single(t, vfs.NewMem(), 100)
	for n := uint64(1); n < 20; n++ {
		leader.ask(upsert(n, leader.g.Applied(), fmt.Sprint("i", n)))
	}
	must(t, leader.g.ProposeChange(&pb.ConfChangeV2{Changes: []*pb.ConfChangeSingle{{Type: pb.ConfChangeAddLearnerNode.Enum(), NodeId: new(uint64(2))}}}))
	must(t, leader.work())
	if !slices.Contains(leader.g.Config().GetLearners(), 2) {
		t.Fatalf("%v", leader.g.Config())
	}
	early, earlyStream := leader.snapshot()
	for n := uint64(20); n < 30; n++ {
		leader.ask(upsert(n, leader.g.Applied(), fmt.Sprint("i", n)))
	}
	late, lateStream := leader.snapshot()
	at := []uint64{early.GetSnapshot().GetMetadata().GetIndex(), late.GetSnapshot().GetMetadata().GetIndex()}
	before, after := 0, 0
	from := vfs.NewMem()
	joined, err := open(t, from, 2, new(raftlog.Base))
	must(t, err)
	must(t, joined.take(early, earlyStream))
	must(t, joined.log.Close())
	must(t, joined.db.Close())
	for n := int64(1); ; n++ {
		mem := from.Clone()
		faulty := vfs.NewFaulty(mem)
		r, err := open(t, faulty, 2, nil)
		must(t, err)
		must(t, r.work())
		var image *vfs.Mem
		faulty.StopAt(faulty.Calls()+n, func() { image = mem.Clone() })
		err = r.take(late, lateStream)
		if image == nil {
			must(t, err)
			break
		}
		for _, keep := range []vfs.CrashOptions{{Keep: vfs.KeepNone}, {Keep: vfs.KeepAll}, {Keep: vfs.KeepRandom, TornLast: true, Seed: uint64(n)}} {
			again, err := open(t, image.Crash(keep), 2, nil)
			if err != nil {
				t.Fatalf("call %d, %+v: %v", n, keep, err)
			}
			must(t, again.work())
			switch is := again.g.Held(); {
			case is != again.g.Applied() || !slices.Contains(at, is):
				t.Fatalf("call %d, %+v: applied %d, held %d", n, keep, again.g.Applied(), is)
			case is == at[0]:
				before++
			default:
				after++
			}
			must(t, again.take(late, lateStream))
			if again.g.Held() != at[1] || again.body("i29") != leader.body("i29") {
				t.Fatalf("call %d, %+v: held %d", n, keep, again.g.Held())
			}
			out := again.g.state.at(at[1], 1)
			if want := leader.g.state.at(at[1], 1); string(out.State) != string(want.State) {
				t.Fatalf("call %d, %+v: state %x, want %x", n, keep, out.State, want.State)
			}
		}
	}
	if before == 0 || after == 0 {
		t.Errorf("%d times before the snapshot, %d times at it", before, after)
	}
}

// keepsLearner checks that a replica has learner 2, also after a power cut and before it hears of anybody.
func keepsLearner(t *testing.T, mem *vfs.Mem, r *rig) {
	t.Helper()
	if !slices.Contains(r.g.Config().GetLearners(), 2) {
		t.Fatalf("%v", r.g.Config())
	}
	again, err := open(t, mem.Crash(vfs.CrashOptions{Keep: vfs.KeepNone}), 1, nil)
	must(t, err)
	must(t, again.work())
	if !slices.Contains(again.g.Config().GetLearners(), 2) {
		t.Errorf("after a power cut: %v at entry %d", again.g.Config(), again.g.Applied())
	}
}

// TestChangeIsKept: a replica that has applied a change of the members goes by it after a power
// cut, before it hears of anybody. Otherwise it could be elected by members of the past.
func TestChangeIsKept(t *testing.T) {
	mem := vfs.NewMem()
	r := single(t, mem, 100)
	must(t, r.g.ProposeChange(&pb.ConfChangeV2{Changes: []*pb.ConfChangeSingle{{Type: pb.ConfChangeAddLearnerNode.Enum(), NodeId: new(uint64(2))}}}))
	must(t, r.work())
	keepsLearner(t, mem, r)
}

// TestCommitIsKept: what a replica has heard to be committed it knows after a power cut, if it has acknowledged an entry since.
// Otherwise it could acknowledge a change of the members and go by those before the last one.
func TestCommitIsKept(t *testing.T) {
	mem := vfs.NewMem()
	base := FirstBase([]uint64{1, 2, 3}, 100)
	r, err := open(t, mem, 1, &base)
	must(t, err)
	must(t, r.work())
	change := func(index uint64, kind pb.ConfChangeType, id uint64) *pb.Entry {
		data, err := proto.Marshal(&pb.ConfChangeV2{Changes: []*pb.ConfChangeSingle{{Type: kind.Enum(), NodeId: &id}}})
		must(t, err)
		return &pb.Entry{Type: pb.EntryConfChangeV2.Enum(), Term: new(uint64(2)), Index: &index, Data: data}
	}
	var appends []*Append
	hear := func(term, index, commit uint64, entries ...*pb.Entry) {
		t.Helper()
		must(t, r.g.Step(&pb.Message{
			Type: pb.MsgApp.Enum(), From: new(uint64(2)), To: new(uint64(1)), Term: new(uint64(2)), LogTerm: &term, Index: &index, Commit: &commit, Entries: entries,
		}))
		w, err := r.g.Ready()
		must(t, err)
		for _, a := range w.Appends {
			must(t, r.g.Write(ctx, a))
			must(t, r.log.Wait(a.Position))
			appends = append(appends, a)
		}
	}
	hear(1, 1, 1, change(2, pb.ConfChangeAddNode, 4))
	hear(2, 2, 2)
	hear(2, 2, 2, change(3, pb.ConfChangeRemoveNode, 3))
	for _, a := range appends {
		must(t, r.g.Written(a))
	}
	w, err := r.g.Ready()
	must(t, err)
	if last := w.Send[len(w.Send)-1]; last.GetType() != pb.MsgAppResp || last.GetIndex() != 3 {
		t.Fatalf("the last answer is %v", last)
	}
	again, err := open(t, mem.Crash(vfs.CrashOptions{Keep: vfs.KeepNone}), 1, nil)
	must(t, err)
	must(t, again.work())
	if !slices.Contains(again.g.Config().GetVoters(), 4) {
		t.Errorf("after a power cut: %v at entry %d", again.g.Config(), again.g.Applied())
	}
}

// TestChangeIsKeptAfterFailure: a replica has failed between the entry of a change of the members and its note in the log that this was
// committed. When it is opened again, with what the partition has in memory, it makes the note before it goes by the change.
func TestChangeIsKeptAfterFailure(t *testing.T) {
	mem := vfs.NewMem()
	r := single(t, mem, 100)
	must(t, r.g.ProposeChange(&pb.ConfChangeV2{Changes: []*pb.ConfChangeSingle{{Type: pb.ConfChangeAddLearnerNode.Enum(), NodeId: new(uint64(2))}}}))
	w, err := r.g.Ready()
	must(t, err)
	must(t, r.g.Write(ctx, w.Appends[0]))
	must(t, r.log.Wait(w.Appends[0].Position))
	must(t, r.g.applyEmpty(ctx, r.g.Applied()+1)) // as an apply does first
	for range 2 {                                 // the note may fail more than once
		r.g, err = Open(ctx, r.g.cfg)
		must(t, err)
	}
	must(t, r.work())
	keepsLearner(t, mem, r)
}
