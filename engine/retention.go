package engine

import (
	"slices"

	"github.com/cleavestore/cleave/internal/item"
)

// retention decides which versions of a key a flush or merge keeps: the newest
// one at or below each sequence at which somebody reads, and the present one. A
// container that keeps changes keeps all above a floor, and the newest at or
// below it. Versions are shown to it newest first.
type retention struct {
	at      []uint64     // sequences at which somebody reads, falling; the first is the top
	oldest  bool         // nothing older exists: tombstones hide nothing
	aside   []*bounds    // with oldest, where something older exists that is damaged
	hides   bool         // there may be something older of the key
	purge   int64        // what expired up to then is as if it were deleted
	above   uint64       // all versions above it stay; maxSequence: none do
	readers heldBy       // who reads
	newer   uint64       // sequence of the version shown before, of the same key
	first   bool         // no version of the key was shown
	whole   []uint64     // sequences of the tombstones of the key's logical partition, falling
	of      item.KeyCopy // which logical partition, if there are any
	isWhole bool         // it is their key that is shown
	dropped int64
	told    uint64 // the highest sequence of what overwrote, deleted or is a version that was dropped
}

// retention returns what must be kept from now on. Whoever begins to read
// later does so at a sequence above all that a flush or merge sees.
func (p *partition) retention(oldest bool) retention {
	db := p.db
	live := db.pins.live()
	r := retention{at: append([]uint64{maxSequence}, live...), readers: heldBy(live).thinned(), oldest: oldest, above: p.c.changeFloor()}
	if r.above != maxSequence {
		r.at = append(r.at, r.above)
		slices.Sort(r.at)
		slices.Reverse(r.at)
	}
	r.purge = p.purgeable()
	if r.purge != 0 {
		// Whoever reads for long may have begun before that expired.
		r.purge = min(r.purge, db.pins.earliest(db.opts.clock()))
	}
	return r
}

// changeFloor returns the sequence above which the container keeps all
// versions; maxSequence: it keeps none.
func (c *Container) changeFloor() uint64 {
	if c.def.ChangeRetention == 0 {
		return maxSequence
	}
	return c.db.floor(c.def.ChangeRetention)
}

// raiseChangeFloor notes up to where versions go with the files that are about
// to be shown. install is locked. That is no farther than the partition has versions:
// who has seen them all misses nothing, however long ago that was.
func (p *partition) raiseChangeFloor(keep *retention) {
	if keep.above != maxSequence {
		p.changeFloor.Store(max(p.changeFloor.Load(), keep.told))
	}
}

// floor returns the sequence above which all versions stay, 0 if the container
// keeps no changes.
func (r *retention) floor() uint64 {
	if r.above == maxSequence {
		return 0
	}
	return r.above
}

// nextKey says that another key follows. Keys come in order.
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

// deletedAt says whether somebody who reads at a sequence does not see a version
// because its logical partition was deleted since.
func (r *retention) deletedAt(at, seq uint64) bool {
	for _, deleted := range r.whole {
		if deleted <= at {
			return seq < deleted
		}
	}
	return false
}

// wants says whether to keep the version; what it refuses is counted.
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
			break // and above all that follow
		}
		if !first && at >= newer {
			continue // this reader sees the newer version
		}
		if len(r.whole) > 0 && r.deletedAt(at, v.Seq) {
			continue
		}
		// A tombstone, or what has expired, that every reader sees, with nothing older below it,
		// hides nothing.
		if !r.hides && r.gone(v) && v.Seq <= r.at[len(r.at)-1] {
			break
		}
		return true
	}
	r.dropped++
	r.told = max(r.told, r.toldBy(v, newer, first))
	return false
}

// toldBy returns the sequence of the change, at or below the floor, behind which a
// feed needs the version no more that is dropped: that which overwrites it, and is
// told with what was there before, or deletes it; else its own.
func (r *retention) toldBy(v *item.Version, newer uint64, first bool) uint64 {
	if !first && v.Seq == newer {
		return 0 // there twice
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

// gone says whether nobody sees the version any more. In a container that keeps
// changes an item that has expired stays until its tombstone is written: see
// expire.go.
func (r *retention) gone(v *item.Version) bool {
	expired := v.Expires != 0 && v.Expires <= r.purge
	return v.Deleted() || expired && (r.above == maxSequence || !v.IsDocument())
}

// passed returns which part of a run's versions a floor has passed since it was
// written, from 0 to 1.
func (r *run) passed(floor uint64) float64 {
	low, high := uint64(maxSequence), uint64(0)
	for _, f := range r.files {
		p := f.Properties()
		low, high = min(low, p.MinSeq), max(high, p.MaxSeq)
	}
	low = max(low, r.keptAbove)
	switch {
	case floor <= low:
		return 0
	case floor >= high:
		return 1
	}
	return float64(floor-low) / float64(high-low)
}

// older counts versions that follow a newer one of their key in a file.
func (r *run) older() (n float64) {
	for _, f := range r.files {
		n += f.part(f.Properties().Items - f.Properties().Keys)
	}
	return n
}
