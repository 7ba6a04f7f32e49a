package reshaping

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/physical"
	"github.com/cleavestore/cleave/internal/physicaltest"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/splitter"
)

// prepared makes a plan for some partitions, and does steps 1 and 2 with it.
func prepared(t *testing.T, s *physicaltest.Store, kind splitter.Kind, cut Cut, parents ...*physical.Partition) *Steps {
	t.Helper()
	r := &Steps{Container: 1}
	r.Env, r.Parents = &s.Env, parents
	_, err := r.Decide(kind, cut)
	s.OK(err)
	e := manifest.Edit{}
	e.NextPartition = 7
	ids := r.Intend(&e)
	if e.NextPartition != 7+uint32(len(ids)) || len(e.Intents) != 1 || len(e.Intents[0].Children) != len(r.Plan.Children) {
		t.Fatalf("intent %+v for %d children, next partition %d", e.Intents, len(ids), e.NextPartition)
	}
	copied, err := r.Prepare(t.Context(), func(e partmap.Entry) *physical.Partition { return s.New(e.ID, e.Range) })
	s.OK(err)
	if copied != 0 {
		t.Errorf("%d bytes were copied of files that can be linked", copied)
	}
	return r
}

// flushed makes a partition with an item at each end of the key space, in files.
func flushed(t *testing.T, s *physicaltest.Store, id partmap.PartitionID, rng partmap.Range, ids ...string) *physical.Partition {
	t.Helper()
	p := s.Partition(id, rng)
	low, high := physicaltest.Halves()
	for _, id := range ids {
		for _, half := range []partmap.Range{low, high} {
			if half.Overlaps(rng) {
				s.Write(p, physicaltest.KeyIn(half), id, false)
			}
		}
	}
	p.Freeze()
	s.OK(p.FlushFrozen(t.Context()))
	return p
}

// TestSplit: the children of a split share the files of the parent, each has a durable
// manifest that names what it inherits, and the store manifest gets all of it in one edit.
func TestSplit(t *testing.T) {
	s := physicaltest.New(t)
	parent := flushed(t, s, 1, physicaltest.Whole(), "a", "b")
	parent.ChangeFloor.Store(3)
	parent.InstallEpoch = 2
	_, high := physicaltest.Halves()
	r := prepared(t, s, splitter.Split, Cut{At: high.Min.String()}, parent)
	if len(r.Children) != 2 || r.Children[0].Range.Max.Compare(&high.Min) != 0 || r.Children[1].Range.Min.Compare(&high.Min) != 0 {
		t.Fatalf("%d children, cut at %s", len(r.Children), r.Children[0].Range.Max)
	}
	for _, child := range r.Children {
		m := s.Manifest(child)
		want := []manifest.Inherited{{Stream: 1, FlushedSeq: parent.LastSeq()}}
		if !slices.Equal(m.Inherits, want) || m.FlushedSeq != parent.LastSeq() || len(m.Runs) != 1 || m.ChangeFloor != 3 {
			t.Errorf("manifest of %d: inherits %v, sequence %d, %d runs, floor %d", child.ID, m.Inherits, m.FlushedSeq, len(m.Runs), m.ChangeFloor)
		}
		if child.InstallEpoch != 2 || !slices.Equal(child.Parents, []partmap.PartitionID{1}) {
			t.Errorf("child %d of %v, epoch %d", child.ID, child.Parents, child.InstallEpoch)
		}
		for f := range files(child) {
			if _, err := s.FS.Stat(f.Name); err != nil {
				t.Error(err)
			}
		}
	}
	if r.SyncsLog() {
		t.Error("a split of one parent syncs the log")
	}
	state := manifest.Store{Partitions: []manifest.Partition{{ID: 1, Container: 1, Share: 0.5}}}
	var e manifest.Edit
	r.Commit(&e, &state, 99)
	if !slices.Equal(e.DropPartitions, []uint32{1}) || len(e.Partitions) != 2 || e.Partitions[0].Share != 0.25 || e.Partitions[1].ID != 8 {
		t.Errorf("drops %v for %+v", e.DropPartitions, e.Partitions)
	}
	if h := e.History; len(h) != 1 || h[0].Kind != "split" || h[0].Time != 99 || !slices.Equal(h[0].Children, []uint32{7, 8}) {
		t.Errorf("history %+v", h)
	}
}

// TestMerge: the child of a merge inherits the streams of both parents, and the log is
// synced before the commit point.
func TestMerge(t *testing.T) {
	s := physicaltest.New(t)
	low, high := physicaltest.Halves()
	left := flushed(t, s, 1, low, "a")
	right := flushed(t, s, 2, high, "a", "b")
	r := prepared(t, s, splitter.Merge, Cut{}, left, right)
	m := s.Manifest(r.Children[0])
	want := []manifest.Inherited{{Stream: 1, FlushedSeq: left.LastSeq()}, {Stream: 2, FlushedSeq: right.LastSeq()}}
	if !slices.Equal(m.Inherits, want) || m.FlushedSeq != right.LastSeq() || !r.SyncsLog() {
		t.Errorf("inherits %v, sequence %d; syncs the log: %v", m.Inherits, m.FlushedSeq, r.SyncsLog())
	}
	r.Parents = []*physical.Partition{right, left}
	if _, err := r.Decide(splitter.Merge, Cut{}); !errors.Is(err, splitter.ErrRefused) {
		t.Errorf("a merge of partitions that do not touch in this order: %v", err)
	}
}

// TestDecide: a cut that is asked for is taken, one that halves the bytes is found, and an
// empty partition is cut in the middle only where that is wanted.
func TestDecide(t *testing.T) {
	s := physicaltest.New(t)
	p := flushed(t, s, 1, physicaltest.Whole(), "a", "b")
	empty := s.Partition(2, physicaltest.Whole())
	one := s.Partition(3, physicaltest.Whole())
	low, high := physicaltest.Halves()
	s.Write(one, physicaltest.KeyIn(low), "a", false)
	middle := partmap.Midpoint(physicaltest.Whole())
	for _, tc := range []struct {
		name    string
		of      *physical.Partition
		cut     Cut
		at      string // "": any
		bytes   bool   // both sides have some
		refused bool
	}{
		{"where it is asked for", p, Cut{At: middle.String()}, middle.String(), false, false},
		{"outside of the range", s.Partition(4, low), Cut{At: partmap.Midpoint(high).String()}, "", false, true},
		{"by bytes", p, Cut{}, "", true, false},
		{"of an empty partition", empty, Cut{Midpoint: true}, middle.String(), false, false},
		{"of a single key", one, Cut{}, "", false, true},
		{"of a single key in the middle", one, Cut{Midpoint: true}, middle.String(), false, false},
	} {
		r := Steps{Succession: physical.Succession{Env: &s.Env, Parents: []*physical.Partition{tc.of}}}
		choice, err := r.Decide(splitter.Split, tc.cut)
		if errors.Is(err, splitter.ErrRefused) != tc.refused || err != nil && !tc.refused {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		if err != nil {
			continue
		}
		if both := choice.Left > 0 && choice.Right > 0; both != tc.bytes || tc.at != "" && choice.At.String() != tc.at || len(r.Plan.Children) != 2 {
			t.Errorf("%s: cut at %s with %d and %d bytes, %d children", tc.name, choice.At, choice.Left, choice.Right, len(r.Plan.Children))
		}
	}
	found, err := Weigh(&p.Tree, nil)
	s.OK(err)
	if again, err := Weigh(&p.Tree, &found.At); err != nil || again != found {
		t.Errorf("weighed at its own place: %+v, before: %+v, %v", again, found, err)
	}
}

// TestStill: all flushes of the parents are held, compactions only if that is asked for,
// and after an error nothing stays locked.
func TestStill(t *testing.T) {
	s := physicaltest.New(t)
	low, high := physicaltest.Halves()
	left, right := s.Partition(1, low), s.Partition(2, high)
	r := Steps{Succession: physical.Succession{Env: &s.Env, Parents: []*physical.Partition{left, right}}}
	for _, compactions := range []bool{false, true} {
		stop, err := r.Still(t.Context(), compactions)
		s.OK(err)
		for _, p := range r.Parents {
			if !p.Flushing.Locked() || p.Compacting.Locked() != compactions {
				t.Errorf("compactions %v: flushes held: %v, compactions held: %v", compactions, p.Flushing.Locked(), p.Compacting.Locked())
			}
		}
		stop()
	}
	held, done, released := make(chan error), make(chan struct{}), make(chan struct{})
	go func() { // a flush of the other parent
		defer close(released)
		held <- right.Flushing.Lock(t.Context())
		<-done
		right.Flushing.Unlock()
	}()
	s.OK(<-held)
	ended, end := context.WithCancel(t.Context())
	end()
	stop, err := r.Still(ended, true)
	stop()
	close(done)
	<-released
	if err == nil || left.Flushing.Locked() || left.Compacting.Locked() || right.Compacting.Locked() {
		t.Errorf("%v; still locked: %v, %v, %v", err, left.Flushing.Locked(), left.Compacting.Locked(), right.Compacting.Locked())
	}
}
