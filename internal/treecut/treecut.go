// Package treecut chooses the boundary that best halves what the trees of one or two
// neighbouring physical partitions hold.
//
// Of the files it reads tables only: where each logical partition begins, and how much
// lies before it. Memtables are counted too where they weigh enough. A tree that changes
// meanwhile is seen at one version for its files, and at another for its memtables: the
// boundary is a good one, not an exact one. Package splitter makes the choice; this
// package presents the trees to it.
//
// Invariants:
//
//  1. The boundary never divides a logical partition.
//  2. Of a run with a damaged file no table is read. Its documents count as if they lay
//     evenly: so a partition with a single run is cut among its keys too, or not at all.
//  3. Files stay pinned until Choose or Weigh returns. No lock is held.
package treecut

import (
	"sort"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/keybounds"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/splitter"
)

// itemWeight is what an item weighs beyond its document when a cut is chosen.
const itemWeight = 64

// memoryShare says when memtables are counted too: if they weigh at least one
// memoryShare-th of what the files weigh.
const memoryShare = 8

// guessDepth says into how many parts a damaged file is divided: 2 to the power of it.
const guessDepth = 5

// Choose returns the boundary within a range that best halves what the trees hold there.
// If tables cannot be read, it guesses what runs with a damaged file hold.
func Choose(rng partmap.Range, trees []*lsm.Tree) (splitter.Choice, error) {
	return readable(trees, func(sources []splitter.Source) (splitter.Choice, error) { return splitter.Cut(rng, sources) })
}

// Weigh returns how much of what the trees hold within a range lies on each side of a
// boundary.
func Weigh(rng partmap.Range, trees []*lsm.Tree, at partmap.EPK) (splitter.Choice, error) {
	return readable(trees, func(sources []splitter.Source) (splitter.Choice, error) { return splitter.Weigh(rng, sources, at) })
}

// readable calls fn with what the trees hold. If tables cannot be read, it calls fn again,
// with guesses for the runs that have a damaged file.
func readable(trees []*lsm.Tree, fn func([]splitter.Source) (splitter.Choice, error)) (splitter.Choice, error) {
	choice, err := present(trees, false, fn)
	if lsm.Unreadable(err) {
		choice, err = present(trees, true, fn)
	}
	return choice, err
}

// present calls fn with all runs. If guess is set, it reads only the tables of those that
// have no damaged file.
func present(trees []*lsm.Tree, guess bool, fn func([]splitter.Source) (splitter.Choice, error)) (splitter.Choice, error) {
	var sources []splitter.Source
	var files, memory int64
	for _, t := range trees {
		v, release := t.PinVersion()
		defer release()
		for _, r := range v.Runs {
			if guess && r.Damaged() {
				sources = append(sources, guessed(r))
				continue
			}
			s, err := newRunSource(r, t.Family.Levels)
			if err != nil {
				return splitter.Choice{}, err
			}
			sources = append(sources, s)
		}
		files += v.RawBytes
		memory += v.DocumentBytes() + itemWeight*v.TableVersions()
	}
	if memory*memoryShare >= files {
		for _, t := range trees {
			sources = append(sources, memoryHistogram(t))
		}
	}
	return fn(sources)
}

// guessed presents a run as if its documents lay evenly between the first and the last key of
// each file. Of files that cannot be opened nothing is known.
func guessed(r *lsm.Run) *splitter.Histogram {
	h := new(splitter.Histogram)
	for _, f := range r.Files {
		p := f.Properties()
		lo, err := placeOf(&p.Min)
		hi, failed := placeOf(&p.Max)
		if err != nil || failed != nil || f.Broken() != nil {
			continue
		}
		if f.Clip != nil && f.Min.Compare(&lo) > 0 {
			lo = f.Min
		}
		if f.Clip != nil && f.Max.Compare(&hi) < 0 {
			hi = f.Max
		}
		spread(h, partmap.Range{Min: lo, Max: hi}, f.RawBytes()+itemWeight*f.ItemsWithin(), guessDepth)
	}
	return h
}

// spread puts weight evenly over a range: halves of it depth times, if it is wide enough.
func spread(h *splitter.Histogram, r partmap.Range, weight int64, depth int) {
	mid := partmap.Midpoint(r)
	if depth == 0 || mid == r.Min {
		h.Add(r.Min, weight)
		return
	}
	spread(h, partmap.Range{Min: r.Min, Max: mid}, weight/2, depth-1)
	spread(h, partmap.Range{Min: mid, Max: r.Max}, weight-weight/2, depth-1)
}

// placeOf returns what tables have of the EPK of a key: all but the last 8 bytes.
func placeOf(k *item.Key) (partmap.EPK, error) {
	return partmap.EPKFromBytes(k.EPK[:max(0, len(k.EPK)-8)])
}

// memoryHistogram returns where in the key space the documents in the memtables lie.
func memoryHistogram(t *lsm.Tree) *splitter.Histogram {
	h := new(splitter.Histogram)
	guard := t.Env.Epoch.Enter()
	defer guard.Leave()
	v := t.Version.Load()
	var m lsm.Cursor
	inMemory := lsm.Version{Active: v.Active, Frozen: v.Frozen}
	m.Open(&inMemory, lsm.MaxSequence, false)
	defer m.Close()
	for m.Start(); m.Valid(); m.Next() {
		k, ver := m.Top()
		if at, err := placeOf(k); err == nil {
			h.Add(at, int64(len(ver.Body))+itemWeight)
		}
	}
	return h
}

// runSource presents a run, within the bounds of its files, to the splitter. A place is a
// logical partition of a file.
type runSource struct {
	run    *lsm.Run
	levels int
	lower  []int // for each file, its logical partition with which its places begin
	first  []int // first place of each file, then the number of places
	before []int64
}

func newRunSource(r *lsm.Run, levels int) (*runSource, error) {
	s := &runSource{run: r, levels: levels, first: []int{0}, before: []int64{0}}
	for i, f := range r.Files {
		lo, hi := 0, int(f.Properties().LogicalPartitions)
		if f.Clip != nil {
			var err error
			if lo, err = f.LowerLogicalPartition(f.Clip.Lo.EPK); err != nil {
				return nil, f.Met(err)
			}
			if hi, err = f.LowerLogicalPartition(f.Clip.Hi.EPK); err != nil {
				return nil, f.Met(err)
			}
		}
		from, err := weightBefore(f, lo)
		if err != nil {
			return nil, err
		}
		to, err := weightBefore(f, hi)
		if err != nil {
			return nil, err
		}
		s.lower = append(s.lower, lo)
		s.first = append(s.first, s.first[i]+max(0, hi-lo))
		s.before = append(s.before, s.before[i]+max(0, to-from))
	}
	return s, nil
}

// weightBefore returns the weight of a file's logical partitions before the one with
// number i.
func weightBefore(f *lsm.File, i int) (int64, error) {
	p := f.Properties()
	items, raw := p.Items, p.RawBytes
	if i < int(p.LogicalPartitions) {
		at, err := f.LogicalPartition(i)
		if err != nil {
			return 0, f.Met(err)
		}
		items, raw = at.ItemsBefore, at.RawBefore
	}
	return int64(raw) + itemWeight*int64(items), nil
}

// Len implements splitter.Source.
func (s *runSource) Len() int { return s.first[len(s.run.Files)] }

// fileOf returns the file that place i lies in; i is below Len.
func (s *runSource) fileOf(i int) int {
	return sort.Search(len(s.run.Files), func(n int) bool { return s.first[n+1] > i })
}

// At implements splitter.Source.
func (s *runSource) At(i int) (at partmap.EPK, err error) {
	n := s.fileOf(i)
	f := s.run.Files[n]
	p, err := f.LogicalPartition(s.lower[n] + i - s.first[n])
	if err != nil {
		return at, f.Met(err)
	}
	return partmap.EPKFromBytes(p.EPK)
}

// Find implements splitter.Source.
func (s *runSource) Find(at *partmap.EPK) (int, error) {
	n := sort.Search(len(s.run.Files), func(n int) bool { return s.run.Files[n].Max.Compare(at) > 0 })
	if n == len(s.run.Files) {
		return s.Len(), nil
	}
	key := keybounds.At(at, s.levels)
	f := s.run.Files[n]
	i, err := f.LowerLogicalPartition(key.EPK)
	return min(max(s.first[n], s.first[n]+i-s.lower[n]), s.first[n+1]), f.Met(err)
}

// Before implements splitter.Source.
func (s *runSource) Before(i int) (int64, error) {
	if i == s.Len() {
		return s.before[len(s.run.Files)], nil
	}
	n := s.fileOf(i)
	f := s.run.Files[n]
	from, err := weightBefore(f, s.lower[n])
	if err != nil {
		return 0, err
	}
	to, err := weightBefore(f, s.lower[n]+i-s.first[n])
	return s.before[n] + to - from, err
}
