// Package kept decides which versions of a key a flush or compaction keeps: the newest one at or
// below each sequence at which a reader reads, and the present one. A container that keeps changes
// keeps all above a floor, and the newest at or below it. All others are dropped.
//
// # Invariants
//
//  1. A reader at a sequence of Rule.At finds the same items among the kept versions as among all.
//  2. If Floor is not 0, each version above it is kept, but not twice.
//  3. A feed that has shown all up to Rule.Told, and what came later, misses no dropped version.
package kept

import (
	"slices"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/keybounds"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/pins"
)

// Rule decides for one flush or compaction. It is shown keys in order, and the versions of each
// newest first. It belongs to one goroutine.
type Rule struct {
	At      []uint64            // sequences at which readers read, falling; the first is pins.Newest
	Above   uint64              // all versions above it stay; pins.Newest: no changes are kept
	Oldest  bool                // no older versions exist: tombstones hide nothing
	Aside   []*keybounds.Bounds // with Oldest: bounds of older files that are set aside as damaged
	Purge   lifetime.Past       // items that have expired by it count as deleted
	Follows bool                // the default time to live can be changed

	Expired bool   // a version was dropped that has expired
	Dropped int64  // versions
	Told    uint64 // highest result of toldBy for a dropped version

	hides   bool         // older versions of the present key may exist
	newer   uint64       // sequence of the previous version of the key
	first   bool         // no version of the key was shown yet
	whole   []uint64     // sequences of the tombstones of the key's logical partition, falling
	of      item.KeyCopy // the logical partition of whole, if whole is not empty
	isWhole bool         // the present key is that of a partition tombstone
}

// Floor returns the sequence above which all versions stay, 0 if the container keeps no changes.
func (r *Rule) Floor() uint64 {
	if r.Above == pins.Newest {
		return 0
	}
	return r.Above
}

// NextKey begins the next key. Keys come in order.
func (r *Rule) NextKey(k *item.Key) {
	r.first = true
	r.hides = !r.Oldest || slices.ContainsFunc(r.Aside, func(b *keybounds.Bounds) bool { return b.Holds(k) })
	if r.isWhole = k.OfPartition(); r.isWhole {
		r.whole = r.whole[:0]
		r.of.Set(k)
	} else if len(r.whole) > 0 && !item.SamePartition(k, &r.of.Key) {
		r.whole = r.whole[:0]
	}
}

// deletedAt says whether the version with sequence seq is hidden from a reader at
// sequence at, because its logical partition was deleted in between.
func (r *Rule) deletedAt(at, seq uint64) bool {
	for _, deleted := range r.whole {
		if deleted <= at {
			return seq < deleted
		}
	}
	return false
}

// Wants says whether to keep the version. It counts the versions that it refuses.
func (r *Rule) Wants(v *item.Version) bool {
	first, newer := r.first, r.newer
	r.first, r.newer = false, v.Seq
	if r.isWhole {
		r.whole = append(r.whole, v.Seq)
	}
	if v.Seq > r.Above && (first || v.Seq != newer) {
		return true
	}
	for _, at := range r.At {
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
		if !r.hides && r.gone(v) && v.Seq <= r.At[len(r.At)-1] {
			r.Expired = r.Expired || !v.Deleted()
			break
		}
		return true
	}
	r.Dropped++
	r.Told = max(r.Told, r.toldBy(v, newer, first))
	return false
}

// toldBy returns the sequence of a change, at or below the floor: a feed that has
// passed this change does not need the dropped version v. It is the change that
// overwrites v, which the feed tells together with v, or that deletes v; else v
// itself.
func (r *Rule) toldBy(v *item.Version, newer uint64, first bool) uint64 {
	if !first && v.Seq == newer {
		return 0 // a duplicate: replay has flushed v twice
	}
	if !first && newer <= r.Above {
		return newer
	}
	for _, deleted := range r.whole {
		if deleted <= r.Above {
			return max(deleted, v.Seq)
		}
	}
	return v.Seq
}

// gone says whether v is a tombstone or has expired by r.Purge. In a container that
// keeps changes an expired document stays until its tombstone is written (package expiry). If
// another default could bring it back, so do its claims, which get tombstones along with it.
func (r *Rule) gone(v *item.Version) bool {
	return v.Deleted() || r.Purge.Gone(v) && (r.Above == pins.Newest || !v.IsDocument() && !r.Follows)
}
