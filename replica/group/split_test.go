package group

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/replica/command"
	"github.com/cleavestore/cleave/replica/raftlog"
)

const rightID = 77

// keyed is a command that writes an item of a partition key of its own.
func keyed(n, after uint64) *command.Command {
	text := fmt.Sprint("k", n)
	return &command.Command{ID: commandID(n), After: after, Batches: []command.Batch{{Key: engine.StringKey(text), Operations: []command.Operation{
		{Kind: command.Upsert, Body: fmt.Appendf(nil, `{"id":"i","k":%q,"n":%d}`, text, n)},
	}}}}
}

// other is the rig with another group of the same node.
func (r *rig) other(id uint64) (*rig, error) {
	o := *r
	o.done, o.reads, o.sent = nil, nil, nil
	var err error
	o.g, err = Open(ctx, Config{
		Log: r.log.Group(id), DB: r.db, Container: r.c, Now: func() time.Time { return r.now },
		ElectionTicks: 10, HeartbeatTicks: 3, KeepBytes: 1 << 20,
	})
	return &o, err
}

func middle(g *Group) string {
	span, _ := g.Range()
	return partmap.Midpoint(span).String()
}

// TestSplit: the halves have all items, go on behind the split, remember the commands from
// before it, and take only their own keys.
func TestSplit(t *testing.T) {
	r := single(t, vfs.NewMem(), 100)
	old := r.g.Applied()
	for n := uint64(1); n <= 20; n++ {
		r.ask(keyed(n, old))
	}
	at, i := middle(r.g), r.g.Applied()+1
	must(t, r.g.ProposeSplit(at, rightID))
	must(t, r.work())
	left, epoch := r.g.Range()
	if left.Max.String() != at || epoch != 2 || r.g.Applied() != i {
		t.Fatalf("the left half is [%s, %s), epoch %d, at entry %d", left.Min, left.Max, epoch, r.g.Applied())
	}
	if len(r.created) != 1 || r.created[0] != rightID {
		t.Fatalf("created: %v", r.created)
	}
	right, err := r.other(rightID)
	must(t, err)
	right.lead()
	if span, epoch := right.g.Range(); span.Min.String() != at || epoch != 2 || right.g.Held() < i {
		t.Fatalf("the right half is [%s, %s), epoch %d, at entry %d", span.Min, span.Max, epoch, right.g.Held())
	}
	sides := make(map[bool]int)
	for n := uint64(1); n <= 20; n++ {
		key := engine.StringKey(fmt.Sprint("k", n))
		epk := key.EPK()
		mine, its := r, right
		if !left.Contains(&epk) {
			mine, its = right, r
		}
		sides[mine == r]++
		if _, err := r.c.Read(ctx, key, "i"); err != nil {
			t.Errorf("%s: %v", key, err)
		}
		if out := mine.ask(keyed(n, old)); !out.Duplicate || out.Err != nil {
			t.Errorf("%s, proposed again: %+v", key, out)
		}
		if err := its.g.Propose(keyed(n, old)); !errors.Is(err, ErrRange) {
			t.Errorf("%s, proposed to the other half: %v", key, err)
		}
		// One that another leader let in before it knew of the split does nothing, and is
		// carried out when the right group is asked.
		late := keyed(1000+n, old)
		late.Batches[0].Key = key
		late.Batches[0].Operations[0].Body = fmt.Appendf(nil, `{"id":"late","k":"k%d"}`, n)
		late.Time = r.now
		must(t, its.g.guard(func() error { return its.g.node.Propose(late.Append(nil)) }))
		must(t, its.work())
		if out := mine.ask(late); out.Duplicate || out.Err != nil || out.Results[0].Err != nil {
			t.Errorf("%s, let in late: %+v", key, out)
		}
	}
	if sides[true] < 3 || sides[false] < 3 {
		t.Fatalf("%v items on the sides", sides)
	}
	for what, err := range map[string]error{
		"no boundary": r.g.ProposeSplit("", 99), "at the end": r.g.ProposeSplit(at, 99), "outside": r.g.ProposeSplit("FE", 99), "above all keys": right.g.ProposeSplit("40", 99),
		"too fine": r.g.ProposeSplit("0000000000000000000000000000000001", 99), "no id": r.g.ProposeSplit(middle(r.g), 0), "own id": r.g.ProposeSplit(middle(r.g), 1),
	} {
		if !errors.Is(err, ErrRange) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestSplitTwiceForOneRight: of two entries that split off the same right group the second one does nothing, also when the
// first one was not applied yet as it was proposed, and after a restart. So no key is between the two groups.
func TestSplitTwiceForOneRight(t *testing.T) {
	mem := vfs.NewMem()
	r := single(t, mem, 100)
	span, _ := r.g.Range()
	at := partmap.Midpoint(span)
	below := partmap.Midpoint(partmap.Range{Min: span.Min, Max: at})
	must(t, r.g.ProposeSplit(at.String(), rightID))
	must(t, r.g.ProposeSplit(below.String(), rightID))
	must(t, r.work())
	again, err := open(t, mem.Crash(vfs.CrashOptions{Keep: vfs.KeepAll}), 1, nil)
	must(t, err)
	must(t, again.work())
	for _, r := range []*rig{r, again} {
		right, err := r.other(rightID)
		must(t, err)
		left, epoch := r.g.Range()
		if its, _ := right.g.Range(); left.Max != at || its.Min != at || epoch != 2 {
			t.Errorf("the left group ends at %s, in epoch %d, and the right one begins at %s", left.Max, epoch, its.Min)
		}
	}
	r.lead()
	if err := r.g.ProposeSplit(below.String(), rightID); !errors.Is(err, ErrRange) {
		t.Errorf("proposed when the first one was applied: %v", err)
	}
}

// TestSplitOffAnother: an entry splits off a group whose id another group of the node has. The replica stops before it, and
// has all of its range, also when it is opened again.
func TestSplitOffAnother(t *testing.T) {
	const third = rightID + 1
	mem := vfs.NewMem()
	r := single(t, mem, 100)
	must(t, r.g.ProposeSplit(middle(r.g), rightID))
	must(t, r.work())
	right, err := r.other(rightID)
	must(t, err)
	right.lead()
	must(t, right.g.ProposeSplit(middle(right.g), third))
	must(t, right.work())
	before, _ := r.g.Range()
	must(t, r.g.ProposeSplit(middle(r.g), third))
	err = r.work()
	for range 2 {
		for n := 0; n < 100 && err == nil; n++ {
			err = errors.Join(r.g.Tick(), r.work())
		}
		if _, cutErr := partitionOf(r.c, before); cutErr != nil || !errors.Is(err, ErrTaken) {
			t.Fatalf("applied: %v; its partition: %v", err, cutErr)
		}
		r, err = open(t, mem.Crash(vfs.CrashOptions{Keep: vfs.KeepAll}), 1, nil)
		must(t, err)
	}
}

// TestSplitCrash stops a node at each call of the file system while it splits, and while the
// right group is then removed. After each crash all of its groups open, and come to the same
// end: whether or not the right group is there, it is there as a whole, and once it was
// removed it does not come back.
func TestSplitCrash(t *testing.T) {
	from := vfs.NewMem()
	r := single(t, from, 100)
	old := r.g.Applied()
	for n := uint64(1); n <= 12; n++ {
		r.ask(keyed(n, old))
	}
	at := middle(r.g)
	must(t, r.log.Close())
	must(t, r.db.Close())
	story := func(r *rig) (gone bool, err error) {
		right := new(rig)
		opened := false
		if r.log.Group(rightID) != nil {
			right, err = r.other(rightID)
			if err != nil && !errors.Is(err, raftlog.ErrRemoved) {
				return false, err
			}
			opened = err == nil
		}
		if err = r.work(); err != nil {
			return false, err
		}
		for n := 0; n < 100 && !r.g.IsLeader(); n++ {
			if err = errors.Join(r.g.Tick(), r.work()); err != nil {
				return false, err
			}
		}
		if _, epoch := r.g.Range(); epoch == 1 {
			if err = r.g.ProposeSplit(at, rightID); err == nil {
				err = r.work()
			}
			if err != nil {
				return false, err
			}
		}
		if r.log.Group(rightID) == nil {
			return true, nil
		}
		if !opened {
			if right, err = r.other(rightID); err != nil {
				return false, err
			}
		}
		if err = right.work(); err == nil {
			err = right.g.Destroy(ctx)
		}
		if err == nil {
			err = r.g.Truncate(ctx)
		}
		return true, err
	}
	whole, split, removed := 0, 0, 0
	for n := int64(1); ; n++ {
		mem := from.Clone()
		faulty := vfs.NewFaulty(mem)
		r, err := open(t, faulty, 1, nil)
		must(t, err)
		must(t, r.work())
		var image *vfs.Mem
		faulty.StopAt(faulty.Calls()+n, func() { image = mem.Clone() })
		_, err = story(r)
		if image == nil {
			must(t, err)
			break
		}
		for _, keep := range []vfs.CrashOptions{{Keep: vfs.KeepNone}, {Keep: vfs.KeepAll}, {Keep: vfs.KeepRandom, TornLast: true, Seed: uint64(n)}} {
			again, err := open(t, image.Crash(keep), 1, nil)
			if err != nil {
				t.Fatalf("call %d, %+v: %v", n, keep, err)
			}
			here := again.log.Group(rightID) != nil
			if here {
				split++
			}
			if _, err := again.log.Create(rightID, 1, raftlog.Base{}); errors.Is(err, raftlog.ErrRemoved) {
				removed++
			} else if err == nil {
				whole++
				must(t, again.log.Close())
				must(t, again.db.Close())
				if again, err = open(t, image.Crash(keep), 1, nil); err != nil {
					t.Fatal(err)
				}
			}
			gone, err := story(again)
			if err != nil || !gone {
				t.Fatalf("call %d, %+v: again: gone %v, %v", n, keep, gone, err)
			}
			if _, err := again.log.Create(rightID, 1, raftlog.Base{}); !errors.Is(err, raftlog.ErrRemoved) {
				t.Fatalf("call %d, %+v: the right replica can be made again: %v", n, keep, err)
			}
			left, _ := again.g.Range()
			for n := uint64(1); n <= 12; n++ {
				key := engine.StringKey(fmt.Sprint("k", n))
				epk := key.EPK()
				if _, err := again.c.Read(ctx, key, "i"); left.Contains(&epk) != (err == nil) || err != nil && !errors.Is(err, engine.ErrNotHere) {
					t.Fatalf("call %d, %+v: %s: %v", n, keep, key, err)
				}
			}
		}
	}
	if whole < 5 || split < 5 || removed < 5 {
		t.Errorf("%d times before the right group, %d times with it, %d times after it was removed", whole, split, removed)
	}
}

// TestSnapshotPastSplit: a replica that a snapshot brings past a split has the left half, and
// serves nothing of the right one; it takes part in the right group, from a snapshot of that.
// Each call of the file system may be the last one before a crash.
func TestSnapshotPastSplit(t *testing.T) { snapshotPastSplit(t, false) }

// TestSnapshotPastInterruptedSplit: the same, of a replica that a crash has interrupted in that
// split, when its partition was cut already.
func TestSnapshotPastInterruptedSplit(t *testing.T) { snapshotPastSplit(t, true) }

func snapshotPastSplit(t *testing.T, interrupted bool) {
	leader := single(t, vfs.NewMem(), 100)
	old := leader.g.Applied()
	for n := uint64(1); n <= 6; n++ {
		leader.ask(keyed(n, old))
	}
	must(t, leader.g.ProposeChange(&pb.ConfChangeV2{Changes: []*pb.ConfChangeSingle{{Type: pb.ConfChangeAddLearnerNode.Enum(), NodeId: new(uint64(2))}}}))
	must(t, leader.work())
	early, earlyStream := leader.snapshot()
	must(t, leader.g.ProposeSplit(middle(leader.g), rightID))
	must(t, leader.work())
	right, err := leader.other(rightID)
	must(t, err)
	right.lead()
	late, lateStream := leader.snapshot()
	lateRight, rightStream := right.snapshot()
	from := vfs.NewMem()
	joined, err := open(t, from, 2, new(raftlog.Base))
	must(t, err)
	must(t, joined.take(early, earlyStream))
	if interrupted {
		span, _ := joined.g.Range()
		left, _ := leader.g.Range()
		must(t, cut(ctx, joined.c, span, left.Max))
	}
	must(t, joined.log.Close())
	must(t, joined.db.Close())
	left, _ := leader.g.Range()
	before, after := 0, 0
	for n := int64(1); ; n++ {
		mem := from.Clone()
		faulty := vfs.NewFaulty(mem)
		r, err := open(t, faulty, 2, nil)
		must(t, err)
		must(t, r.work())
		var image *vfs.Mem
		faulty.StopAt(faulty.Calls()+n, func() { image = mem.Clone() })
		err = r.take(late, lateStream)
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
			must(t, again.work())
			span, _ := again.g.Range()
			if past := span == left; !past {
				before++
			} else {
				after++
			}
			for n := uint64(1); n <= 6; n++ {
				key := engine.StringKey(fmt.Sprint("k", n))
				epk := key.EPK()
				if _, err := again.c.Read(ctx, key, "i"); span.Contains(&epk) != (err == nil) || err != nil && !errors.Is(err, engine.ErrNotHere) {
					t.Fatalf("call %d, %+v: %s: %v", n, keep, key, err)
				}
			}
			must(t, again.take(late, lateStream))
			if again.log.Group(rightID) == nil {
				t.Fatalf("call %d, %+v: no log of the right group", n, keep)
			}
			second, err := again.other(rightID)
			must(t, err)
			must(t, second.take(lateRight, rightStream))
			for n := uint64(1); n <= 6; n++ {
				if _, err := again.c.Read(ctx, engine.StringKey(fmt.Sprint("k", n)), "i"); err != nil {
					t.Fatalf("call %d, %+v: at the end: %v", n, keep, err)
				}
			}
		}
		if done {
			break
		}
	}
	if before < 5 || after < 5 {
		t.Errorf("%d times before the snapshot, %d times behind it", before, after)
	}
	// A snapshot of the right group alone finds its range in use.
	r, err := open(t, from.Clone(), 2, nil)
	must(t, err)
	_, err = r.log.Create(rightID, 2, raftlog.Base{})
	must(t, err)
	second, err := r.other(rightID)
	must(t, err)
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(rightStream)), nil }
	if err := second.g.StepSnapshot(proto.CloneOf(lateRight), open); !errors.Is(err, ErrNoRoom) {
		t.Errorf("a range in use: %v", err)
	}
}

// TestTimeOfReads: a read sees no item that has expired long ago, though nothing was written
// since; the group makes an entry for that, and none where it need not.
func TestTimeOfReads(t *testing.T) {
	def := containerDef
	defer func() { containerDef = def }()
	containerDef.DefaultTTL = engine.NoExpiry
	r := single(t, vfs.NewMem(), 100)
	c := upsert(1, 1, "i")
	c.Batches[0].Operations[0].TTL = 10 * time.Second
	r.ask(c)
	read := func() (found bool) {
		t.Helper()
		must(t, r.work())
		r.reads = nil
		id, err := r.g.Read()
		must(t, err)
		must(t, r.work())
		if len(r.reads) != 1 || r.reads[0].ID != id {
			t.Fatalf("%+v", r.reads)
		}
		_, err = r.c.Read(ctx, key, "i")
		return err == nil
	}
	at := r.g.Applied()
	if !read() || r.g.Applied() != at {
		t.Errorf("entry %d, was %d", r.g.Applied(), at)
	}
	r.now = r.now.Add(9 * time.Second)
	if !read() || r.g.Applied() != at+1 {
		t.Errorf("entry %d, was %d", r.g.Applied(), at)
	}
	r.now = r.now.Add(2 * time.Second)
	if read() || r.g.Applied() != at+2 {
		t.Errorf("entry %d, was %d", r.g.Applied(), at)
	}
	r.now = r.now.Add(-time.Hour) // the next leader is behind
	if read() {
		t.Error("the item is back")
	}
}

// TestSplitFindsEmpty: a message has come for the right replica before its node has applied the
// split, so an empty one was made. It gets the base, keeps its vote, and has the right half.
func TestSplitFindsEmpty(t *testing.T) {
	mem := vfs.NewMem()
	r := single(t, mem, 100)
	old := r.g.Applied()
	for n := uint64(1); n <= 6; n++ {
		r.ask(keyed(n, old))
	}
	_, err := r.log.Create(rightID, 1, raftlog.Base{})
	must(t, err)
	empty, err := r.other(rightID)
	must(t, err)
	must(t, empty.g.Step(&pb.Message{Type: pb.MsgVote.Enum(), From: new(uint64(5)), To: new(uint64(1)), Term: new(uint64(9)), Index: new(uint64(100)), LogTerm: new(uint64(8))}))
	must(t, empty.work())
	if empty.g.Term() != 9 || len(empty.sent) != 1 || empty.sent[0].GetType() != pb.MsgVoteResp || empty.sent[0].GetReject() {
		t.Fatalf("term %d, %v", empty.g.Term(), empty.sent)
	}
	must(t, r.g.ProposeSplit(middle(r.g), rightID))
	must(t, r.work())
	if len(r.created) != 1 || r.created[0] != rightID {
		t.Fatalf("created: %v", r.created)
	}
	check := func(r *rig) {
		t.Helper()
		right, err := r.other(rightID)
		must(t, err)
		hard, _, err := r.log.Group(rightID).InitialState()
		must(t, err)
		if hard.GetTerm() != 9 || hard.GetVote() != 5 || right.g.Held() != r.g.Held() || right.g.Removed() {
			t.Errorf("%v, at entry %d, the left half is at %d", hard, right.g.Held(), r.g.Held())
		}
		for n := uint64(1); n <= 6; n++ {
			if _, err := r.c.Read(ctx, engine.StringKey(fmt.Sprint("k", n)), "i"); err != nil {
				t.Errorf("k%d: %v", n, err)
			}
		}
	}
	check(r)
	again, err := open(t, mem.Crash(vfs.CrashOptions{Keep: vfs.KeepNone}), 1, nil)
	must(t, err)
	must(t, again.work())
	check(again)
}

// slowManifest holds up the next manifest of the Raft log.
type slowManifest struct {
	vfs.FS
	armed         atomic.Bool
	reached, goOn chan struct{}
}

func (f *slowManifest) Rename(from, to string) error {
	if strings.HasPrefix(to, "raft/") && f.armed.CompareAndSwap(true, false) {
		close(f.reached)
		<-f.goOn
	}
	return f.FS.Rename(from, to)
}

// TestSplitMeetsEmpty: an empty replica is made for a message just while its node applies the split, so
// that its log is not there yet, and cannot be made either. It gets the base all the same: else it would
// wait for a snapshot for ever, and refuse each, since the right half is here.
func TestSplitMeetsEmpty(t *testing.T) {
	fs := &slowManifest{FS: vfs.NewMem(), reached: make(chan struct{}), goOn: make(chan struct{})}
	r := single(t, fs, 100)
	for n := uint64(1); n <= 6; n++ {
		r.ask(keyed(n, r.g.Applied()))
	}
	before := r.g.Held()
	span, _ := r.g.Range()
	span.Min = partmap.Midpoint(span)
	fs.armed.Store(true)
	made := make(chan error, 1)
	go func() {
		_, err := r.log.Create(rightID, 1, raftlog.Base{})
		made <- err
	}()
	<-fs.reached
	must(t, r.g.ProposeSplit(middle(r.g), rightID))
	split := make(chan error, 1)
	go func() { split <- r.work() }()
	for held := uint64(0); held <= before; runtime.Gosched() { // the step before the log is made
		if p, err := partitionOf(r.c, span); err == nil {
			held, err = r.c.AppliedIndex(p.ID)
			must(t, err)
		}
	}
	for range 10_000 {
		runtime.Gosched()
	}
	close(fs.goOn)
	must(t, <-made)
	must(t, <-split)
	right, err := r.other(rightID)
	must(t, err)
	if len(r.created) != 1 || right.g.Held() != r.g.Held() || r.log.Group(rightID).Base().Index == 0 {
		t.Errorf("created %v, the right half is at entry %d, the left one at %d", r.created, right.g.Held(), r.g.Held())
	}
}

// TestSplitAfterRemoval: the right replica was here as an empty one, and its group has removed
// it, before the node applies the split. Nothing of the right half stays.
func TestSplitAfterRemoval(t *testing.T) {
	mem := vfs.NewMem()
	r := single(t, mem, 100)
	old := r.g.Applied()
	for n := uint64(1); n <= 6; n++ {
		r.ask(keyed(n, old))
	}
	_, err := r.log.Create(rightID, 1, raftlog.Base{})
	must(t, err)
	empty, err := r.other(rightID)
	must(t, err)
	must(t, empty.g.Destroy(ctx))
	must(t, r.g.ProposeSplit(middle(r.g), rightID))
	must(t, r.work())
	if len(r.created) != 0 || r.log.Group(rightID) != nil {
		t.Errorf("created: %v", r.created)
	}
	left, epoch := r.g.Range()
	if epoch != 2 {
		t.Fatalf("epoch %d", epoch)
	}
	for n := uint64(1); n <= 6; n++ {
		key := engine.StringKey(fmt.Sprint("k", n))
		epk := key.EPK()
		if _, err := r.c.Read(ctx, key, "i"); left.Contains(&epk) != (err == nil) || err != nil && !errors.Is(err, engine.ErrNotHere) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// TestSplitOfRight: a crash comes when the log of the right group is there and the split has not ended, at each such call of the
// file system. The right group goes on, and splits in its turn, before the left one applies the entry again. The left
// one ends the split then, and all three have their items.
func TestSplitOfRight(t *testing.T) {
	from := vfs.NewMem()
	r := single(t, from, 100)
	old := r.g.Applied()
	for n := uint64(1); n <= 12; n++ {
		r.ask(keyed(n, old))
	}
	at, before := middle(r.g), r.g.Held()
	must(t, r.log.Close())
	must(t, r.db.Close())
	const third = rightID + 1
	tried := 0
	for n := int64(1); ; n++ {
		mem := from.Clone()
		faulty := vfs.NewFaulty(mem)
		r, err := open(t, faulty, 1, nil)
		must(t, err)
		must(t, r.work())
		r.lead()
		var image *vfs.Mem
		faulty.StopAt(faulty.Calls()+n, func() { image = mem.Clone() })
		if err = r.g.ProposeSplit(at, rightID); err == nil {
			err = r.work()
		}
		if image == nil {
			must(t, err)
			break
		}
		again, err := open(t, image.Crash(vfs.CrashOptions{Keep: vfs.KeepAll}), 1, nil)
		must(t, err)
		if again.log.Group(rightID) == nil || again.g.Held() > before+1 {
			continue
		}
		tried++
		right, err := again.other(rightID)
		must(t, err)
		right.lead()
		must(t, right.g.ProposeSplit(middle(right.g), third))
		must(t, right.work())
		if err = again.work(); err != nil {
			t.Fatalf("call %d: %v", n, err)
		}
		again.lead()
		if span, epoch := again.g.Range(); epoch != 2 || span.Max.String() != at {
			t.Errorf("call %d: the left group has [%s, %s), epoch %d", n, span.Min, span.Max, epoch)
		}
		for n := uint64(1); n <= 12; n++ {
			if _, err := again.c.Read(ctx, engine.StringKey(fmt.Sprint("k", n)), "i"); err != nil {
				t.Errorf("k%d: %v", n, err)
			}
		}
		if _, err = again.other(third); err != nil {
			t.Error(err)
		}
	}
	if tried == 0 {
		t.Error("no crash came between")
	}
}
