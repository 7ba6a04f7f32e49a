package engine

import (
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/wal"
)

// storeFiles stores the manifest of the partition: its runs, the flushed sequence,
// the entry that belongs to that sequence, and the inherited streams. install is
// locked.
func (t *tree) storeFiles(runs []*run, flushedSeq uint64, at manifest.Applied, inherits []manifest.Inherited) error {
	if t.lost != nil {
		return t.lost
	}
	if err := t.install.dir.Store(t.manifest(runs, flushedSeq, at, inherits)); err != nil {
		return t.env.uncertain(err)
	}
	t.install.applied = at
	t.install.flushedSeq.Store(flushedSeq)
	t.inherits.Store(&inherits)
	return nil
}

// manifest describes the partition with this set of runs.
func (t *tree) manifest(runs []*run, flushedSeq uint64, at manifest.Applied, inherits []manifest.Inherited) *manifest.Files {
	m := manifest.Files{
		StoreID: t.env.storeID, Partition: uint32(t.id), FlushedSeq: flushedSeq, Applied: at.OrNil(),
		Obsolete: t.obsoleteFiles(), Floor: t.floor(), Inherits: inherits, ChangeFloor: t.changeFloor.Load(),
	}
	for _, r := range runs {
		mr := manifest.Run{Shadowed: r.shadowed, Expiring: r.expiring.manifest()}
		for _, f := range r.files {
			mr.Files = append(mr.Files, f.ref)
		}
		m.Runs = append(m.Runs, mr)
	}
	return &m
}

// inherited returns the streams that the partition inherits. The slice is
// never changed.
func (t *tree) inherited() []manifest.Inherited {
	if list := t.inherits.Load(); list != nil {
		return *list
	}
	return nil
}

// flushedOf returns the sequence up to which the partition has flushed a stream.
func (t *tree) flushedOf(s wal.Stream) uint64 {
	for _, in := range t.inherited() {
		if wal.Stream(in.Stream) == s {
			return in.FlushedSeq
		}
	}
	return t.install.flushedSeq.Load()
}

// flushed returns how far the partition has flushed its own stream, and those that
// it inherits, once mem is in files. mem is its oldest frozen memtable.
func (t *tree) flushed(mem *frozenTable) (seq uint64, inherits []manifest.Inherited) {
	// The partition's own records come after all inherited ones.
	seq = max(t.install.flushedSeq.Load(), mem.lastSeq)
	for _, in := range t.inherited() {
		switch {
		case mem.mixed:
			continue // replay put the whole stream into this memtable and earlier ones
		case mem.from == wal.Stream(in.Stream):
			if !t.holdsOf(mem) {
				continue
			}
			in.FlushedSeq = mem.lastSeq
		}
		inherits = append(inherits, in)
	}
	return seq, inherits
}

// holdsOf says whether another frozen memtable comes from the same parent as mem.
func (t *tree) holdsOf(mem *frozenTable) bool {
	frozen := t.version.Load().frozen
	for i := range frozen {
		if frozen[i].Table != mem.Table && frozen[i].from == mem.from {
			return true
		}
	}
	return false
}
