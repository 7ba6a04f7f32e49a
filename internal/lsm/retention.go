package lsm

import (
	"slices"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/keybounds"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/pins"
)

// retention decides which versions of a key a flush or compaction keeps: the newest
// one at or below each sequence that a reader has pinned, and the present one. A
// container that keeps changes keeps all above a floor, and the newest at or
// below it. Callers show it the versions of a key newest first.
type retention struct {
	at      []uint64            // sequences at which readers read, falling; the first is MaxSequence
	oldest  bool                // no older versions exist: tombstones hide nothing
	aside   []*keybounds.Bounds // with oldest: bounds of older files that are set aside as damaged
	hides   bool                // older versions of the present key may exist
	purge   lifetime.Past       // items that have expired by it count as deleted
	changes uint64              // of the default time to live, before purge was asked for
	expired bool                // a version was dropped that has expired
	follows bool                // the default time to live can be changed
	above   uint64              // all versions above it stay; MaxSequence: no changes are kept
	readers pins.Sample         // sequences that readers have pinned, to be noted with the run
	newer   uint64              // sequence of the previous version of the key
	first   bool                // no version of the key was shown yet
	whole   []uint64            // sequences of the tombstones of the key's logical partition, falling
	of      item.KeyCopy        // the logical partition of whole, if whole is not empty
	isWhole bool                // the present key is that of a partition tombstone
	dropped int64
	told    uint64 // highest result of toldBy for a dropped version
}

// floor returns the sequence above which all versions stay, 0 if the container
// keeps no changes.
func (r *retention) floor() uint64 {
	if r.above == MaxSequence {
		return 0
	}
	return r.above
}

// nextKey begins the next key. Keys come in order.
func (r *retention) nextKey(k *item.Key) {
	r.first = true
	r.hides = !r.oldest || anyHolds(r.aside, k)
	if r.isWhole = k.OfPartition(); r.isWhole {
		r.whole = r.whole[:0]
		r.of.Set(k)
	} else if len(r.whole) > 0 && !item.SamePartition(k, &r.of.Key) {
		r.whole = r.whole[:0]
	}
}

// deletedAt says whether the version with sequence seq is hidden from a reader at
// sequence at, because its logical partition was deleted in between.
func (r *retention) deletedAt(at, seq uint64) bool {
	for _, deleted := range r.whole {
		if deleted <= at {
			return seq < deleted
		}
	}
	return false
}

// wants says whether to keep the version. It counts the versions that it refuses.
func (r *retention) wants(v *item.Version) bool {
	first, newer := r.first, r.newer
	r.first, r.newer = false, v.Seq
	if r.isWhole {
		r.whole = append(r.whole, v.Seq)
	}
	if v.Seq > r.above && (first || v.Seq != newer) {
		return true
	}
	for _, at := range r.at {
		if v.Seq > at {
			break // v is newer than the remaining sequences, too
		}
		if !first && at >= newer {
			continue // this reader sees the newer version
		}
		if len(r.whole) > 0 && r.deletedAt(at, v.Seq) {
			continue
		}
		// A tombstone or expired version that every reader sees hides nothing if no
		// older version exists.
		if !r.hides && r.gone(v) && v.Seq <= r.at[len(r.at)-1] {
			r.expired = r.expired || !v.Deleted()
			break
		}
		return true
	}
	r.dropped++
	r.told = max(r.told, r.toldBy(v, newer, first))
	return false
}

// toldBy returns the sequence of a change, at or below the floor: a feed that has
// passed this change does not need the dropped version v. It is the change that
// overwrites v, which the feed tells together with v, or that deletes v; else v
// itself.
func (r *retention) toldBy(v *item.Version, newer uint64, first bool) uint64 {
	if !first && v.Seq == newer {
		return 0 // a duplicate: replay has flushed v twice
	}
	if !first && newer <= r.above {
		return newer
	}
	for _, deleted := range r.whole {
		if deleted <= r.above {
			return max(deleted, v.Seq)
		}
	}
	return v.Seq
}

// gone says whether v is a tombstone or has expired by r.purge. In a container that
// keeps changes an expired document stays until its tombstone is written (expire.go). If
// another default could bring it back, so do its claims, which get tombstones along with it.
func (r *retention) gone(v *item.Version) bool {
	return v.Deleted() || r.purge.Gone(v) && (r.above == MaxSequence || !v.IsDocument() && !r.follows)
}

// retention returns what a flush or compaction that begins now must keep. A reader that
// begins later reads at a sequence above all versions that the flush or compaction sees.
func (t *Tree) retention(oldest bool) retention {
	live := t.Env.Pins.Live()
	r := retention{at: append([]uint64{MaxSequence}, live...), readers: pins.SampleOf(live), oldest: oldest, above: t.Family.ChangeFloor()}
	if r.above != MaxSequence {
		r.at = append(r.at, r.above)
		slices.Sort(r.at)
		slices.Reverse(r.at)
	}
	r.changes, r.follows = t.Life.Changes(), t.Life.Follows()
	if r.purge = t.Purgeable(); r.purge != (lifetime.Past{}) {
		// A reader that has run for long may go by a time before the item expired.
		r.purge = r.purge.At(min(r.purge.Expired, t.Env.Pins.Earliest(t.Env.Clock())))
	}
	return r
}

// outdated says that the default time to live has changed since, and that expired versions
// were dropped by the one before. install is locked.
func (r *retention) outdated(t *Tree) bool { return r.expired && r.changes != t.Life.Changes() }

// raiseChangeFloor raises the partition's ChangeFloor to keep.told, before the files
// that lack the dropped versions are shown. install is locked. keep.told is never
// above the partition's newest version: a feed that has seen all versions can go on
// after a pause of any length.
func (t *Tree) raiseChangeFloor(keep *retention) {
	if keep.above != MaxSequence {
		t.ChangeFloor.Store(max(t.ChangeFloor.Load(), keep.told))
	}
}
