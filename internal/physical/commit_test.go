package physical_test

import (
	"testing"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/physicaltest"
	"github.com/cleavestore/cleave/partmap"
)

// TestShow: nothing of a write is visible before it is shown. A write that needs no sync
// waits for the sync of a write before it.
func TestShow(t *testing.T) {
	s := physicaltest.New(t)
	p := s.Partition(1, physicaltest.Whole())
	pk := partmap.String("p")
	first := s.Write(p, pk, "a", false)
	if first.Need != 0 || s.Holds(p, pk, "a") {
		t.Fatalf("a write that is not shown: %+v, visible: %v", first, s.Holds(p, pk, "a"))
	}
	s.OK(p.Show(first))
	if !s.Holds(p, pk, "a") || s.Log.Synced() >= first.Pos {
		t.Fatalf("visible: %v; synced up to %d, the record ends at %d", s.Holds(p, pk, "a"), s.Log.Synced(), first.Pos)
	}
	synced := s.Write(p, pk, "b", true)
	lazy := s.Write(p, pk, "c", false)
	if lazy.Need != synced.Pos || lazy.Pos <= synced.Pos {
		t.Fatalf("a write behind a synced one: %+v, the synced one: %+v", lazy, synced)
	}
	s.OK(p.Show(lazy))
	if s.Log.Synced() < synced.Pos {
		t.Errorf("shown while the log is synced up to %d, needed: %d", s.Log.Synced(), synced.Pos)
	}
	s.OK(p.Publish(first.Seq)) // late: visible does not fall
	if got := p.Visible.Load(); got != lazy.Seq {
		t.Errorf("visible up to %d, want %d", got, lazy.Seq)
	}
}

// TestFreeze: a frozen memtable notes what the log must have before it may be flushed, and
// a full memtable is frozen by the write that fills it.
func TestFreeze(t *testing.T) {
	s := physicaltest.New(t)
	p := s.Partition(1, physicaltest.Whole())
	pk := partmap.String("p")
	if p.Freeze() {
		t.Error("an empty memtable was frozen")
	}
	s.Write(p, pk, "a", true)
	r := s.Write(p, pk, "b", false)
	if !p.Freeze() {
		t.Fatal("not frozen")
	}
	f := p.Version.Load().Frozen[0]
	if f.Last != r.Pos || f.Synced != r.Need || f.LastSeq != r.Seq || p.Version.Load().Active.Versions() != 0 {
		t.Errorf("frozen up to %d, synced %d, sequence %d; the newest record is %+v", f.Last, f.Synced, f.LastSeq, r)
	}
	s.MemtableBytes = 1
	s.Write(p, pk, "c", false)
	if n := len(p.Version.Load().Frozen); n != 2 {
		t.Errorf("%d frozen memtables, want 2", n)
	}
	p.Commit.Lock()
	p.EndLocked()
	p.Commit.Unlock()
	s.MemtableBytes = 1 << 20
	if s.Write(p, pk, "d", false); p.Freeze() {
		t.Error("a dropped partition was frozen")
	}
}

// TestFrozenBytesFirst: the bytes of a frozen memtable are counted before a flush can find
// it. Otherwise a flush that ends early would leave a count at which a write that waits for
// memory does not seem starved, with nothing left that wakes it.
func TestFrozenBytesFirst(t *testing.T) {
	s := physicaltest.New(t)
	p := s.Partition(1, physicaltest.Whole())
	done := make(chan struct{})
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		for {
			var listed int64
			for _, f := range p.Version.Load().Frozen {
				listed += f.Reserved()
			}
			if counted := s.FrozenBytes.Load(); counted < listed {
				t.Errorf("%d bytes are frozen, %d are counted", listed, counted)
				return
			}
			select {
			case <-done:
				return
			default:
			}
		}
	}()
	for range 500 {
		s.Write(p, partmap.String("p"), "a", false)
		p.Freeze()
	}
	close(done)
	<-looked
}

// TestRecoveryNotes: what replay notes raises the sequences and the entry, never lowers
// them. Stamps of a replicated container are not the store's.
func TestRecoveryNotes(t *testing.T) {
	s := physicaltest.New(t)
	p := s.Partition(1, physicaltest.Whole())
	p.NoteVersion(&item.Version{Seq: 7, Modified: 50})
	p.NoteVersion(&item.Version{Seq: 5, Modified: 40})
	p.NoteEntry(9, manifest.Applied{Index: 3, Time: 60})
	p.NoteEntry(8, manifest.Applied{Index: 2, Time: 55})
	r, at := p.Newest()
	if r.Seq != 9 || p.LastSeq() != 9 || p.Visible.Load() != 9 || at.Index != 3 || p.EntryTime.Load() != 60 {
		t.Errorf("%+v, entry %+v, visible %d, entry time %d", r, at, p.Visible.Load(), p.EntryTime.Load())
	}
	if got := s.Stamps.Newest(); got != 50 {
		t.Errorf("newest stamp %d, want 50", got)
	}
	s.Family.Replicated = true
	if p.NoteVersion(&item.Version{Seq: 10, Modified: 70}); s.Stamps.Newest() != 50 {
		t.Error("a replicated container gave the store a stamp")
	}
}
