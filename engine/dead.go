package engine

import (
	"context"
	"slices"

	"github.com/cleavestore/cleave/internal/item"
)

// Dead versions are those that nobody needs: overwritten or deleted ones,
// tombstones, and what has expired. A flush or merge leaves some of them: those
// that somebody reads, or may ask for as changes, and what lies in runs that it
// does not read. What keeps them goes sooner or later, and then a merge of all runs
// drops them. Files count in their footers what they have; with a run it is noted
// who read when it was written. Who begins to read later sees nothing that was
// overwritten in the run, so it is nobody's once those are gone. Readers do not
// survive the process: after an open nobody holds anything.
const (
	// deadPercent is the share of dead versions from which on everything is
	// merged: what nobody holds takes at most as much space as what lives, but for
	// minDeadItems that have less than minDeadBytes.
	deadPercent  = 50
	minDeadItems = 1000
	minDeadBytes = 4 << 20

	maxHeldBy = 64 // sequences noted with a run
)

// heldBy are sequences at which somebody read when a run was written, falling.
type heldBy []uint64

// thinned leaves out some of many between the first and the last.
func (h heldBy) thinned() heldBy {
	n := len(h)
	if n <= maxHeldBy {
		return h
	}
	few := make(heldBy, maxHeldBy)
	for i := range few {
		few[i] = h[i*(n-1)/(maxHeldBy-1)]
	}
	return few
}

// join returns the sequences of both lists.
func (h heldBy) join(o heldBy) heldBy {
	all := append(slices.Clone(h), o...)
	slices.Sort(all)
	slices.Reverse(all)
	return slices.Compact(all).thinned()
}

// gone returns which part of those who held a run read no more, from 0 to 1, and
// whether the one at the lowest sequence does not. Merges look again at what
// is held.
func (db *DB) gone(h heldBy) (part float64, lowest bool) {
	if len(h) == 0 {
		return 1, true
	}
	live := db.pins.live()
	gone := 0
	for _, at := range h {
		if !slices.Contains(live, at) {
			gone++
		}
	}
	last := h[len(h)-1]
	lowest = len(live) == 0 || live[len(live)-1] > last
	if gone < len(h) || !lowest {
		db.heldBack.Store(true)
	}
	return float64(gone) / float64(len(h)), lowest
}

// deadIn estimates how many versions a merge of neighbouring runs would drop now. It
// is above 0 if there are any but for those that newer runs overwrite. last says
// that the partition has no older runs: then tombstones and what has expired can go.
func (p *partition) deadIn(runs []*run, last bool) (dead float64) {
	purge := p.purgeable()
	floor := p.c.changeFloor()
	for i, r := range runs {
		part, lowest := p.db.gone(r.heldBy)
		passed := 1.0
		if floor != maxSequence {
			passed = r.passed(floor) // only what the floor has passed can go
		}
		dead += passed * part * r.older()
		if last && lowest {
			dead += passed * r.tombstones()
			if floor == maxSequence {
				dead += float64(r.expiring.expired(purge))
			}
		}
		if i < len(runs)-1 {
			dead += passed * float64(r.shadowed)
		}
	}
	return dead
}

// wasteful says that so much of neighbouring runs is dead that they are to be
// merged.
func (p *partition) wasteful(runs []*run, last bool) bool {
	dead := p.deadIn(runs, last)
	var items, bytes float64
	for _, r := range runs {
		items += float64(r.items())
		bytes += float64(r.bytes())
	}
	return dead*100 >= items*deadPercent && (dead >= minDeadItems || items > 0 && bytes*dead/items >= minDeadBytes)
}

// overwrites says whether a run has a key that an older one has too.
func (p *partition) overwrites(ctx context.Context, runs []*run) (bool, error) {
	for i, r := range runs[:max(0, len(runs)-1)] {
		if r.shadowed > 0 {
			return true, nil
		}
		if r.overwritesNothing.Load() {
			continue
		}
		for _, f := range r.files {
			found, err := f.overwritesIn(ctx, runs[i+1:])
			if found || err != nil {
				return found, err
			}
		}
		r.overwritesNothing.Store(true) // older runs get no keys
	}
	return false, nil
}

// overwritesIn says whether the file has a key, within the bounds of its
// reference, that a run has too.
func (f *file) overwritesIn(ctx context.Context, runs []*run) (found bool, err error) {
	s := indexSource{file: f}
	keys := 0
	err = s.eachKey(func(k *item.Key, _ uint64) error {
		if keys++; keys%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		l := k.Lookup()
		for _, r := range runs {
			for _, old := range r.files {
				if filesApart(f, old) {
					continue
				}
				span, readErr := old.ordinalSpan()
				if readErr != nil {
					return readErr
				}
				first, versions, readErr := old.overwrittenBy(l)
				if readErr != nil {
					return readErr
				}
				if max(first, span.lo) < min(first+versions, span.hi) {
					return errStopped
				}
			}
		}
		return nil
	})
	if err == errStopped {
		return true, nil
	}
	return false, err
}
