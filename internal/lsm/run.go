package lsm

import (
	"path"
	"slices"
	"sync/atomic"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/pins"
	"github.com/cleavestore/cleave/partmap"
)

// aside says whether the run has files, and all of them are set aside.
func (r *Run) aside() bool {
	for _, f := range r.Files {
		if !f.Aside.Load() {
			return false
		}
	}
	return len(r.Files) > 0
}

// allAside says that all runs are set aside.
func allAside(runs []*Run) bool {
	for _, r := range runs {
		if !r.aside() {
			return false
		}
	}
	return true
}

// Damaged says that damage was met in some file of the run.
func (r *Run) Damaged() bool {
	return slices.ContainsFunc(r.Files, func(f *File) bool { return f.Damage.Load() != nil })
}

// InheritRuns makes the runs of a child out of those of its parents, within
// its bounds. Runs of several parents are paired from the oldest on: their keys
// are disjoint. The files are acquired; ReleaseRuns gives them back.
func (t *Tree) InheritRuns(parents []*Tree) (runs []*Run, err error) {
	depth := 0
	for _, p := range parents {
		depth = max(depth, len(p.Version.Load().Runs))
	}
	defer func() {
		if err != nil {
			ReleaseRuns(runs)
			runs = nil
		}
	}()
	for age := depth; age > 0; age-- { // the oldest run has age 1
		out := new(Run)
		runs = append(runs, out)
		for _, p := range parents {
			of := p.Version.Load().Runs
			if len(of) < age {
				continue
			}
			if err := out.inherit(of[len(of)-age], t); err != nil {
				return runs, err
			}
		}
		if len(out.Files) == 0 {
			runs = runs[:len(runs)-1]
		}
	}
	return runs, nil
}

// inherit adds the files of a parent's run, within the bounds of a child.
func (r *Run) inherit(of *Run, child *Tree) error {
	items := of.Items()
	before := r.Items()
	for _, f := range of.Files {
		rng := partmap.Range{Min: f.Min, Max: f.Max}
		if rng.Min.Compare(&child.Range.Min) < 0 {
			rng.Min = child.Range.Min
		}
		if rng.Max.Compare(&child.Range.Max) > 0 {
			rng.Max = child.Range.Max
		}
		if rng.Empty() {
			continue
		}
		next := &File{Reader: f.Reader, Ref: f.Ref, Name: path.Join(child.Dir, manifest.SegmentName(f.Ref.Number))}
		next.path = child.Env.FS.Path(next.Name)
		next.VectorCache.take(&f.VectorCache, false)
		next.inheritDamage(f)
		next.setBounds(rng, child.Family.Levels)
		if next.holdsNothing() {
			continue
		}
		if last := r.last(); last != nil && last.adjoins(next) {
			// Two adjacent references to one file, of the same age, are joined.
			last.setBounds(partmap.Range{Min: last.Min, Max: rng.Max}, child.Family.Levels)
			last.VectorCache.take(&next.VectorCache, true)
			next = last
		} else {
			next.Acquire()
			r.Files = append(r.Files, next)
		}
		if err := next.estimate(); err != nil {
			return err
		}
	}
	share := 0.0
	if items > 0 {
		share = float64(r.Items()-before) / float64(items)
		r.Overwritten += int64(float64(of.Overwritten) * share)
	}
	r.Expiring.Join(&of.Expiring, share)
	r.heldBy, r.KeptAbove = r.heldBy.Join(of.heldBy), max(r.KeptAbove, of.KeptAbove)
	return nil
}

// last returns the last file of the run, nil if it has none.
func (r *Run) last() *File {
	if len(r.Files) == 0 {
		return nil
	}
	return r.Files[len(r.Files)-1]
}

// adjoins says whether the next reference goes on in the same file. A stand-in is for the
// bounds of its own reference only, so it is never joined.
func (f *File) adjoins(next *File) bool {
	return f.Ref.Number == next.Ref.Number && f.Max.Compare(&next.Min) == 0 && f.Broken() == nil && next.Broken() == nil
}

func ReleaseRuns(runs []*Run) {
	for f := range (&Version{Runs: runs}).Files() {
		f.Release()
	}
}

// Run is a sorted sequence of files that do not overlap, all of one age.
type Run struct {
	Files       []*File
	Overwritten int64       // estimate of versions in older runs that it overwrites
	heldBy      pins.Sample // sequences that readers had pinned when the run was written: see dead.go
	// overwritesNothing says that older runs have none of its keys.
	overwritesNothing atomic.Bool
	// KeptAbove is a sequence above which the run has all versions that were written,
	// if the container keeps changes.
	KeptAbove uint64
	Expiring  lifetime.Summary
}

func (r *Run) bytes() (n int64) {
	for _, f := range r.Files {
		n += f.SizeWithin()
	}
	return n
}

func bytesOf(runs []*Run) (n int64) {
	for _, r := range runs {
		n += r.bytes()
	}
	return n
}

func (r *Run) Items() (n int64) {
	for _, f := range r.Files {
		n += f.ItemsWithin()
	}
	return n
}

// Tombstones estimates the number of tombstones in the run, plus the versions that
// its partition tombstones delete in the same file.
func (r *Run) Tombstones() (n float64) {
	for _, f := range r.Files {
		n += f.part(f.Properties().Tombstones + f.Properties().DeletedHere)
	}
	return n
}

// Compression returns the sizes of the documents in bytes, raw and as stored.
func (r *Run) Compression() (raw, stored int64) {
	for _, f := range r.Files {
		raw += f.RawBytes()
		stored += f.Share(f.Properties().StoredBytes)
	}
	return raw, stored
}

// Find returns the file of the run that may hold the key, nil if none does.
func (r *Run) Find(epk *partmap.EPK) *File {
	lo, hi := 0, len(r.Files)
	for lo < hi {
		mid := (lo + hi) / 2
		if r.Files[mid].Max.Compare(epk) <= 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == len(r.Files) || r.Files[lo].Min.Compare(epk) > 0 {
		return nil
	}
	return r.Files[lo]
}

// Passed estimates which part of the run's versions, from 0 to 1, the change floor
// has passed since the run was written.
func (r *Run) Passed(floor uint64) float64 {
	low, high := uint64(MaxSequence), uint64(0)
	for _, f := range r.Files {
		p := f.Properties()
		low, high = min(low, p.MinSeq), max(high, p.MaxSeq)
	}
	low = max(low, r.KeptAbove)
	switch {
	case floor <= low:
		return 0
	case floor >= high:
		return 1
	}
	return float64(floor-low) / float64(high-low)
}

// Older counts versions that follow a newer one of their key in a file.
func (r *Run) Older() (n float64) {
	for _, f := range r.Files {
		n += f.part(f.Properties().Items - f.Properties().Keys)
	}
	return n
}

// replaceInRuns returns the runs with other files in the place of one. A run
// that is left without files goes.
func replaceInRuns(runs []*Run, old *File, files []*File) []*Run {
	var next []*Run
	for _, r := range runs {
		replaced := &Run{Overwritten: r.Overwritten, heldBy: r.heldBy, Expiring: r.Expiring, KeptAbove: r.KeptAbove}
		found := false
		for _, f := range r.Files {
			if f == old {
				replaced.Files = append(replaced.Files, files...)
				found = true
			} else {
				replaced.Files = append(replaced.Files, f)
			}
		}
		switch {
		case !found:
			next = append(next, r)
		case len(replaced.Files) > 0:
			next = append(next, replaced)
		}
	}
	return next
}

// has says whether the run has a version of the key, or a tombstone of its logical
// partition.
func (r *Run) has(k *item.Key) (found bool, err error) {
	epk := partmap.HashEncoded(k.PK)
	if f := r.Find(&epk); f != nil {
		var v item.Version
		found, _, err = f.ReadVersion(k.Lookup(), MaxSequence, nil, true, &v)
	}
	return found, err
}
