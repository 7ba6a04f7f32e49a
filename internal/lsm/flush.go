package lsm

import (
	"context"
	"fmt"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/pacing"
)

// flushed tells what a flush has done.
type flushed struct {
	Items int64
	Bytes int64
}

// Flush writes mem, the oldest frozen memtable of version v, to files and publishes them.
// The memtable is no longer in the tree when Flush returns; the caller lets it go. done is
// false if the partition was dropped. All versions in mem must be durable and visible.
// The caller holds flushing, and v.
func (t *Tree) Flush(ctx context.Context, v *Version, mem *Frozen) (done flushed, ok bool, err error) {
	out := t.NewOutput(ctx, int(mem.Versions()), v.Runs, nil)
	defer out.Abandon()
	if err := out.chooseDictionary(mem.Table, mem.RawBytes()); err != nil {
		return done, false, err
	}
	guess := &overlap{runs: v.Runs}
	// During replay, carried records may still bring older versions.
	keep := t.retention(len(v.Runs) == 0 && !t.Env.Replaying)
	if t.Life.Follows() {
		keep.Purge = lifetime.Past{} // compactions begin again if the default changes meanwhile
	}
	var in, foreign int64
	var key item.Key // of the memtable, which outlives the loop
	for w := mem.Walk(MaxSequence); w.Next(); {
		if (in+foreign)%pacing.Piece == 0 {
			mem.Drain.Wrote(in+foreign, mem.Versions())
		}
		if err := out.Step(); err != nil {
			return done, false, err
		}
		if mem.Clip != nil && !mem.Clip.Holds(w.Key()) {
			foreign++
			continue
		}
		if k := w.Key(); in == 0 || item.Compare(k, &key) != 0 {
			key = *k
			keep.NextKey(k)
		}
		in++
		if !keep.Wants(w.Version()) {
			continue
		}
		if err := out.Add(w.Key(), w.Version()); err != nil {
			return done, false, err
		}
		guess.note(w.Key())
	}
	if in+foreign != mem.Versions() || in != out.Items+keep.Dropped {
		return done, false, fmt.Errorf("flush of partition %d: %d versions held, %d read, %d foreign, %d written, %d dropped", t.ID, mem.Versions(), in, foreign, out.Items, keep.Dropped)
	}
	var written []*Run
	if out.Items > 0 {
		r, err := out.Finish()
		if err != nil {
			return done, false, err
		}
		r.Overwritten, r.KeptAbove, r.heldBy = guess.estimate(), keep.Floor(), keep.readers
		written = []*Run{r}
		raw, stored := r.Compression()
		t.Family.dict.judge(out.Dict, raw, stored)
		t.completeVectors(out)
	}
	t.Install.Lock()
	defer t.Install.Unlock()
	if t.Dropped.Load() {
		return done, false, nil
	}
	runs := append(written, t.Version.Load().Runs...)
	upTo, inherits := t.flushed(mem)
	at := mem.Applied
	if t.Env.Replaying {
		upTo, inherits, t.Install.Behind = t.Install.FlushedSeq.Load(), t.Inherited(), true
		at = t.Install.Applied
	}
	t.raiseChangeFloor(&keep)
	if err := t.StoreFiles(runs, upTo, at, inherits); err != nil {
		return done, false, err
	}
	out.Published = true
	t.Swap(func(v Version) Version {
		v.Frozen = v.Frozen[: len(v.Frozen)-1 : len(v.Frozen)-1]
		v.SetRuns(runs)
		return v
	})
	done.Items = out.Items
	for _, r := range written {
		done.Bytes += r.bytes()
	}
	return done, true, nil
}
