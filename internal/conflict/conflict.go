// Package conflict remembers what a transaction has read, and finds the versions with
// which the transaction conflicts: versions of other writers, above the sequence at which
// it reads.
//
// A transaction commits if its logical partition was not deleted, and no item that it
// wrote has such a version. If it is serializable, no item that it read, and none in a
// range that it scanned, may have one either. Versions that are not published yet count
// too: their writers come before the transaction in the order.
//
// The check has two parts. Check reads memtables and files, without a lock. Later, under
// the commit lock, CheckMemory looks at what the memtables got since.
//
// Invariants:
//
//  1. The sequence of the transaction is pinned from its first read until it is committed.
//     So every version that would tell of a change is kept.
//  2. CheckMemory reads no file and does not block.
//  3. A file is read only if it has versions above the sequence of the transaction.
//
// Reads serves one goroutine. There are no locks.
package conflict

import (
	"context"
	"unsafe"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/keybounds"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/partmap"
)

// Sighting is what a transaction knows of an item.
type Sighting struct {
	Seq    uint64
	Exists bool
}

// Writes are the items that a transaction writes.
type Writes interface {
	Len() int
	ItemKey(i int) item.Key
}

// Reads is what a transaction has read of its logical partition. It can be used again
// after Reset.
type Reads struct {
	// Serializable also counts changes of what the transaction read and scanned.
	Serializable bool

	at     uint64
	whole  item.Key // of the logical partition: without an id
	place  *partmap.EPK
	seen   map[string]Sighting // by id
	ids    []byte              // copies of ids in seen that have no other owner
	ranges []item.IDRange      // that were scanned
}

// keptIDs is the largest number of ids for which the memory of Reads is used again.
const keptIDs = 1000

// Reset forgets what was read.
func (r *Reads) Reset() {
	if len(r.seen) > keptIDs {
		r.seen, r.ids = nil, nil
	}
	clear(r.seen)
	clear(r.ranges)
	r.ids, r.ranges, r.whole, r.place = r.ids[:0], r.ranges[:0], item.Key{}, nil
}

// Begin begins a transaction that reads a logical partition at a sequence. whole is the
// key of the partition tombstone, place its EPK; both are borrowed until Reset.
func (r *Reads) Begin(at uint64, whole item.Key, place *partmap.EPK) {
	r.at, r.whole, r.place = at, whole, place
	if r.seen == nil {
		r.seen = make(map[string]Sighting)
	}
}

// At returns the sequence at which the transaction reads.
func (r *Reads) At() uint64 { return r.at }

// Saw notes what was read of an item. The id is kept until Reset.
func (r *Reads) Saw(id string, s Sighting) { r.seen[id] = s }

// Seen returns what was read of an item.
func (r *Reads) Seen(id string) (s Sighting, ok bool) {
	s, ok = r.seen[id]
	return s, ok
}

// Keep returns a copy of an id that lives until Reset.
func (r *Reads) Keep(id []byte) string {
	n := len(r.ids)
	r.ids = append(r.ids, id...) // strings made before stay in the old array
	return unsafe.String(unsafe.SliceData(r.ids[n:]), len(id))
}

// Scanned notes a range of ids that the transaction begins to scan, if that matters. It returns the
// number of the range, for ScannedTo.
func (r *Reads) Scanned(ids item.IDRange) int {
	if r.Serializable {
		r.ranges = append(r.ranges, ids)
	}
	return len(r.ranges) - 1
}

// ScannedTo says that the scan of a range has ended at the item last, which it saw.
func (r *Reads) ScannedTo(n int, last string, reverse bool) {
	switch {
	case !r.Serializable:
	case reverse:
		r.ranges[n].From(last, false)
	default:
		r.ranges[n].To(last, false)
	}
}

// Ranges returns the number of ranges that Check and CheckMemory look at.
func (r *Reads) Ranges() int { return len(r.ranges) }

// Check says whether a version of the partition conflicts with the transaction. The
// caller is inside a guard.
func (r *Reads) Check(ctx context.Context, v *lsm.Version, w Writes) (changed bool, err error) {
	if v.HasPartitionTombstones() {
		seq, readErr := v.PartitionTombstone(&r.whole, lsm.MaxSequence)
		if readErr != nil || seq > r.at {
			return readErr == nil, readErr
		}
	}
	for i := range w.Len() {
		key := w.ItemKey(i)
		if changed, err = r.itemChanged(v, &key); changed || err != nil {
			return changed, err
		}
	}
	if !r.Serializable {
		return false, nil
	}
	for id := range r.seen {
		key := r.key(id)
		if changed, err = r.itemChanged(v, &key); changed || err != nil {
			return changed, err
		}
	}
	for _, ids := range r.ranges {
		if r.rangeChangedInMemory(v, ids) {
			return true, nil
		}
		if changed, err = r.rangeChangedInFiles(ctx, v, ids); changed || err != nil {
			return changed, err
		}
	}
	return false, nil
}

// CheckMemory is Check for the memtables alone. The commit lock is held.
func (r *Reads) CheckMemory(v *lsm.Version, w Writes) (changed bool) {
	if r.inMemory(v, &r.whole) {
		return true
	}
	for i := range w.Len() {
		if key := w.ItemKey(i); r.inMemory(v, &key) {
			return true
		}
	}
	if !r.Serializable {
		return false
	}
	for id := range r.seen {
		if key := r.key(id); r.inMemory(v, &key) {
			return true
		}
	}
	for _, ids := range r.ranges {
		if r.rangeChangedInMemory(v, ids) {
			return true
		}
	}
	return false
}

// key returns the key of an item.
func (r *Reads) key(id string) item.Key {
	key := r.whole
	key.ID = unsafe.Slice(unsafe.StringData(id), len(id))
	return key
}

// inMemory says whether the memtables have a version of an item that the transaction does
// not see.
func (r *Reads) inMemory(v *lsm.Version, key *item.Key) bool {
	var newest item.Version
	return v.NewestInMemory(key.Lookup(), r.at, &newest)
}

// itemChanged says whether an item has a version that the transaction does not see.
func (r *Reads) itemChanged(v *lsm.Version, key *item.Key) (bool, error) {
	if r.inMemory(v, key) {
		return true, nil
	}
	var newest item.Version
	for _, run := range v.Runs {
		f := run.Find(r.place)
		if f == nil || f.Properties().MaxSeq <= r.at {
			continue
		}
		found, err := f.Head(key.Lookup(), lsm.MaxSequence, &newest)
		if err != nil {
			return false, f.Renamed(err)
		}
		if found && newest.Seq > r.at {
			return true, nil
		}
	}
	return false, nil
}

// rangeChangedInMemory says whether a memtable holds a version in a range of ids that the
// transaction does not see.
func (r *Reads) rangeChangedInMemory(v *lsm.Version, ids item.IDRange) bool {
	for i := -1; i < len(v.Frozen); i++ {
		table := v.Active
		if i >= 0 {
			table = v.Frozen[i].Table
		}
		if table.MaxSeq() <= r.at {
			continue
		}
		if changed, _ := r.changedIn(context.Background(), table.Cursor(lsm.MaxSequence), ids); changed {
			return true
		}
	}
	return false
}

// rangeChangedInFiles is rangeChangedInMemory for files.
func (r *Reads) rangeChangedInFiles(ctx context.Context, v *lsm.Version, ids item.IDRange) (bool, error) {
	for _, run := range v.Runs {
		f := run.Find(r.place)
		if f == nil || f.Properties().MaxSeq <= r.at {
			continue
		}
		c := f.Cursor(lsm.MaxSequence)
		changed, err := r.changedIn(ctx, c, ids)
		if err == nil {
			err = c.Err()
		}
		if changed || err != nil {
			return changed, f.Renamed(err)
		}
	}
	return false, nil
}

// changedIn is rangeChangedInMemory for the versions that a cursor yields.
func (r *Reads) changedIn(ctx context.Context, c keybounds.Positioner, ids item.IDRange) (bool, error) {
	first := r.key(ids.Lo)
	for ok := c.SeekGE(&first); ok; ok = c.Next() {
		key := c.Key()
		if !item.SamePartition(key, &first) || ids.After(key.ID) {
			break
		}
		if c.Version().Seq > r.at && !ids.Before(key.ID) {
			return true, nil
		}
		if err := ctx.Err(); err != nil {
			return false, err
		}
	}
	return false, nil
}
