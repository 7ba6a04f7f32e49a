package engine

import (
	"errors"
	"slices"

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

// faultyReads is the number of failed reads of an input after which its file is set
// aside: a device may fail once.
const faultyReads = 3

// met notes an error that was met in the file's documents or tables, and returns it
// with the name that the partition has for the file.
func (f *file) met(err error) error {
	err = f.named(err)
	if errors.Is(err, ErrCorrupt) {
		f.damage.CompareAndSwap(nil, &err)
	}
	return err
}

// metIndex is met for the index of the file, which can be rebuilt from the documents.
func (f *file) metIndex(err error) error {
	if errors.Is(err, ErrCorrupt) {
		f.badIndex.Store(true)
	}
	return f.named(err)
}

// refused is met for an input of a merge. It sets the file aside if the file is damaged,
// or when faultyReads reads of it have failed.
func (f *file) refused(err error) error {
	err = f.met(err)
	if errors.Is(err, ErrIO) && f.failedReads.Add(1) >= faultyReads {
		f.damage.CompareAndSwap(nil, &err)
	} else if !errors.Is(err, ErrCorrupt) {
		return err
	}
	f.aside.Store(true)
	return err
}

// aside says whether the run has files, and all of them are set aside.
func (r *run) aside() bool {
	for _, f := range r.files {
		if !f.aside.Load() {
			return false
		}
	}
	return len(r.files) > 0
}

// allAside says that all runs are set aside.
func allAside(runs []*run) bool {
	for _, r := range runs {
		if !r.aside() {
			return false
		}
	}
	return true
}

// damaged says that damage was met in some file of the run.
func (r *run) damaged() bool {
	return slices.ContainsFunc(r.files, func(f *file) bool { return f.damage.Load() != nil })
}

// inheritDamage takes over the damage that is known from another reference to the same
// file.
func (f *file) inheritDamage(from *file) {
	f.damage.Store(from.damage.Load())
	f.aside.Store(from.aside.Load())
	f.badIndex.Store(from.badIndex.Load())
}

// filesAside counts the files of the partition that are set aside.
func (v *version) filesAside() (n int) {
	for _, r := range v.runs {
		for _, f := range r.files {
			if f.aside.Load() {
				n++
			}
		}
	}
	return n
}

// firstAside returns the damage of a file that is set aside, nil if there is none.
func (v *version) firstAside() error {
	for _, r := range v.runs {
		for _, f := range r.files {
			if f.aside.Load() {
				return *f.damage.Load()
			}
		}
	}
	return nil
}

// separate moves the files that are set aside out of their runs, each time into a run of
// their own behind the old one. The two runs have no key in common, so either may be the
// older one. The caller has the turn to merge.
func (p *partition) separate() {
	p.install.Lock()
	defer p.install.Unlock()
	var next []*run
	changed := false
	for _, r := range p.version.Load().runs {
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
		p.swap(func(v version) version {
			v.setRuns(next)
			return v
		})
	}
}

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

// keysAside returns the parts of the key space that the files of runs hold.
func (p *partition) keysAside(runs []*run) (parts []*bounds) {
	for _, r := range runs {
		for _, f := range r.files {
			parts = append(parts, f.bounds(p.c.levels()))
		}
	}
	return parts
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

// pastDamage calls fn until it succeeds, or fails without setting more files aside.
func (p *partition) pastDamage(fn func() error) error {
	for {
		before := p.version.Load().filesAside()
		err := fn()
		if err == nil || p.version.Load().filesAside() <= before {
			return err
		}
	}
}
