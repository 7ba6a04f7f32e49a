package group

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/replica/command"
	"github.com/cleavestore/cleave/replica/raftlog"
)

// takeOver has all groups of a node whose voters are lost go on alone, as a host does.
func (r *rig) takeOver() error {
	open := make(map[uint64]*Group)
	openGroup := func(id uint64) (*Group, error) {
		o, err := r.other(id)
		return o.g, err
	}
	for again := true; again; {
		again = false
		for _, log := range r.log.Groups() {
			if open[log.ID()] != nil {
				continue
			}
			if _, err := openGroup(log.ID()); err != nil {
				return err
			}
			if err := Adopt(log); err != nil {
				return err
			}
			g, err := openGroup(log.ID())
			if err != nil {
				return err
			}
			if err = g.Replay(ctx); err != nil {
				return err
			}
			open[log.ID()], again = g, true
		}
	}
	for _, g := range open {
		if err := g.TakeOver(); err != nil {
			return err
		}
	}
	return nil
}

// TestTakeOverCrash: the only voter of a group is lost. A learner has heard of entries of which it does
// not know that they were committed, a split and a change of the members among them. It takes the group
// over, and the right half too. Each call of the file system may be the last one before a crash; taking
// over again then comes to the same end: this replica is the only member of both, has all of the
// entries, and takes writes.
func TestTakeOverCrash(t *testing.T) {
	leader := single(t, vfs.NewMem(), 100)
	old := leader.g.Applied()
	const early, all = 4, 12
	add := func(id uint64) {
		must(t, leader.g.ProposeChange(&pb.ConfChangeV2{Changes: []*pb.ConfChangeSingle{{Type: pb.ConfChangeAddLearnerNode.Enum(), NodeId: &id}}}))
		must(t, leader.work())
	}
	for n := uint64(1); n <= early; n++ {
		leader.ask(keyed(n, old))
	}
	add(2)
	snapshot, stream := leader.snapshot()
	from := vfs.NewMem()
	reader, err := open(t, from, 2, new(raftlog.Base))
	must(t, err)
	must(t, reader.take(snapshot, stream))
	known := reader.g.Applied()
	for n := uint64(early + 1); n <= all; n++ {
		leader.ask(keyed(n, old))
	}
	add(3)
	must(t, leader.g.ProposeSplit(middle(leader.g), rightID))
	must(t, leader.work())
	add(4)
	log := leader.log.Group(1)
	last, _ := log.LastIndex()
	term, err := log.Term(known)
	must(t, err)
	entries, err := log.Entries(known+1, last+1, 1<<20)
	must(t, err)
	must(t, reader.g.Step(&pb.Message{
		Type: pb.MsgApp.Enum(), From: new(uint64(1)), To: new(uint64(2)), Term: new(leader.g.Term()), LogTerm: &term, Index: &known, Commit: &known, Entries: entries,
	}))
	must(t, reader.work())
	if at, _ := reader.log.Group(1).LastIndex(); at != last || reader.g.Applied() != known {
		t.Fatalf("the reader has entries up to %d of %d, and has applied up to %d of %d", at, last, reader.g.Applied(), known)
	}
	if err = reader.g.TakeOver(); !errors.Is(err, ErrBusy) {
		t.Errorf("with entries that were not applied: %v", err)
	}
	must(t, reader.log.Close())
	must(t, reader.db.Close())

	right, step := 0, int64(1)
	if testing.Short() {
		step = 4
	}
	for n := int64(1); ; n += step {
		mem := from.Clone()
		faulty := vfs.NewFaulty(mem)
		r, err := open(t, faulty, 2, nil)
		must(t, err)
		var image *vfs.Mem
		faulty.StopAt(faulty.Calls()+n, func() { image = mem.Clone() })
		err = r.takeOver()
		done := image == nil
		if done {
			must(t, err)
			image = mem
		}
		for _, keep := range []vfs.CrashOptions{{Keep: vfs.KeepNone}, {Keep: vfs.KeepAll}, {Keep: vfs.KeepRandom, TornLast: true, Seed: uint64(n)}} {
			again, err := open(t, image.Crash(keep), 2, nil)
			if err != nil {
				t.Fatalf("call %d, %+v: %v", n, keep, err)
			}
			if again.log.Group(rightID) != nil {
				right++
			}
			if err = again.takeOver(); err != nil {
				t.Fatalf("call %d, %+v: again: %v", n, keep, err)
			}
			checkTaken(t, again, old, all)
		}
		if done {
			break
		}
	}
	if right < 3 {
		t.Errorf("%d crashes after the right group was made", right)
	}
}

// checkTaken checks that replica 2 is the only member of both groups, that they have the keys up to all,
// and that they take writes.
func checkTaken(t *testing.T, r *rig, old uint64, all uint64) {
	t.Helper()
	for _, id := range []uint64{1, rightID} {
		o, err := r.other(id)
		must(t, err)
		must(t, o.work())
		if conf := o.g.Config(); !slices.Equal(conf.GetVoters(), []uint64{2}) || len(conf.GetLearners())+len(conf.GetVotersOutgoing())+len(conf.GetLearnersNext()) > 0 {
			t.Fatalf("the members of group %d are %v", id, conf)
		}
		o.lead()
		span, _ := o.g.Range()
		for n := uint64(1); n <= all; n++ {
			key := engine.StringKey(fmt.Sprint("k", n))
			if epk := key.EPK(); !span.Contains(&epk) {
				continue
			}
			if _, err := r.c.Read(ctx, key, "i"); err != nil {
				t.Fatalf("%s: %v", key, err)
			}
			if out := o.ask(keyed(n, old)); out.Err != nil || !out.Duplicate {
				t.Fatalf("%s, proposed again: %+v", key, out)
			}
			if out := o.ask(keyed2(n, o.g.Applied())); out.Err != nil || out.Duplicate {
				t.Fatalf("%s, another command: %+v", key, out)
			}
		}
	}
}

// keyed2 is another command of keyed's partition key.
func keyed2(n, after uint64) *command.Command {
	c := keyed(n, after)
	c.ID = commandID(5000 + n)
	return c
}

// TestOnlyMember: whatever the members were, also joint ones, one replica is the only one after the
// changes.
func TestOnlyMember(t *testing.T) {
	for _, conf := range []*pb.ConfState{
		{Voters: []uint64{1, 2, 3}, Learners: []uint64{4}},
		{Voters: []uint64{1, 2, 3}},
		{Voters: []uint64{1, 2, 5}, VotersOutgoing: []uint64{1, 2, 3}, LearnersNext: []uint64{3}, Learners: []uint64{4, 6}},
		{Voters: []uint64{1, 4}, VotersOutgoing: []uint64{1, 2}},
		{Voters: []uint64{4, 9}},
	} {
		memory := raft.NewMemoryStorage()
		must(t, memory.ApplySnapshot(&pb.Snapshot{Metadata: &pb.SnapshotMetadata{Index: new(uint64(5)), Term: new(uint64(2)), ConfState: conf}}))
		node, err := raft.NewRawNode(&raft.Config{ID: 4, ElectionTick: 10, HeartbeatTick: 3, Storage: memory, MaxSizePerMsg: 1 << 20, MaxInflightMsgs: 8, Logger: logger{}})
		must(t, err)
		got := conf
		for _, c := range onlyMember(conf, 4) {
			got = node.ApplyConfChange(c)
		}
		if !slices.Equal(got.GetVoters(), []uint64{4}) || len(got.GetLearners())+len(got.GetVotersOutgoing())+len(got.GetLearnersNext()) > 0 {
			t.Errorf("from %v: %v", conf, got)
		}
		if again := onlyMember(got, 4); len(again) > 0 {
			t.Errorf("from %v: %v", got, again)
		}
	}
}
