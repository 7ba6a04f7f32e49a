package engine

import (
	"context"
	"fmt"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/pacing"
)

// flushed tells what a flush has done.
type flushed struct {
	items int64
	bytes int64
}

// flush writes mem, the oldest frozen memtable of version v, to files and publishes them.
// The memtable is no longer in the tree when flush returns; the caller lets it go. done is
// false if the partition was dropped. All versions in mem must be durable and visible.
// The caller holds flushing, and v.
func (t *tree) flush(ctx context.Context, v *version, mem *frozenTable) (done flushed, ok bool, err error) {
	out := t.newOutput(ctx, int(mem.Versions()), v.runs, nil)
	defer out.abandon()
	if err := out.chooseDictionary(mem.Table, mem.RawBytes()); err != nil {
		return done, false, err
	}
	guess := t.newOverlap(v.runs)
	// During replay, carried records may still bring older versions.
	keep := t.retention(len(v.runs) == 0 && !t.env.replaying)
	var in, foreign int64
	var key item.Key // of the memtable, which outlives the loop
	for w := mem.Walk(maxSequence); w.Next(); {
		if (in+foreign)%pacing.Piece == 0 {
			if err := out.yield(); err != nil {
				return done, false, err
			}
		}
		if mem.clip != nil && !mem.clip.holds(w.Key()) {
			foreign++
			continue
		}
		if k := w.Key(); in == 0 || item.Compare(k, &key) != 0 {
			key = *k
			keep.nextKey(k)
		}
		in++
		if !keep.wants(w.Version()) {
			continue
		}
		if err := out.add(w.Key(), w.Version()); err != nil {
			return done, false, err
		}
		guess.note(w.Key())
	}
	if in+foreign != mem.Versions() || in != out.items+keep.dropped {
		return done, false, fmt.Errorf("flush of partition %d: %d versions held, %d read, %d foreign, %d written, %d dropped", t.id, mem.Versions(), in, foreign, out.items, keep.dropped)
	}
	var written []*run
	if out.items > 0 {
		r, err := out.finish()
		if err != nil {
			return done, false, err
		}
		r.shadowed, r.keptAbove, r.heldBy = guess.estimate(), keep.floor(), keep.readers
		written = []*run{r}
		raw, stored := r.compression()
		t.family.dict.judge(out.dict, raw, stored)
		t.completeShadows(out)
	}
	t.install.Lock()
	defer t.install.Unlock()
	if t.dropped.Load() {
		return done, false, nil
	}
	runs := append(written, t.version.Load().runs...)
	upTo, inherits := t.flushed(mem)
	at := mem.applied
	if t.env.replaying {
		upTo, inherits, t.install.behind = t.install.flushedSeq.Load(), t.inherited(), true
		at = t.install.applied
	}
	t.raiseChangeFloor(&keep)
	if err := t.storeFiles(runs, upTo, at, inherits); err != nil {
		return done, false, err
	}
	out.published = true
	t.swap(func(v version) version {
		v.frozen = v.frozen[: len(v.frozen)-1 : len(v.frozen)-1]
		v.setRuns(runs)
		return v
	})
	done.items = out.items
	for _, r := range written {
		done.bytes += r.bytes()
	}
	return done, true, nil
}
