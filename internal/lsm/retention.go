package lsm

import (
	"slices"

	"github.com/cleavestore/cleave/internal/kept"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/pins"
)

// retention is what a flush or compaction keeps, and what it must know of its beginning at its end.
type retention struct {
	kept.Rule
	changes uint64      // of the default time to live, before Purge was asked for
	readers pins.Sample // sequences that readers have pinned, to be noted with the run
}

// retention returns what a flush or compaction that begins now must keep. A reader that
// begins later reads at a sequence above all versions that the flush or compaction sees.
func (t *Tree) retention(oldest bool) retention {
	live := t.Env.Pins.Live()
	r := retention{readers: pins.SampleOf(live), changes: t.Life.Changes()}
	r.At, r.Above, r.Oldest, r.Follows = append([]uint64{MaxSequence}, live...), t.Family.ChangeFloor(), oldest, t.Life.Follows()
	if r.Above != MaxSequence {
		r.At = append(r.At, r.Above)
		slices.Sort(r.At)
		slices.Reverse(r.At)
	}
	r.Purge = t.purge()
	return r
}

// purge says which items a flush or compaction that begins now drops, of those that are Purgeable.
func (t *Tree) purge() lifetime.Past {
	past := t.Purgeable()
	if past != (lifetime.Past{}) {
		// A reader that has run for long may go by a time before the item expired.
		past = past.At(min(past.Expired, t.Env.Pins.Earliest(t.Env.Clock())))
	}
	return past
}

// outdated says that the default time to live has changed since, and that expired versions
// were dropped by the one before. install is locked.
func (r *retention) outdated(t *Tree) bool { return r.Expired && r.changes != t.Life.Changes() }

// raiseChangeFloor raises the partition's ChangeFloor to keep.Told, before the files
// that lack the dropped versions are shown. install is locked. keep.Told is never
// above the partition's newest version: a feed that has seen all versions can go on
// after a pause of any length.
func (t *Tree) raiseChangeFloor(keep *retention) {
	if keep.Above != MaxSequence {
		t.ChangeFloor.Store(max(t.ChangeFloor.Load(), keep.Told))
	}
}
