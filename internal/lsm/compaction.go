package lsm

import (
	"container/heap"
	"context"
	"fmt"
	"slices"

	"github.com/cleavestore/cleave/internal/drain"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/pacing"
	"github.com/cleavestore/cleave/segment"
)

// Compaction is lazy: reads of several runs are cheap, writing them again is not.
//
// A compaction reads age-contiguous runs and writes one in their place:
//
//  1. The compaction notes the sequences that readers have pinned, and the present one.
//  2. Of each key it keeps the newest version at or below each of these sequences.
//     If it includes the oldest run, it drops tombstones below which no older
//     version is kept.
//  3. Files are written, checked and renamed as in a flush.
//  4. Commit point: the partition's manifest.
//  5. Readers get the partition's new version; the input files are removed when the
//     last reader of the old version has left.
//
// A crash before 4 leaves the inputs, and the compaction starts over. A crash after 4 leaves the output.

// Compacted tells what a compaction, or the rewriting of a file, has done.
type Compacted struct {
	Runs, ItemsIn, ItemsOut int64
	BytesIn, BytesOut       int64 // within the bounds of the references
}

// Compact carries out one compaction; done is false if there was nothing to do, or the
// partition was dropped. It leaves the oldest runs alone, as many as behind says, and runs that
// have more than most bytes together: both are for nested compactions. It calls nested while
// there are newer runs than its inputs. The caller holds compacting.
func (t *Tree) Compact(ctx context.Context, behind int, most int64, choose Picker, nested Nested) (c Compacted, done bool, err error) {
	if behind == 0 {
		t.separate()
	}
	// Only compactions remove runs, and one nested in another only such as are newer than the
	// inputs of that. So the inputs stay; what changes is in front of them.
	v, release := t.PinVersion()
	defer release()
	before := t.room
	defer func() { t.giveRoom(t.room - before) }()
	runs := v.Runs[:len(v.Runs)-behind]
	pick, err := pickCompaction(runs, behind == 0, choose)
	if err != nil || pick.Len() == 0 || bytesOf(runs[pick.First:pick.End]) > most {
		return c, false, err
	}
	if t.room == before { // choose has not asked for more
		if err = t.needRoom(t.toWrite(runs[pick.First:pick.End], behind == 0 && pick.End == len(runs))); err != nil {
			return c, false, fmt.Errorf("compaction of partition %d: %w", t.ID, err)
		}
	}
	for outdated := true; outdated && err == nil; {
		c, done, outdated, err = t.merge(ctx, v.Runs[pick.First:pick.End], v.Runs[pick.End:], nested)
	}
	return c, done, err
}

// merge is Compact for these runs and those that are older. outdated says that it is to be tried again, since the
// default time to live has changed meanwhile: nothing is left of what it wrote.
func (t *Tree) merge(ctx context.Context, inputs, older []*Run, nested Nested) (c Compacted, done, outdated bool, err error) {
	oldest := allAside(older) // damaged runs do not count: keep.Aside has their bounds
	c.Runs, c.BytesIn = int64(len(inputs)), bytesOf(inputs)
	expect, gone := int64(0), []*File(nil)
	for _, r := range inputs {
		expect += r.Items()
		gone = append(gone, r.Files...)
	}
	out := t.NewOutput(ctx, int(expect), older, inputs)
	defer out.Abandon()
	if oldest {
		out.Codec = t.Family.Compression
	}
	if out.Codec != segment.None {
		out.Dict = t.Family.CompactionDictionary(inputs)
	}
	m := compactor{
		out: out, keep: t.retention(oldest), overlap: &overlap{runs: older}, expect: expect,
		job: t.Drain.BeginNested(c.BytesIn, c.Runs-1, c.BytesIn+bytesOf(older)),
	}
	defer func() { m.job.End(!done) }()
	out.nest(len(inputs)+len(older), nested, m.job)
	m.keep.Aside = t.keysAside(older)
	if err := m.run(inputs); err == ErrMoved {
		return c, false, false, nil
	} else if err != nil {
		return c, false, false, fmt.Errorf("compaction of partition %d: %w", t.ID, err)
	}
	var replacement []*Run
	if out.Items > 0 {
		r, err := out.Finish()
		if err == ErrMoved {
			return c, false, false, nil
		}
		if err != nil {
			return c, false, false, err
		}
		r.Overwritten = m.overlap.estimate()
		r.KeptAbove, r.heldBy = m.keep.Floor(), m.keep.readers
		replacement = []*Run{r}
		c.BytesOut = r.bytes()
	}
	t.Install.Lock()
	defer t.Install.Unlock()
	if outdated = m.keep.outdated(t); outdated || t.Dropped.Load() {
		return c, false, outdated, nil
	}
	present := t.Version.Load().Runs
	next := slices.Clone(present[:len(present)-len(inputs)-len(older)])
	t.carryVectors(out, next)
	next = append(append(next, replacement...), older...)
	t.raiseChangeFloor(&m.keep)
	if err := t.replaceFiles(next, gone); err != nil {
		return c, false, false, err
	}
	out.Published = true
	t.seeks.Forget()
	t.Swap(func(v Version) Version {
		v.SetRuns(next)
		return v
	})
	t.Env.Reclaim.Retire(func() { t.removeFiles(gone) })
	c.ItemsIn, c.ItemsOut = m.in, out.Items
	return c, true, false, nil
}

// compactor merges the versions of several runs.
type compactor struct {
	out     *output
	keep    retention
	overlap *overlap
	in      int64
	inputs  runHeap
	job     *drain.Job
	expect  int64 // versions in the inputs
}

// runWalker walks the files of a run.
type runWalker struct {
	files  []*File
	file   *File // under the walker
	walker *segment.Walker
	age    int         // 0 the newest
	taken  *takenIndex // index of file, for the present output file
}

func (r *runWalker) next() (bool, error) {
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
type runHeap []*runWalker

func (h runHeap) Len() int { return len(h) }
func (h runHeap) Less(i, j int) bool {
	if c := item.Compare(h[i].walker.Key(), h[j].walker.Key()); c != 0 {
		return c < 0
	}
	// The age of runs does not order versions: replay may have flushed one twice, see makeRoom.
	a, b := h[i].walker.Version().Seq, h[j].walker.Version().Seq
	return a > b || a == b && h[i].age < h[j].age
}
func (h runHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *runHeap) Push(x any)   { *h = append(*h, x.(*runWalker)) }
func (h *runHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}

func (m *compactor) run(runs []*Run) error {
	for age, r := range runs {
		in := &runWalker{files: r.Files, age: age}
		ok, err := in.next()
		if err != nil {
			return err
		}
		if ok {
			m.inputs = append(m.inputs, in)
		}
	}
	heap.Init(&m.inputs)
	each := min(pacing.Piece, max(1, m.expect/256)) // of large documents there may be few
	var key item.KeyCopy                            // the key at hand
	for len(m.inputs) > 0 {
		top := m.inputs[0]
		k, v := top.walker.Key(), top.walker.Version()
		if m.in == 0 || item.Compare(k, &key.Key) != 0 {
			key.Set(k)
			m.keep.NextKey(k)
		}
		if err := m.out.Step(); err != nil {
			return err
		}
		if m.in++; m.in%each == 0 {
			m.job.Wrote(m.in, m.expect)
		}
		if m.keep.Wants(v) {
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
	m.job.Wrote(m.expect, m.expect)
	if m.in != m.out.Items+m.keep.Dropped {
		return fmt.Errorf("%d versions in, %d kept, %d dropped", m.in, m.out.Items, m.keep.Dropped)
	}
	return nil
}

// advance moves the walker to the next version within the bounds.
func (r *runWalker) advance() bool {
	for r.walker.Next() {
		clip := r.file.Clip
		if clip == nil || clip.Holds(r.walker.Key()) {
			return true
		}
		if clip.Hi.Hash < r.walker.Key().Hash {
			return false // far behind the upper bound
		}
	}
	return false
}
