package engine

import (
	"github.com/cleavestore/cleave/internal/item"
)

// Damage stays local: a file with damaged bytes affects only calls that need these bytes.
//
//   - A read that meets damage returns an error with the file and offset. Other reads
//     work.
//   - A flush needs no older file. If an older file cannot be read, it is not recorded
//     which of its versions the new file overwrites. Queries that need to know look it
//     up.
//   - A merge that meets damage in an input sets that file aside, in memory. The file
//     stays on disk as it is. Later merges, trims and indexing leave it alone until the
//     store is opened again. Nothing is merged across it.
//
// Damage in indexes and stored shadows does not count: they are rebuilt from the
// documents.

// pickCompaction chooses what to merge next, if anything. Runs that are set aside keep their
// place in age: the runs before such a run and those after it are not merged with each
// other.
func pickCompaction(runs []*run, choose picker) (plan, error) {
	for first := 0; first < len(runs); first++ {
		end := first
		for end < len(runs) && !runs[end].aside() {
			end++
		}
		if pick, err := choose(runs[first:end], end == len(runs)); err != nil || !pick.empty() {
			return plan{first + pick.first, first + pick.end}, err
		}
		first = end
	}
	return plan{}, nil
}

// anyHolds says whether a key lies within one of some parts of the key space.
func anyHolds(parts []*bounds, k *item.Key) bool {
	for _, b := range parts {
		if b.holds(k) {
			return true
		}
	}
	return false
}

// separate moves the files that are set aside out of their runs, each time into a run of
// their own behind the old one. The two runs have no key in common, so either may be the
// older one. The caller has the turn to merge.
func (t *tree) separate() {
	t.install.Lock()
	defer t.install.Unlock()
	var next []*run
	changed := false
	for _, r := range t.version.Load().runs {
		whole, damaged := new(run), new(run)
		for _, f := range r.files {
			if f.aside.Load() {
				damaged.files = append(damaged.files, f)
			} else {
				whole.files = append(whole.files, f)
			}
		}
		if len(whole.files) == 0 || len(damaged.files) == 0 {
			next = append(next, r)
			continue
		}
		whole.shadowed, whole.heldBy, whole.expiring, whole.keptAbove = r.shadowed, r.heldBy, r.expiring, r.keptAbove
		damaged.keptAbove = r.keptAbove
		next, changed = append(next, whole, damaged), true
	}
	if changed {
		t.swap(func(v version) version {
			v.setRuns(next)
			return v
		})
	}
}

// keysAside returns the parts of the key space that the files of runs hold.
func (t *tree) keysAside(runs []*run) (parts []*bounds) {
	for _, r := range runs {
		for _, f := range r.files {
			parts = append(parts, f.bounds(t.family.levels))
		}
	}
	return parts
}

// pastDamage calls fn until it succeeds, or fails without setting more files aside.
func (t *tree) pastDamage(fn func() error) error {
	for {
		before := t.version.Load().filesAside()
		err := fn()
		if err == nil || t.version.Load().filesAside() <= before {
			return err
		}
	}
}
