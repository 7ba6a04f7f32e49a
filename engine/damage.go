package engine

import (
	"errors"
	"slices"

	"github.com/cleavestore/cleave/internal/item"
)

// Damage stays where it is: a file with damaged bytes concerns those calls only
// that need the bytes.
//
//   - A read that meets damage says so, with file and offset. Others do not notice.
//   - A flush needs no older file. What its file overwrites in one that cannot be
//     read is not recorded, and queries that need to know look it up.
//   - A merge that meets damage in an input sets that file aside, in memory: it stays
//     on disk as it is, and later merges, trims and indexing leave it alone until the
//     store is opened again. Nothing is merged across it.
//
// What is made of the documents, indexes and stored shadows, is no damage in this
// sense: it is made anew of them.

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

// metIndex is met for the index of the file, which is made anew of the documents.
func (f *file) metIndex(err error) error {
	if errors.Is(err, ErrCorrupt) {
		f.badIndex.Store(true)
	}
	return f.named(err)
}

// refused is met for the input of a merge, which sets the file aside if it is
// damaged or cannot be read again and again.
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

// aside says that all files of the run are set aside, and there is one.
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

// inheritDamage notes what was met in another reference to the same file.
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

// separate gives the files that are set aside a run of their own, behind that of the
// others of their age. The keys of both are disjoint, so each may be the older
// one. The caller has the turn to merge.
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

// pickMerge chooses what to merge next, if anything. Runs that are set aside stay
// where they are by age: what is newer and what is older is merged apart.
func pickMerge(runs []*run, choose picker) (plan, error) {
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

// keysAside are the parts of the key space that runs hold.
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

// pastDamage calls fn again for as long as it fails and sets more files aside
// meanwhile.
func (p *partition) pastDamage(fn func() error) error {
	for {
		before := p.version.Load().filesAside()
		err := fn()
		if err == nil || p.version.Load().filesAside() <= before {
			return err
		}
	}
}
