package engine

import (
	"container/heap"
	"context"
	"fmt"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/pacing"
	"github.com/cleavestore/cleave/segment"
)

// Merging is lazy: reads of several runs are cheap, writing them again is not.
//
// A merge reads age-contiguous runs and writes one in their place:
//
//  1. The merge notes the sequences that readers have pinned, and the present one.
//  2. Of each key it keeps the newest version at or below each of these sequences.
//     If it includes the oldest run, it drops tombstones below which no older
//     version is kept.
//  3. Files are written, checked and renamed as in a flush.
//  4. Commit point: the partition's manifest.
//  5. Readers get the partition's new version; the input files are removed when the
//     last reader of the old version has left.
//
// A crash before 4 leaves the inputs, and the merge starts over. A crash after 4 leaves
// the output.
const (
	tierRuns    = 8  // number of runs of similar size that are merged together
	tierPercent = 20 // a merged run may be this much larger than all newer ones together
	maxRuns     = 12 // above it the newest runs are merged whatever their size
	runsLeft    = 2

	manyRuns = maxRuns + 4 // from here on writes slow down
	mostRuns = 3 * maxRuns // from here on they wait
)

// plan is a choice of runs to merge: v.runs[first:end].
type plan struct{ first, end int }

func (p plan) empty() bool { return p.end-p.first < 1 }

// picker chooses which of some neighbouring runs to merge; an empty plan: none. last
// says that the partition has no older runs.
type picker func(runs []*run, last bool) (plan, error)

// compacted tells what a compaction, or the rewriting of a file, has done.
type compacted struct {
	runs, itemsIn, itemsOut int64
	bytesIn, bytesOut       int64 // within the bounds of the references
}

// compact carries out one compaction; done is false if there was nothing to do, or the
// partition was dropped. The caller holds compacting.
func (t *tree) compact(ctx context.Context, choose picker) (c compacted, done bool, err error) {
	// Only compactions remove runs and one runs at a time, so the inputs stay; new
	// runs come in front of them.
	t.separate()
	v, release := t.hold()
	defer release()
	runs := v.runs
	pick, err := pickCompaction(runs, choose)
	if err != nil || pick.empty() {
		return c, false, err
	}
	inputs := runs[pick.first:pick.end]
	older := runs[pick.end:]
	oldest := allAside(older) // damaged runs do not count: keep.aside has their bounds
	c.runs = int64(len(inputs))
	var expect int64
	for _, r := range inputs {
		expect += r.items()
		c.bytesIn += r.bytes()
	}
	out := t.newOutput(ctx, int(expect), older, inputs)
	defer out.abandon()
	if oldest {
		out.codec = t.family.compression
	}
	if out.codec != segment.None {
		out.dict = t.family.compactionDictionary(inputs)
	}
	m := compactor{
		out: out, keep: t.retention(oldest), overlap: t.newOverlap(older),
	}
	m.keep.aside = t.keysAside(older)
	if err := m.run(inputs); err == errMoved {
		return c, false, nil
	} else if err != nil {
		return c, false, fmt.Errorf("merge of partition %d: %w", t.id, err)
	}
	var replacement []*run
	if out.items > 0 {
		r, err := out.finish()
		if err == errMoved {
			return c, false, nil
		}
		if err != nil {
			return c, false, err
		}
		r.shadowed = m.overlap.estimate()
		r.keptAbove, r.heldBy = m.keep.floor(), m.keep.readers
		replacement = []*run{r}
		c.bytesOut = r.bytes()
	}
	t.install.Lock()
	defer t.install.Unlock()
	if t.dropped.Load() {
		return c, false, nil
	}
	present := t.version.Load().runs
	newer := len(present) - len(runs)
	next := append([]*run{}, present[:newer+pick.first]...)
	t.carryShadows(out, next)
	next = append(append(next, replacement...), older...)
	var gone []*file
	for _, r := range inputs {
		gone = append(gone, r.files...)
	}
	t.raiseChangeFloor(&m.keep)
	if err := t.replaceFiles(next, gone); err != nil {
		return c, false, err
	}
	out.published = true
	t.swap(func(v version) version {
		v.setRuns(next)
		return v
	})
	t.env.retire(func() { t.removeFiles(gone) })
	c.itemsIn, c.itemsOut = m.in, out.items
	return c, true, nil
}

// compactor merges the versions of several runs.
type compactor struct {
	out     *output
	keep    retention
	overlap *overlap
	in      int64
	inputs  runHeap
}

// runInput walks the files of a run.
type runInput struct {
	files  []*file
	file   *file // under the walker
	walker *segment.Walker
	age    int         // 0 the newest
	taken  *takenIndex // index of file, for the present output file
}

func (r *runInput) next() (bool, error) {
	for {
		if r.walker != nil {
			if r.advance() {
				return true, nil
			}
			if err := r.walker.Err(); err != nil {
				return false, r.file.refused(err)
			}
		}
		if len(r.files) == 0 {
			return false, nil
		}
		r.file, r.walker = r.files[0], r.files[0].walk()
		r.files = r.files[1:]
	}
}

// runHeap orders inputs by key, then newest version first, then newest run first.
type runHeap []*runInput

func (h runHeap) Len() int { return len(h) }
func (h runHeap) Less(i, j int) bool {
	if c := item.Compare(h[i].walker.Key(), h[j].walker.Key()); c != 0 {
		return c < 0
	}
	// The age of runs does not order versions: replay may have flushed one twice, see
	// makeRoom.
	a, b := h[i].walker.Version().Seq, h[j].walker.Version().Seq
	return a > b || a == b && h[i].age < h[j].age
}
func (h runHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *runHeap) Push(x any)   { *h = append(*h, x.(*runInput)) }
func (h *runHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}

func (m *compactor) run(runs []*run) error {
	for age, r := range runs {
		in := &runInput{files: r.files, age: age}
		ok, err := in.next()
		if err != nil {
			return err
		}
		if ok {
			m.inputs = append(m.inputs, in)
		}
	}
	heap.Init(&m.inputs)
	var key item.KeyCopy // the key at hand
	for len(m.inputs) > 0 {
		top := m.inputs[0]
		k, v := top.walker.Key(), top.walker.Version()
		if m.in == 0 || item.Compare(k, &key.Key) != 0 {
			key.Set(k)
			m.keep.nextKey(k)
		}
		if m.in%pacing.Piece == 0 {
			if err := m.out.yield(); err != nil {
				return err
			}
		}
		if m.in%paceItems == 0 {
			if err := m.out.pace(); err != nil {
				return err
			}
		}
		m.in++
		if m.keep.wants(v) {
			if err := m.out.addFrom(top); err != nil {
				return err
			}
			m.overlap.note(k)
		}
		ok, err := top.next()
		if err != nil {
			return err
		}
		if ok {
			heap.Fix(&m.inputs, 0)
		} else {
			heap.Pop(&m.inputs)
		}
	}
	if m.in != m.out.items+m.keep.dropped {
		return fmt.Errorf("%d versions in, %d kept, %d dropped", m.in, m.out.items, m.keep.dropped)
	}
	return nil
}

// pickDead chooses all runs if something in them is dead.
func (t *tree) pickDead(ctx context.Context) picker {
	return func(runs []*run, last bool) (plan, error) {
		if t.deadIn(runs, last) > 0 {
			return plan{0, len(runs)}, nil
		}
		if found, err := t.overwrites(ctx, runs); err != nil {
			return plan{}, fmt.Errorf("compact partition %d: %w", t.id, err)
		} else if found {
			return plan{0, len(runs)}, nil
		}
		return plan{}, nil
	}
}

// pickFew leaves runsLeft runs.
func pickFew(runs []*run, _ bool) (plan, error) {
	if len(runs) <= runsLeft {
		return plan{}, nil
	}
	return plan{0, len(runs) - runsLeft + 1}, nil
}

// pickTiers is the picker of background merges.
func (t *tree) pickTiers(runs []*run, last bool) (plan, error) {
	if len(runs) == 0 {
		return plan{}, nil
	}
	if t.wasteful(runs, last) {
		return plan{0, len(runs)}, nil
	}
	sum := runs[0].bytes()
	end := 1
	for end < len(runs) && runs[end].bytes()*100 <= sum*(100+tierPercent) {
		sum += runs[end].bytes()
		end++
	}
	if end >= tierRuns {
		return plan{0, end}, nil
	}
	if len(runs) > maxRuns {
		return plan{0, len(runs) - maxRuns + 2}, nil
	}
	return plan{}, nil
}

// advance moves the walker to the next version within the bounds.
func (r *runInput) advance() bool {
	for r.walker.Next() {
		clip := r.file.clip
		if clip == nil || clip.holds(r.walker.Key()) {
			return true
		}
		if clip.hi.Hash < r.walker.Key().Hash {
			return false // far behind the upper bound
		}
	}
	return false
}
