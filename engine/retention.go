package engine

import "github.com/cleavestore/cleave/internal/item"

// retention decides which versions of a key a flush or merge keeps: the newest
// one at or below each sequence at which somebody reads, and the present one.
// Versions are shown to it newest first.
type retention struct {
	at      []uint64     // sequences at which somebody reads, falling; the first is the top
	oldest  bool         // nothing older exists: tombstones hide nothing
	purge   int64        // what expired up to then is as if it were deleted
	newer   uint64       // sequence of the version shown before, of the same key
	first   bool         // no version of the key was shown
	whole   []uint64     // sequences of the tombstones of the key's logical partition, falling
	of      item.KeyCopy // which logical partition, if there are any
	isWhole bool         // it is their key that is shown
	dropped int64
}

// retention returns what must be kept from now on. Whoever begins to read
// later does so at a sequence above all that a flush or merge sees.
func (p *partition) retention(oldest bool) retention {
	db := p.db
	purge := p.purgeable()
	if now := db.opts.clock(); purge != 0 {
		// Whoever reads for long may have begun before that expired.
		_, longest := db.pins.age(now)
		purge = min(purge, now.Add(-longest).UnixMilli())
	}
	return retention{at: append([]uint64{maxSequence}, db.pins.live()...), oldest: oldest, purge: purge}
}

// lowest returns the lowest sequence at which somebody reads, maxSequence if
// nobody does.
func (r *retention) lowest() uint64 { return r.at[len(r.at)-1] }

// nextKey says that another key follows. Keys come in order.
func (r *retention) nextKey(k *item.Key) {
	r.first = true
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
		if r.oldest && (v.Deleted() || v.Expires != 0 && v.Expires <= r.purge) && v.Seq <= r.lowest() {
			break
		}
		return true
	}
	r.dropped++
	return false
}
