package physical_test

import (
	"testing"

	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/physicaltest"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/wal"
)

// TestCarry: once the contents of a memtable were written to the log again, the partition
// needs nothing of the older files. Of an item the newest version is carried, or all of
// them where feeds need them.
func TestCarry(t *testing.T) {
	var one int64 // bytes of a carried version
	for _, keeps := range []bool{false, true} {
		s := physicaltest.New(t)
		s.Family.KeepsChanges = keeps
		p := s.Partition(1, physicaltest.Whole())
		pk := partmap.String("p")
		old := s.Write(p, pk, "a", false)
		newest := s.Write(p, pk, "a", false)
		before := s.Log.Newest()
		if got := p.Needs(before); got != 0 {
			t.Errorf("needs nothing up to %d before it was carried", got)
		}
		s.OK(s.Log.Rotate())
		end, durable, err := p.Carry()
		s.OK(err)
		s.OK(s.Log.Wait(end, true))
		if s.Log.Synced() < s.Log.Appended() {
			t.Error("what was carried is not durable")
		}
		if got := p.Needs(before); got != 0 {
			t.Errorf("needs nothing up to %d before it was told that the records are durable", got)
		}
		durable()
		if got := p.Needs(before); got != newest.Seq {
			t.Errorf("needs records above %d of an older file, want %d", got, newest.Seq)
		}
		if got := p.Needs(s.Log.Newest()); got != 0 {
			t.Errorf("needs records above %d of the file with the carried ones", got)
		}
		var seqs []uint64
		for _, ref := range p.Version.Load().Active.InOrder(0, lsm.MaxSequence) {
			seqs = append(seqs, ref.Seq)
		}
		if len(seqs) != 2 || seqs[0] != old.Seq || s.Records(p, wal.TypeCarried) != 1 {
			t.Errorf("the memtable has %v, the log %d carried records", seqs, s.Records(p, wal.TypeCarried))
		}
		want := one // as long as either version
		if keeps {
			want *= 2
		}
		if got := s.Carried.Load(); one == 0 {
			one = got
		} else if got != want {
			t.Errorf("keeps changes: %v, %d bytes were carried, want %d", keeps, got, want)
		}
		p.Freeze()
		if _, _, err := p.Carry(); err != lsm.ErrMoved {
			t.Errorf("with a frozen memtable: %v", err)
		}
	}
}
