package engine

import (
	"path"
	"slices"
	"sync/atomic"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/partmap"
)

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

// inheritRuns makes the runs of a child out of those of its parents, within
// its bounds. Runs of several parents are paired from the oldest on: their keys
// are disjoint. The files are acquired; releaseRuns gives them back.
func (t *tree) inheritRuns(parents []*tree) (runs []*run, err error) {
	depth := 0
	for _, p := range parents {
		depth = max(depth, len(p.version.Load().runs))
	}
	defer func() {
		if err != nil {
			releaseRuns(runs)
			runs = nil
		}
	}()
	for age := depth; age > 0; age-- { // the oldest run has age 1
		out := new(run)
		runs = append(runs, out)
		for _, p := range parents {
			of := p.version.Load().runs
			if len(of) < age {
				continue
			}
			if err := out.inherit(of[len(of)-age], t); err != nil {
				return runs, err
			}
		}
		if len(out.files) == 0 {
			runs = runs[:len(runs)-1]
		}
	}
	return runs, nil
}

// inherit adds the files of a parent's run, within the bounds of a child.
func (r *run) inherit(of *run, child *tree) error {
	items := of.items()
	before := r.items()
	for _, f := range of.files {
		rng := partmap.Range{Min: f.min, Max: f.max}
		if rng.Min.Compare(&child.rng.Min) < 0 {
			rng.Min = child.rng.Min
		}
		if rng.Max.Compare(&child.rng.Max) > 0 {
			rng.Max = child.rng.Max
		}
		if rng.Empty() {
			continue
		}
		next := &file{Reader: f.Reader, ref: f.ref, name: path.Join(child.dir, manifest.SegmentName(f.ref.Number))}
		next.path = child.env.fs.Path(next.name)
		next.shadows.take(&f.shadows, false)
		next.inheritDamage(f)
		next.setBounds(rng, child.family.levels)
		if next.holdsNothing() {
			continue
		}
		if n := len(r.files); n > 0 && r.files[n-1].ref.Number == f.ref.Number && r.files[n-1].max.Compare(&rng.Min) == 0 {
			// Two adjacent references to one file, of the same age, are joined.
			last := r.files[n-1]
			last.setBounds(partmap.Range{Min: last.min, Max: rng.Max}, child.family.levels)
			last.shadows.take(&next.shadows, true)
			next = last
		} else {
			next.Acquire()
			r.files = append(r.files, next)
		}
		if err := next.estimate(); err != nil {
			return err
		}
	}
	if items > 0 {
		share := float64(r.items()-before) / float64(items)
		r.shadowed += int64(float64(of.shadowed) * share)
		r.expiring.join(of.expiring, share)
	}
	r.heldBy, r.keptAbove = r.heldBy.join(of.heldBy), max(r.keptAbove, of.keptAbove)
	return nil
}

func releaseRuns(runs []*run) {
	for _, r := range runs {
		for _, f := range r.files {
			f.Release()
		}
	}
}

// run is a sorted sequence of files that do not overlap, all of one age.
type run struct {
	files    []*file
	shadowed int64  // estimate of versions in older runs that it overwrites
	heldBy   heldBy // sequences that readers had pinned when the run was written: see dead.go
	// overwritesNothing says that older runs have none of its keys.
	overwritesNothing atomic.Bool
	// keptAbove is a sequence above which the run has all versions that were written,
	// if the container keeps changes.
	keptAbove uint64
	expiring  expiring
}

func (r *run) bytes() (n int64) {
	for _, f := range r.files {
		n += f.bytes()
	}
	return n
}

func (r *run) items() (n int64) {
	for _, f := range r.files {
		n += f.items()
	}
	return n
}

// tombstones estimates the number of tombstones in the run, plus the versions that
// its partition tombstones delete in the same file.
func (r *run) tombstones() (n float64) {
	for _, f := range r.files {
		n += f.part(f.Properties().Tombstones + f.Properties().DeletedHere)
	}
	return n
}

// compression returns the sizes of the documents in bytes, raw and as stored.
func (r *run) compression() (raw, stored int64) {
	for _, f := range r.files {
		raw += f.raw()
		stored += f.share(f.Properties().StoredBytes)
	}
	return raw, stored
}

// find returns the file of the run that may hold the key, nil if none does.
func (r *run) find(epk *partmap.EPK) *file {
	lo, hi := 0, len(r.files)
	for lo < hi {
		mid := (lo + hi) / 2
		if r.files[mid].max.Compare(epk) <= 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == len(r.files) || r.files[lo].min.Compare(epk) > 0 {
		return nil
	}
	return r.files[lo]
}

// passed estimates which part of the run's versions, from 0 to 1, the change floor
// has passed since the run was written.
func (r *run) passed(floor uint64) float64 {
	low, high := uint64(maxSequence), uint64(0)
	for _, f := range r.files {
		p := f.Properties()
		low, high = min(low, p.MinSeq), max(high, p.MaxSeq)
	}
	low = max(low, r.keptAbove)
	switch {
	case floor <= low:
		return 0
	case floor >= high:
		return 1
	}
	return float64(floor-low) / float64(high-low)
}

// older counts versions that follow a newer one of their key in a file.
func (r *run) older() (n float64) {
	for _, f := range r.files {
		n += f.part(f.Properties().Items - f.Properties().Keys)
	}
	return n
}

// replaceInRuns returns the runs with other files in the place of one. A run
// that is left without files goes.
func replaceInRuns(runs []*run, old *file, files []*file) []*run {
	var next []*run
	for _, r := range runs {
		replaced := &run{shadowed: r.shadowed, heldBy: r.heldBy, expiring: r.expiring, keptAbove: r.keptAbove}
		found := false
		for _, f := range r.files {
			if f == old {
				replaced.files = append(replaced.files, files...)
				found = true
			} else {
				replaced.files = append(replaced.files, f)
			}
		}
		switch {
		case !found:
			next = append(next, r)
		case len(replaced.files) > 0:
			next = append(next, replaced)
		}
	}
	return next
}

// has says whether the run has a version of the key, or a tombstone of its logical
// partition.
func (r *run) has(k *item.Key) (found bool, err error) {
	epk := partmap.HashEncoded(k.PK)
	if f := r.find(&epk); f != nil {
		var v item.Version
		found, _, err = f.get(k.Lookup(), maxSequence, nil, true, &v)
	}
	return found, err
}
