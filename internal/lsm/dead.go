package lsm

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/pins"
)

// Dead versions are overwritten and deleted versions, tombstones and expired items that
// no reader needs. A flush or a compaction still writes some versions that die later: those
// that a reader sees, those that the change feed may still show, and those whose key is
// also in a run that is not an input. Once these reasons are gone, a compaction of all runs
// drops the versions. The footer of a file counts its overwritten versions and
// tombstones. A run keeps the sequences of the readers that were active when it was
// written (Run.heldBy). Later readers see no version that was overwritten in the run, so its
// overwritten versions are dead once these readers have ended. Readers do not survive the
// process: after an open no run has any.
const (
	// deadPercent is the share of dead versions from which all runs are compacted. So dead
	// versions that no reader holds take at most as much space as live ones. Fewer than
	// minDeadItems that have less than minDeadBytes do not count.
	deadPercent  = 50
	minDeadItems = 1000
	minDeadBytes = 4 << 20
)

// errFound ends the search of overwritesIn.
var errFound = errors.New("found")

// overwritesIn says whether the file has a key, within the bounds of its reference, that
// one of the runs has too. It returns ErrMoved if the partition was dropped.
func (t *Tree) overwritesIn(ctx context.Context, f *File, runs []*Run) (found bool, err error) {
	s := Source{file: f}
	keys := -1
	err = s.eachKey(func(k *item.Key, _ uint64) error {
		if keys++; keys%1024 == 0 && (t.Dropped.Load() || ctx.Err() != nil) {
			return cmp.Or(ctx.Err(), ErrMoved)
		}
		l := k.Lookup()
		for _, r := range runs {
			for _, old := range r.Files {
				if filesApart(f, old) {
					continue
				}
				span, readErr := old.OrdinalSpan()
				if readErr != nil {
					return old.refused(readErr)
				}
				first, versions, readErr := old.OverwrittenBy(l)
				if readErr != nil {
					return old.refused(readErr)
				}
				if max(first, span.Lo) < min(first+versions, span.Hi) {
					return errFound
				}
			}
		}
		return nil
	})
	if err == errFound {
		return true, nil
	}
	return false, err
}

// gone returns the part, from 0 to 1, of the readers in h that have ended. lowest says
// that no reader is left at or below the lowest sequence of h. If some readers are left,
// gone sets HeldBack: maintenance then wakes the compactors again.
func (t *Tree) gone(h pins.Sample) (part float64, lowest bool) {
	if len(h) == 0 {
		return 1, true
	}
	live := t.Env.Pins.Live()
	gone := 0
	for _, at := range h {
		if !slices.Contains(live, at) {
			gone++
		}
	}
	last := h[len(h)-1]
	lowest = len(live) == 0 || live[len(live)-1] > last
	if gone < len(h) || !lowest {
		t.Env.HeldBack.Store(true)
	}
	return float64(gone) / float64(len(h)), lowest
}

// deadIn estimates how many versions a compaction of neighbouring runs would drop now. It is
// above 0 whenever such a compaction would drop versions, except those that newer runs
// overwrite. last says that the partition has no older runs: then tombstones and expired
// items can go too.
func (t *Tree) deadIn(runs []*Run, last bool) (dead float64) {
	purge := t.purge()
	floor := t.Family.ChangeFloor()
	for i, r := range runs {
		part, lowest := t.gone(r.heldBy)
		passed := 1.0
		if floor != MaxSequence {
			passed = r.Passed(floor) // only versions at or below the floor can go
		}
		dead += passed * part * r.Older()
		if last && lowest {
			dead += passed * r.Tombstones()
			if floor == MaxSequence {
				dead += float64(r.Expiring.Gone(purge))
			}
		}
		if i < len(runs)-1 {
			dead += passed * float64(r.Overwritten)
		}
	}
	return dead
}

// wasteful says whether so many versions of neighbouring runs are dead that the runs
// should be compacted.
func (t *Tree) wasteful(runs []*Run, last bool) bool {
	dead := t.deadIn(runs, last)
	var items, bytes float64
	for _, r := range runs {
		items += float64(r.Items())
		bytes += float64(r.bytes())
	}
	return dead*100 >= items*deadPercent && (dead >= minDeadItems || items > 0 && bytes*dead/items >= minDeadBytes)
}

// overwrites says whether any run has a key that an older one of the runs has too.
func (t *Tree) overwrites(ctx context.Context, runs []*Run) (bool, error) {
	for i, r := range runs[:max(0, len(runs)-1)] {
		if r.Overwritten > 0 {
			return true, nil
		}
		if r.overwritesNothing.Load() {
			continue
		}
		for _, f := range r.Files {
			found, err := t.overwritesIn(ctx, f, runs[i+1:])
			if found || err != nil {
				return found, err
			}
		}
		r.overwritesNothing.Store(true) // older runs never get new keys
	}
	return false, nil
}
