package engine

import (
	"errors"
	"slices"

	"github.com/cleavestore/cleave/internal/fault"
)

// A file that a merge has replaced is obsolete until its name is removed. The
// manifest lists it, so that the next open removes it if this process does not. A
// partition may refer to one file several times, with other bounds; the name
// is removed with the last reference.

// errHeld says that a reader has the file pinned, so that its last name stays.
var errHeld = errors.New("a reader has the file pinned")

// obsoleteFiles returns the numbers of files that are not removed yet.
func (t *tree) obsoleteFiles() []uint64 {
	t.obsolete.Lock()
	defer t.obsolete.Unlock()
	return slices.Clone(t.obsolete.numbers)
}

// replaceFiles stores a manifest with the new set of runs, which no longer uses the
// files gone, and lists these as obsolete. install is locked.
func (t *tree) replaceFiles(runs []*run, gone []*file) error {
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
	t.obsolete.Lock()
	t.obsolete.numbers = append(t.obsolete.numbers, added...)
	t.obsolete.Unlock()
	err := t.storeFiles(runs, t.install.flushedSeq.Load(), t.install.applied, t.inherited())
	if err != nil {
		t.notObsolete(added)
	}
	return err
}

func (t *tree) notObsolete(numbers []uint64) {
	t.obsolete.Lock()
	defer t.obsolete.Unlock()
	t.obsolete.numbers = slices.DeleteFunc(t.obsolete.numbers, func(n uint64) bool { return slices.Contains(numbers, n) })
}

// removeFiles releases files that the partition does not refer to any more and
// removes their names. Call it when the last reader of the old version has left.
func (t *tree) removeFiles(gone []*file) {
	removed := make(map[uint64]bool)
	for _, f := range gone {
		f.Release()
		if n := f.ref.Number; !removed[n] && !slices.Contains(t.listed(), n) {
			removed[n] = true
			t.env.remove("remove a merged file", f.ref.Size, func() error {
				if !t.letGo(f) {
					return errHeld
				}
				return t.removeObsolete(f.name, n)
			})
		}
	}
}

// letGo says whether the name of an obsolete file may be removed now. If a reader has
// pinned the file, letGo notes it in obsolete.held.
func (t *tree) letGo(f *file) bool {
	free := f.LetGo(f.name)
	t.obsolete.Lock()
	defer t.obsolete.Unlock()
	if free {
		delete(t.obsolete.held, f.ref.Number)
		return true
	}
	if t.obsolete.held == nil {
		t.obsolete.held = make(map[uint64]*file)
	}
	t.obsolete.held[f.ref.Number] = f
	return false
}

// letGoAll says whether the names of all files of a former partition may be removed.
// v was the partition's last version.
func (t *tree) letGoAll(v *version) bool {
	all := true
	for _, r := range v.runs {
		for _, f := range r.files {
			all = f.LetGo(f.name) && all
		}
	}
	t.obsolete.Lock()
	defer t.obsolete.Unlock()
	return all && len(t.obsolete.held) == 0
}

// removeObsolete removes the name of a file, and notes that it is gone.
func (t *tree) removeObsolete(name string, number uint64) error {
	if t.env.failed() {
		return nil // the manifest's outcome may be unknown: nothing is deleted
	}
	if err := t.env.fs.Remove(name); err != nil && !errors.Is(err, fault.ErrMissing) {
		return err
	}
	t.notObsolete([]uint64{number})
	return nil
}
