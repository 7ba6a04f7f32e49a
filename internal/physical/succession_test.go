package physical

import (
	"testing"

	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/wal"
)

// takeOver lets the children take the place of the parents.
func (s *store) takeOver(parents, children []*Partition) {
	s.t.Helper()
	heirs := Succession{Env: &s.Env, Parents: parents, Children: children}
	if len(parents) > 1 {
		s.ok(heirs.SyncParents())
	}
	heirs.Lock()
	defer heirs.Unlock()
	s.ok(heirs.TakeOverLocked())
	for _, p := range parents {
		p.EndLocked()
	}
}

// TestTakeOver: each child of a split has what its part of the key space has in memory. A
// write that the parent had not shown yet becomes visible in the children when its writer
// shows it, and not before.
func TestTakeOver(t *testing.T) {
	s := newStore(t)
	low, high := halves()
	parent := s.partition(1, whole())
	s.ok(parent.Show(s.write(parent, keyIn(low), "a", false)))
	s.ok(parent.Show(s.write(parent, keyIn(high), "b", false)))
	late := s.write(parent, keyIn(low), "c", true)
	left, right := s.partition(2, low), s.partition(3, high)
	s.takeOver([]*Partition{parent}, []*Partition{left, right})
	if !s.holds(left, keyIn(low), "a") || !s.holds(right, keyIn(high), "b") || s.holds(left, keyIn(low), "c") {
		t.Errorf("left has a: %v, right has b: %v, left has c, which is not shown: %v",
			s.holds(left, keyIn(low), "a"), s.holds(right, keyIn(high), "b"), s.holds(left, keyIn(low), "c"))
	}
	for _, f := range left.Version.Load().Frozen {
		if k := keyIn(high); f.Clip == nil || f.Sharers.Load() != 3 {
			t.Errorf("the left child sees %v of a memtable with %d sharers, key %s is not its own", f.Clip, f.Sharers.Load(), k)
		}
	}
	s.ok(parent.Show(late))
	if !s.holds(left, keyIn(low), "c") || s.Log.Synced() < late.Need {
		t.Errorf("after Show: visible %v, synced up to %d of %d", s.holds(left, keyIn(low), "c"), s.Log.Synced(), late.Need)
	}
	if !parent.Replaced() || left.Replaced() {
		t.Error("the parent was replaced, the child was not")
	}
	if next := s.write(left, keyIn(low), "d", false); next.Seq <= late.Seq || next.Need != late.Need {
		t.Errorf("a write to a child: %+v, behind the parent's %+v", next, late)
	}
	if n := s.records(parent, wal.TypeFence); n != 1 {
		t.Errorf("%d fences in the stream of the parent", n)
	}
}

// TestTakeOverOfSeveral: the children of two parents show a write only when all that both
// parents wrote is durable, and a parent's writes before the swap wait for their sync.
func TestTakeOverOfSeveral(t *testing.T) {
	s := newStore(t)
	low, high := halves()
	left, right := s.partition(1, low), s.partition(2, high)
	s.write(left, keyIn(low), "a", false)
	heirs := Succession{Env: &s.Env, Parents: []*Partition{left, right}}
	s.ok(heirs.SyncParents())
	if b := s.write(right, keyIn(high), "b", false); b.Need != b.Pos {
		t.Errorf("%+v: a write between the sync and the swap does not wait for its sync", b)
	}
	c := s.write(left, keyIn(low), "c", false)
	child := s.partition(3, whole())
	s.takeOver([]*Partition{left, right}, []*Partition{child})
	s.ok(left.Show(Record{Seq: c.Seq}))
	if !s.holds(child, keyIn(high), "b") || !s.holds(child, keyIn(low), "c") || s.Log.Synced() < c.Pos {
		t.Errorf("shown: %v, %v; synced up to %d of %d", s.holds(child, keyIn(high), "b"), s.holds(child, keyIn(low), "c"), s.Log.Synced(), c.Pos)
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
	s := newStore(t)
	s.family.Replicated = true
	low, high := halves()
	parent := s.partition(1, whole())
	parent.Commit.Lock()
	parent.Commit.LastSeq, parent.Commit.Applied = 8, manifest.Applied{Index: 4, Time: 9}
	parent.Commit.Unlock()
	left, right := s.partition(2, low), s.partition(3, high)
	for _, child := range []*Partition{left, right} {
		child.Inherits.Store(&[]manifest.Inherited{{Stream: 1}})
	}
	s.takeOver([]*Partition{parent}, []*Partition{left, right})
	s.ok(left.EndInheritance(t.Context()))
	if m := s.reopened(left); len(m.Inherits) > 0 || m.FlushedSeq != 8 || m.Applied.OrZero().Index != 4 {
		t.Errorf("manifest: inherits %v, sequence %d, entry %+v", m.Inherits, m.FlushedSeq, m.Applied)
	}
	right.EndLocked()
	s.ok(right.EndInheritance(t.Context()))
	if len(right.Inherited()) != 1 {
		t.Error("a partition that has ended stored a manifest")
	}
	// An entry of its own that writes nothing gets into the manifest too.
	left.NoteEntry(9, manifest.Applied{Index: 5, Time: 10})
	s.ok(left.noteEntries())
	if m := s.reopened(left); m.FlushedSeq != 9 || m.Applied.OrZero().Index != 5 {
		t.Errorf("manifest: sequence %d, entry %+v", m.FlushedSeq, m.Applied)
	}
}
