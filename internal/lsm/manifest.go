package lsm

import (
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/wal"
)

// StoreFiles stores the manifest of the partition: its runs, the flushed sequence,
// the entry that belongs to that sequence, and the inherited streams. install is
// locked.
func (t *Tree) StoreFiles(runs []*Run, flushedSeq uint64, at manifest.Applied, inherits []manifest.Inherited) error {
	if t.Lost != nil {
		return t.Lost
	}
	if err := t.Install.Dir.Store(t.Manifest(runs, flushedSeq, at, inherits)); err != nil {
		return t.Env.Uncertain(err)
	}
	t.Install.Applied = at
	t.Install.FlushedSeq.Store(flushedSeq)
	t.Inherits.Store(&inherits)
	return nil
}

// Manifest describes the partition with this set of runs.
func (t *Tree) Manifest(runs []*Run, flushedSeq uint64, at manifest.Applied, inherits []manifest.Inherited) *manifest.Files {
	m := manifest.Files{
		StoreID: t.Env.StoreID, Partition: uint32(t.ID), FlushedSeq: flushedSeq, Applied: at.OrNil(),
		Obsolete: t.obsoleteFiles(), Floor: t.floor(), Inherits: inherits, ChangeFloor: t.ChangeFloor.Load(),
	}
	for _, r := range runs {
		mr := manifest.Run{Shadowed: r.Overwritten, Expiring: spreadOrNil(r.Expiring.Own), Aging: spreadOrNil(r.Expiring.Default)}
		for _, f := range r.Files {
			mr.Files = append(mr.Files, f.Ref)
		}
		m.Runs = append(m.Runs, mr)
	}
	return &m
}

func spreadOrNil(s lifetime.Spread) *manifest.Expiring {
	if s.Items == 0 {
		return nil
	}
	return (*manifest.Expiring)(&s)
}

func expiringFrom(r *manifest.Run) (s lifetime.Summary) {
	if r.Expiring != nil {
		s.Own = lifetime.Spread(*r.Expiring)
	}
	if r.Aging != nil {
		s.Default = lifetime.Spread(*r.Aging)
	}
	return s
}

// Inherited returns the streams that the partition inherits. The slice is
// never changed.
func (t *Tree) Inherited() []manifest.Inherited {
	if list := t.Inherits.Load(); list != nil {
		return *list
	}
	return nil
}

// FlushedOf returns the sequence up to which the partition has flushed a stream.
func (t *Tree) FlushedOf(s wal.Stream) uint64 {
	for _, in := range t.Inherited() {
		if wal.Stream(in.Stream) == s {
			return in.FlushedSeq
		}
	}
	return t.Install.FlushedSeq.Load()
}

// flushed returns how far the partition has flushed its own stream, and those that
// it inherits, once mem is in files. mem is its oldest frozen memtable.
func (t *Tree) flushed(mem *Frozen) (seq uint64, inherits []manifest.Inherited) {
	// The partition's own records come after all inherited ones.
	seq = max(t.Install.FlushedSeq.Load(), mem.LastSeq)
	for _, in := range t.Inherited() {
		switch {
		case mem.Mixed:
			continue // replay put the whole stream into this memtable and earlier ones
		case mem.From == wal.Stream(in.Stream):
			if !t.holdsOf(mem) {
				continue
			}
			in.FlushedSeq = mem.LastSeq
		}
		inherits = append(inherits, in)
	}
	return seq, inherits
}

// holdsOf says whether another frozen memtable comes from the same parent as mem.
func (t *Tree) holdsOf(mem *Frozen) bool {
	frozen := t.Version.Load().Frozen
	for i := range frozen {
		if frozen[i].Table != mem.Table && frozen[i].From == mem.From {
			return true
		}
	}
	return false
}
