package engine

import (
	"errors"
	"slices"
)

// A file that a merge has replaced is obsolete until its name is removed. The
// manifest lists it, so that the next open removes it if this process does not. A
// partition may refer to one file several times, with other bounds; the name
// is removed with the last reference.

// obsoleteFiles returns the numbers of files that are not removed yet.
func (p *partition) obsoleteFiles() []uint64 {
	p.obsolete.Lock()
	defer p.obsolete.Unlock()
	return slices.Clone(p.obsolete.numbers)
}

// replaceFiles stores a manifest with the new set of runs, which no longer uses the
// files gone, and lists these as obsolete. install is locked.
func (p *partition) replaceFiles(runs []*run, gone []*file) error {
	kept := make(map[uint64]bool)
	for _, r := range runs {
		for _, f := range r.files {
			kept[f.ref.Number] = true
		}
	}
	var added []uint64
	for _, f := range gone {
		if n := f.ref.Number; !kept[n] && !slices.Contains(added, n) {
			added = append(added, n)
		}
	}
	p.obsolete.Lock()
	p.obsolete.numbers = append(p.obsolete.numbers, added...)
	p.obsolete.Unlock()
	err := p.storeFiles(runs, p.install.flushedSeq.Load(), p.install.applied, p.inherited())
	if err != nil {
		p.notObsolete(added)
	}
	return err
}

func (p *partition) notObsolete(numbers []uint64) {
	p.obsolete.Lock()
	defer p.obsolete.Unlock()
	p.obsolete.numbers = slices.DeleteFunc(p.obsolete.numbers, func(n uint64) bool { return slices.Contains(numbers, n) })
}

// removeFiles releases files that the partition does not refer to any more and
// removes their names. Call it when the last reader of the old version has left.
func (p *partition) removeFiles(gone []*file) {
	removed := make(map[uint64]bool)
	for _, f := range gone {
		f.Release()
		if n := f.ref.Number; !removed[n] && !slices.Contains(p.listed(), n) {
			removed[n] = true
			p.db.remove("remove a merged file", f.ref.Size, func() error {
				if !p.letGo(f) {
					return errHeld
				}
				return p.removeObsolete(f.name, n)
			})
		}
	}
}

// letGo says whether the name of an obsolete file may be removed now. If a reader has
// pinned the file, letGo notes it in obsolete.held.
func (p *partition) letGo(f *file) bool {
	free := f.LetGo(f.name)
	p.obsolete.Lock()
	defer p.obsolete.Unlock()
	if free {
		delete(p.obsolete.held, f.ref.Number)
		return true
	}
	if p.obsolete.held == nil {
		p.obsolete.held = make(map[uint64]*file)
	}
	p.obsolete.held[f.ref.Number] = f
	return false
}

// letGoAll says whether the names of all files of a former partition may be removed.
// v was the partition's last version.
func (p *partition) letGoAll(v *version) bool {
	all := true
	for _, r := range v.runs {
		for _, f := range r.files {
			all = f.LetGo(f.name) && all
		}
	}
	p.obsolete.Lock()
	defer p.obsolete.Unlock()
	return all && len(p.obsolete.held) == 0
}

// removeObsolete removes the name of a file, and notes that it is gone.
func (p *partition) removeObsolete(name string, number uint64) error {
	if p.db.failure.Load() != nil {
		return nil // the manifest's outcome may be unknown: nothing is deleted
	}
	if err := p.db.fs.Remove(name); err != nil && !errors.Is(err, ErrMissing) {
		return err
	}
	p.notObsolete([]uint64{number})
	return nil
}
