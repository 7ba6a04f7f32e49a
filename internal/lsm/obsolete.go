package lsm

import (
	"errors"
	"path"
	"slices"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/reclaim"
)

// A file that a compaction has replaced is obsolete until its name is removed. The
// manifest lists it, so that the next open removes it if this process does not. A
// partition may refer to one file several times, with other bounds; the name
// is removed with the last reference.

// obsoleteFiles returns the numbers of files that are not removed yet.
func (t *Tree) obsoleteFiles() []uint64 {
	t.Obsolete.Lock()
	defer t.Obsolete.Unlock()
	return slices.Clone(t.Obsolete.Numbers)
}

// replaceFiles stores a manifest with the new set of runs, which no longer uses the
// files gone, and lists these as obsolete. install is locked.
func (t *Tree) replaceFiles(runs []*Run, gone []*File) error {
	kept := make(map[uint64]bool)
	for f := range (&Version{Runs: runs}).Files() {
		kept[f.Ref.Number] = true
	}
	var added []uint64
	for _, f := range gone {
		if n := f.Ref.Number; !kept[n] && !slices.Contains(added, n) {
			added = append(added, n)
		}
	}
	t.Obsolete.Lock()
	t.Obsolete.Numbers = append(t.Obsolete.Numbers, added...)
	t.Obsolete.Unlock()
	err := t.StoreFiles(runs, t.Install.FlushedSeq.Load(), t.Install.Applied, t.Inherited())
	if err != nil {
		t.notObsolete(added)
	}
	return err
}

func (t *Tree) notObsolete(numbers []uint64) {
	t.Obsolete.Lock()
	defer t.Obsolete.Unlock()
	t.Obsolete.Numbers = slices.DeleteFunc(t.Obsolete.Numbers, func(n uint64) bool { return slices.Contains(numbers, n) })
}

// removeFiles releases files that the partition does not refer to any more and
// removes their names. Call it when the last reader of the old version has left.
func (t *Tree) removeFiles(gone []*File) {
	removed := make(map[uint64]bool)
	for _, f := range gone {
		f.Release()
		if n := f.Ref.Number; !removed[n] && !slices.Contains(t.Listed(), n) {
			removed[n] = true
			t.Env.Reclaim.Remove("remove an obsolete file", f.Ref.Size, func() error {
				if !t.letGo(f) {
					return reclaim.ErrHeld
				}
				return t.removeObsolete(f.Name, n)
			})
		}
	}
}

// letGo says whether the name of an obsolete file may be removed now. If a reader has
// pinned the file, letGo notes it in Obsolete.held.
func (t *Tree) letGo(f *File) bool {
	free := f.LetGo(f.Name)
	t.Obsolete.Lock()
	defer t.Obsolete.Unlock()
	if free {
		delete(t.Obsolete.held, f.Ref.Number)
		return true
	}
	if t.Obsolete.held == nil {
		t.Obsolete.held = make(map[uint64]*File)
	}
	t.Obsolete.held[f.Ref.Number] = f
	return false
}

// LetGoAll says whether the names of all files of a former partition may be removed.
// v was the partition's last version.
func (t *Tree) LetGoAll(v *Version) bool {
	all := true
	for f := range v.Files() {
		all = f.LetGo(f.Name) && all
	}
	t.Obsolete.Lock()
	defer t.Obsolete.Unlock()
	return all && len(t.Obsolete.held) == 0
}

// removeObsolete removes the name of a file, and notes that it is gone.
func (t *Tree) removeObsolete(name string, number uint64) error {
	if t.Env.Failed() {
		return nil // the manifest's outcome may be unknown: nothing is deleted
	}
	if err := t.Env.FS.Remove(name); err != nil && !errors.Is(err, fault.ErrMissing) {
		return err
	}
	t.notObsolete([]uint64{number})
	return nil
}

// Sweep removes files that a crash left in the directory of the partition. A temporary file
// may be gone already, since a manifest was written in its place. What cannot be removed stays, and
// segment files stay obsolete: the next open tries again. It is called before the tree is in use.
func (t *Tree) Sweep(names []string) {
	for _, base := range names {
		name := path.Join(t.Dir, base)
		if number, isSegment := manifest.ParseSegmentName(base); isSegment {
			t.Obsolete.Numbers = append(t.Obsolete.Numbers, number)
			t.Env.Reclaim.Remove("remove an obsolete file", 0, func() error { return t.removeObsolete(name, number) })
		} else if err := t.Env.FS.Remove(name); err != nil && !errors.Is(err, fault.ErrMissing) {
			t.Env.Background("remove a temporary file", err)
		}
	}
}
