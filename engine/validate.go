package engine

import (
	"bytes"
	"context"
	"errors"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lsm"
)

// A transaction commits if its logical partition was not deleted, and no item that it
// wrote has a version above the sequence at which it read. If it is serializable, no
// item that it read, or that lies in a range that it scanned, may have one either.
// Versions that are not published yet count too: their writers come before it in the
// order.
//
// The check is first made without a lock, in memtables and files that can hold such a
// version, and then in memory under the commit lock. The transaction pins its sequence,
// which keeps every version that would tell of a change.

// errChanged says that a transaction met a conflict.
var errChanged = errors.New("changed since the transaction began")

// conflict counts a conflict. It returns the newest record of the partition: once that is
// shown, the next try of the transaction reads the version that it conflicts with.
func (p *partition) conflict() record {
	p.db.counters.conflicts.Add(1)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.newestLocked()
}

// validate returns errChanged if a version of the partition conflicts with the
// transaction. The caller is inside a guard.
func (tx *Tx) validate(ctx context.Context, p *partition, v *lsm.Version, u *commit) error {
	at := tx.snapshot.seq
	if v.HasPartitionTombstones() {
		whole := u.key(nil)
		if seq, err := v.PartitionTombstone(&whole, lsm.MaxSequence); err != nil {
			return p.db.readError(err)
		} else if seq > at {
			return errChanged
		}
	}
	for i := range u.ops {
		if err := tx.unchanged(p, v, u.ops[i].id()); err != nil {
			return err
		}
	}
	if !tx.update.serializable {
		return nil
	}
	for id := range tx.update.seen {
		if err := tx.unchanged(p, v, bytesOf(id)); err != nil {
			return err
		}
	}
	for _, r := range tx.update.ranges {
		if u.changedInMemory(v, r, at) {
			return errChanged
		}
		changed, err := u.changedInFiles(ctx, v, r, at)
		if err != nil {
			return p.db.readError(err)
		}
		if changed {
			return errChanged
		}
	}
	return nil
}

// unchanged returns errChanged if an item has a version that the transaction does
// not see.
func (tx *Tx) unchanged(p *partition, v *lsm.Version, id []byte) error {
	at := tx.snapshot.seq
	key := tx.update.key(id)
	var newest item.Version
	l := key.Lookup()
	if v.NewestInMemory(l, at, &newest) {
		return errChanged
	}
	for _, r := range v.Runs {
		f := r.Find(&tx.update.epk)
		if f == nil || f.Properties().MaxSeq <= at {
			continue
		}
		found, err := f.Head(l, lsm.MaxSequence, &newest)
		if err != nil {
			return p.db.readError(f.Renamed(err))
		}
		if found && newest.Seq > at {
			return errChanged
		}
	}
	return nil
}

// rangesAgain is how often ranges are looked up again without the commit lock while
// writes keep coming. After that they are looked up under it.
const rangesAgain = 3

// validateLocked checks the memtables again if the partition was written to since
// validate. The commit lock is held.
func (tx *Tx) validateLocked(p *partition, v *lsm.Version, u *commit) error {
	if p.mu.lastSeq <= u.ahead {
		return nil // nothing was written since
	}
	if len(tx.update.ranges) > 0 && u.again < rangesAgain {
		u.again++
		return errFilesChanged
	}
	var newest item.Version
	at := tx.snapshot.seq
	if whole := u.key(nil); v.NewestInMemory(whole.Lookup(), at, &newest) {
		return errChanged
	}
	for i := range u.ops {
		key := u.key(u.ops[i].id())
		if v.NewestInMemory(key.Lookup(), at, &newest) {
			return errChanged
		}
	}
	if !tx.update.serializable {
		return nil
	}
	for id := range tx.update.seen {
		key := u.key(bytesOf(id))
		if v.NewestInMemory(key.Lookup(), at, &newest) {
			return errChanged
		}
	}
	for _, r := range tx.update.ranges {
		if u.changedInMemory(v, r, at) {
			return errChanged
		}
	}
	return nil
}

// changedInMemory says whether a memtable holds a version above at in a range of
// ids.
func (b *Batch) changedInMemory(v *lsm.Version, r idRange, at uint64) bool {
	for i := -1; i < len(v.Frozen); i++ {
		table := v.Active
		if i >= 0 {
			table = v.Frozen[i].Table
		}
		if table.MaxSeq() <= at {
			continue
		}
		changed, _ := b.changedIn(context.Background(), table.Cursor(lsm.MaxSequence), r, at)
		if changed {
			return true
		}
	}
	return false
}

// changedInFiles is changedInMemory for files.
func (b *Batch) changedInFiles(ctx context.Context, v *lsm.Version, r idRange, at uint64) (bool, error) {
	for _, run := range v.Runs {
		f := run.Find(&b.epk)
		if f == nil || f.Properties().MaxSeq <= at {
			continue
		}
		c := f.Cursor(lsm.MaxSequence)
		changed, err := b.changedIn(ctx, c, r, at)
		if err == nil {
			err = c.Err()
		}
		if changed || err != nil {
			return changed, f.Renamed(err)
		}
	}
	return false, nil
}

// changedIn is changedInMemory for the versions that a cursor yields.
func (b *Batch) changedIn(ctx context.Context, c lsm.Positioner, r idRange, at uint64) (bool, error) {
	first := b.key(bytesOf(r.from))
	for ok := c.SeekGE(&first); ok; ok = c.Next() {
		key := c.Key()
		if !item.SamePartition(key, &first) || r.to != "" && bytes.Compare(key.ID, bytesOf(r.to)) > 0 {
			break
		}
		if c.Version().Seq > at {
			return true, nil
		}
		if err := ctx.Err(); err != nil {
			return false, err
		}
	}
	return false, nil
}
