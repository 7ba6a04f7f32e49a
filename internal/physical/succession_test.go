package physical_test

import (
	"testing"

	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/physical"
	"github.com/cleavestore/cleave/internal/physicaltest"
	"github.com/cleavestore/cleave/wal"
)

// takeOver lets the children take the place of the parents.
func takeOver(s *physicaltest.Store, parents, children []*physical.Partition) {
	heirs := physical.Succession{Env: &s.Env, Parents: parents, Children: children}
	if len(parents) > 1 {
		s.OK(heirs.SyncParents())
	}
	heirs.Lock()
	defer heirs.Unlock()
	s.OK(heirs.TakeOverLocked())
	for _, p := range parents {
		p.EndLocked()
	}
}

// TestTakeOver: each child of a split has what its part of the key space has in memory. A
// write that the parent had not shown yet becomes visible in the children when its writer
// shows it, and not before.
func TestTakeOver(t *testing.T) {
	s := physicaltest.New(t)
	low, high := physicaltest.Halves()
	parent := s.Partition(1, physicaltest.Whole())
	s.OK(parent.Show(s.Write(parent, physicaltest.KeyIn(low), "a", false)))
	s.OK(parent.Show(s.Write(parent, physicaltest.KeyIn(high), "b", false)))
	late := s.Write(parent, physicaltest.KeyIn(low), "c", true)
	left, right := s.Partition(2, low), s.Partition(3, high)
	takeOver(s, []*physical.Partition{parent}, []*physical.Partition{left, right})
	if !s.Holds(left, physicaltest.KeyIn(low), "a") || !s.Holds(right, physicaltest.KeyIn(high), "b") || s.Holds(left, physicaltest.KeyIn(low), "c") {
		t.Errorf("left has a: %v, right has b: %v, left has c, which is not shown: %v",
			s.Holds(left, physicaltest.KeyIn(low), "a"), s.Holds(right, physicaltest.KeyIn(high), "b"), s.Holds(left, physicaltest.KeyIn(low), "c"))
	}
	for _, f := range left.Version.Load().Frozen {
		if k := physicaltest.KeyIn(high); f.Clip == nil || f.Sharers.Load() != 3 {
			t.Errorf("the left child sees %v of a memtable with %d sharers, key %s is not its own", f.Clip, f.Sharers.Load(), k)
		}
	}
	s.OK(parent.Show(late))
	if !s.Holds(left, physicaltest.KeyIn(low), "c") || s.Log.Synced() < late.Need {
		t.Errorf("after Show: visible %v, synced up to %d of %d", s.Holds(left, physicaltest.KeyIn(low), "c"), s.Log.Synced(), late.Need)
	}
	if !parent.Replaced() || left.Replaced() {
		t.Error("the parent was replaced, the child was not")
	}
	if next := s.Write(left, physicaltest.KeyIn(low), "d", false); next.Seq <= late.Seq || next.Need != late.Need {
		t.Errorf("a write to a child: %+v, behind the parent's %+v", next, late)
	}
	if n := s.Records(parent, wal.TypeFence); n != 1 {
		t.Errorf("%d fences in the stream of the parent", n)
	}
}

// TestTakeOverOfSeveral: the children of two parents show a write only when all that both
// parents wrote is durable, and a parent's writes before the swap wait for their sync.
func TestTakeOverOfSeveral(t *testing.T) {
	s := physicaltest.New(t)
	low, high := physicaltest.Halves()
	left, right := s.Partition(1, low), s.Partition(2, high)
	s.Write(left, physicaltest.KeyIn(low), "a", false)
	heirs := physical.Succession{Env: &s.Env, Parents: []*physical.Partition{left, right}}
	s.OK(heirs.SyncParents())
	if b := s.Write(right, physicaltest.KeyIn(high), "b", false); b.Need != b.Pos {
		t.Errorf("%+v: a write between the sync and the swap does not wait for its sync", b)
	}
	c := s.Write(left, physicaltest.KeyIn(low), "c", false)
	child := s.Partition(3, physicaltest.Whole())
	takeOver(s, []*physical.Partition{left, right}, []*physical.Partition{child})
	s.OK(left.Show(physical.Record{Seq: c.Seq}))
	if !s.Holds(child, physicaltest.KeyIn(high), "b") || !s.Holds(child, physicaltest.KeyIn(low), "c") || s.Log.Synced() < c.Pos {
		t.Errorf("shown: %v, %v; synced up to %d of %d", s.Holds(child, physicaltest.KeyIn(high), "b"), s.Holds(child, physicaltest.KeyIn(low), "c"), s.Log.Synced(), c.Pos)
	}
	for _, f := range child.Version.Load().Frozen {
		if f.Synced != f.Last || f.Last < c.Pos || f.Clip != nil {
			t.Errorf("a memtable may be flushed when the log is synced up to %d, its clip is %v", f.Synced, f.Clip)
		}
	}
}

// TestEndInheritance: a child names the streams of its parents in its manifest until it
// holds nothing of them. A replicated child then has the entry of its parent, also if that
// wrote nothing.
func TestEndInheritance(t *testing.T) {
	s := physicaltest.New(t)
	s.Family.Replicated = true
	low, high := physicaltest.Halves()
	parent := s.Partition(1, physicaltest.Whole())
	parent.Commit.Lock()
	parent.Commit.LastSeq, parent.Commit.Applied = 8, manifest.Applied{Index: 4, Time: 9}
	parent.Commit.Unlock()
	left, right := s.Partition(2, low), s.Partition(3, high)
	for _, child := range []*physical.Partition{left, right} {
		child.Inherits.Store(&[]manifest.Inherited{{Stream: 1}})
	}
	takeOver(s, []*physical.Partition{parent}, []*physical.Partition{left, right})
	s.OK(left.EndInheritance(t.Context()))
	if m := s.Manifest(left); len(m.Inherits) > 0 || m.FlushedSeq != 8 || m.Applied.OrZero().Index != 4 {
		t.Errorf("manifest: inherits %v, sequence %d, entry %+v", m.Inherits, m.FlushedSeq, m.Applied)
	}
	right.EndLocked()
	s.OK(right.EndInheritance(t.Context()))
	if len(right.Inherited()) != 1 {
		t.Error("a partition that has ended stored a manifest")
	}
	// An entry of its own that writes nothing gets into the manifest too.
	s.Write(left, physicaltest.KeyIn(low), "a", false)
	left.Freeze()
	left.NoteEntry(9, manifest.Applied{Index: 5, Time: 10})
	s.OK(left.FlushFrozen(t.Context()))
	if m := s.Manifest(left); m.FlushedSeq != 9 || m.Applied.OrZero().Index != 5 {
		t.Errorf("manifest: sequence %d, entry %+v", m.FlushedSeq, m.Applied)
	}
}

// TestEndInheritanceBehindWrites: a replicated child has the newest entry of its parent also if
// that wrote nothing and follows one whose memtable was frozen.
func TestEndInheritanceBehindWrites(t *testing.T) {
	s := physicaltest.New(t)
	s.Family.Replicated = true
	low, high := physicaltest.Halves()
	parent := s.Partition(1, physicaltest.Whole())
	wrote := s.Write(parent, physicaltest.KeyIn(low), "a", false)
	s.OK(parent.Show(wrote))
	parent.Freeze()
	parent.NoteEntry(wrote.Seq+1, manifest.Applied{Index: 5, Time: 10})
	children := []*physical.Partition{s.Partition(2, low), s.Partition(3, high)}
	for _, child := range children {
		child.Inherits.Store(&[]manifest.Inherited{{Stream: 1}})
	}
	takeOver(s, []*physical.Partition{parent}, children)
	for _, child := range children {
		s.OK(child.EndInheritance(t.Context()))
		m := s.Manifest(child)
		if len(m.Inherits) > 0 || m.FlushedSeq != wrote.Seq+1 || m.Applied.OrZero().Index != 5 || child.DurableEntry() != 5 {
			t.Errorf("manifest: inherits %v, sequence %d, entry %+v; durable is %d", m.Inherits, m.FlushedSeq, m.Applied, child.DurableEntry())
		}
	}
	if runs := children[0].Version.Load().Runs; len(runs) != 1 || runs[0].Items() != 1 {
		t.Errorf("%d runs with what the parent wrote", len(runs))
	}
}
