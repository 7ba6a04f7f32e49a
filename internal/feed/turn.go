package feed

import (
	"slices"
	"time"

	"github.com/cleavestore/cleave/internal/cost"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/partmap"
)

// syncEvery is the least time between two syncs of the log by a feed that follows.
// Until then it waits for more changes.
const syncEvery = 10 * time.Millisecond

// turnEnd is how a turn of a part ends.
type turnEnd uint8

const (
	turnNothing turnEnd = iota // there is nothing new
	turnMore                   // the part has advanced
	turnAgain                  // it has advanced and goes on at once: the next versions are in order
	turnCut                    // it has advanced to the end of its window; the part cut off from it waits
)

// turn makes a batch of a part. If the part spans several partitions, turn first
// cuts it at the end of the first one.
func (f *Feed) turn(i int) (end turnEnd, err error) {
	f.found, f.text = f.found[:0], f.text[:0]
	call, err := f.store.Enter(f.ctx)
	if err != nil {
		return turnNothing, err
	}
	defer call.Leave()
	p := f.partitionAt(&f.parts[i].rng.Min)
	t := p.Tree()
	if t.Lost != nil { // it shows no sequence, and would pass for empty
		return turnNothing, f.store.ReadError(t.Lost)
	}
	if err = p.Here(); err != nil {
		return turnNothing, err
	}
	if f.parts[i].rng.Max.Compare(&t.Range.Max) > 0 {
		f.cut(i, t.Range.Max)
	}
	e := &f.parts[i]
	to, err := f.window(p, e.seq)
	if err != nil {
		return turnNothing, err
	}
	for j := range f.parts {
		// Go no further than the next part of this partition that is ahead.
		if o := &f.parts[j]; o.seq > e.seq && o.seq < to && t.Range.Overlaps(o.rng) {
			to = o.seq
		}
	}
	if to <= e.seq {
		return turnNothing, nil
	}
	if err = p.Admit(); err != nil {
		return turnNothing, err
	}
	for filled := fillNothing; filled != fillBatch; {
		if err = f.prepare(t, i); err != nil {
			return turnNothing, err
		}
		e = &f.parts[i]
		filled, err = f.fill(p, e, to)
		switch {
		case err != nil:
			return turnNothing, f.store.ReadError(err)
		case filled == fillReplaced:
			return turnNothing, errReplaced
		case filled == fillExpired:
			return turnNothing, f.expired()
		}
	}
	units := cost.Visit
	for j := range f.found {
		units += cost.Read(f.found[j].body)
	}
	p.Charge(units)
	if f.o.Charged != nil {
		*f.o.Charged += units
	}
	switch ordered := f.orders.spend(e); {
	case ordered && e.seq < to:
		return turnAgain, nil
	case e.seq == to && f.cutOff(i):
		return turnCut, nil
	}
	return turnMore, nil
}

// partitionAt returns the partition that holds an EPK.
func (f *Feed) partitionAt(at *partmap.EPK) Partition {
	rt := f.store.Routing()
	return rt.Partition(rt.Table().Find(at))
}

// cut cuts a part in two. The upper half joins the next part if the two are
// adjacent and have the same sequence. Otherwise it becomes a part of its own.
func (f *Feed) cut(i int, at partmap.EPK) {
	e := &f.parts[i]
	rest := *e
	e.rng.Max, rest.rng.Min = at, at
	if i+1 < len(f.parts) && f.parts[i+1].seq == rest.seq && f.parts[i+1].rng.Min == rest.rng.Max {
		f.parts[i+1].rng.Min = at
		return
	}
	f.parts = slices.Insert(f.parts, i+1, rest)
}

// cutOff says whether the next part was cut off from this one: it is adjacent, in
// the same partition, and has a lower sequence.
func (f *Feed) cutOff(i int) bool {
	if i+1 == len(f.parts) {
		return false
	}
	e, rest := &f.parts[i], &f.parts[i+1]
	t := f.partitionAt(&e.rng.Min).Tree()
	return rest.seq < e.seq && rest.rng.Min == e.rng.Max && rest.rng.Min.Compare(&t.Range.Max) < 0
}

// window returns the end of a partition's window: up to there, changes are visible
// and durable. The window stays the same until seq has reached its end.
func (f *Feed) window(p Partition, seq uint64) (uint64, error) {
	t := p.Tree()
	if to := f.windows[t.ID]; to > seq {
		return to, nil
	}
	to := min(t.Visible.Load(), f.limit(t.Range))
	if to <= seq {
		return to, nil
	}
	if durable, lazy := p.Durable(); durable < to {
		if f.wait != nil && time.Since(f.synced) < syncEvery {
			return 0, errLate
		}
		if err := f.store.Sync(lazy); err != nil {
			return 0, err
		}
		f.synced = time.Now()
	}
	f.windows[t.ID] = to
	return to, nil
}

// limit returns the sequence above which nothing of a partition with a range is shown. If
// the partition has replaced two others since the feed began, their higher limit counts.
func (f *Feed) limit(rng partmap.Range) (to uint64) {
	if f.wait != nil {
		return lsm.MaxSequence
	}
	for i := range f.until {
		if f.until[i].rng.Overlaps(rng) {
			to = max(to, f.until[i].seq)
		}
	}
	return to
}
