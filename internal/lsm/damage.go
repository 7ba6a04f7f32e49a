package lsm

import (
	"github.com/cleavestore/cleave/internal/keybounds"
	"github.com/cleavestore/cleave/internal/tiers"
)

// Damage stays local: a file with damaged bytes affects only calls that need these bytes.
//
//   - A read that meets damage returns an error with the file and offset. Other reads
//     work.
//   - A flush needs no older file. If an older file cannot be read, it is not recorded
//     which of its versions the new file overwrites. Queries that need to know look it
//     up.
//   - A compaction that meets damage in an input sets that file aside, in memory. The file
//     stays on disk as it is. Later compactions, trims and indexing leave it alone until the
//     store is opened again. Nothing is compacted across it.
//
// Damage in indexes and stored deletion vectors does not count: they are rebuilt from the
// documents.

// pickCompaction chooses what to compact next, if anything. Runs that are set aside keep their
// place in age: the runs before such a run and those after it are not compacted with each
// other. last says that the partition has no older runs.
func pickCompaction(runs []*Run, last bool, choose Picker) (tiers.Plan, error) {
	for first := 0; first < len(runs); first++ {
		end := first
		for end < len(runs) && !runs[end].aside() {
			end++
		}
		if pick, err := choose(runs[first:end], last && end == len(runs)); err != nil || pick.Len() > 0 {
			return tiers.Plan{First: first + pick.First, End: first + pick.End}, err
		}
		first = end
	}
	return tiers.Plan{}, nil
}

// separate moves the files that are set aside out of their runs, each time into a run of
// their own behind the old one. The two runs have no key in common, so either may be the
// older one. The caller has the turn to compact.
func (t *Tree) separate() {
	t.Install.Lock()
	defer t.Install.Unlock()
	var next []*Run
	changed := false
	for _, r := range t.Version.Load().Runs {
		whole, damaged := new(Run), new(Run)
		for _, f := range r.Files {
			if f.Aside.Load() {
				damaged.Files = append(damaged.Files, f)
			} else {
				whole.Files = append(whole.Files, f)
			}
		}
		if len(whole.Files) == 0 || len(damaged.Files) == 0 {
			next = append(next, r)
			continue
		}
		whole.Overwritten, whole.heldBy, whole.Expiring, whole.KeptAbove = r.Overwritten, r.heldBy, r.Expiring, r.KeptAbove
		damaged.KeptAbove, damaged.Expiring = r.KeptAbove, r.Expiring
		next, changed = append(next, whole, damaged), true
	}
	if changed {
		t.Swap(func(v Version) Version {
			v.SetRuns(next)
			return v
		})
	}
}

// keysAside returns the parts of the key space that the files of runs hold.
func (t *Tree) keysAside(runs []*Run) (parts []*keybounds.Bounds) {
	for f := range (&Version{Runs: runs}).Files() {
		parts = append(parts, f.Bounds(t.Family.Levels))
	}
	return parts
}

// PastDamage calls fn until it succeeds, or fails without setting more files aside.
func (t *Tree) PastDamage(fn func() error) error {
	for {
		before := t.Version.Load().FilesAside()
		err := fn()
		if err == nil || t.Version.Load().FilesAside() <= before {
			return err
		}
	}
}
