package engine

import (
	"context"
	"errors"

	"github.com/cleavestore/cleave/internal/expiry"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/physical"
	"github.com/cleavestore/cleave/internal/writebatch"
)

// A feed of all versions shows that an item has expired. An expiry is no write and
// has no sequence, so the engine makes it a write: in a container that keeps
// changes, the expirer writes a tombstone for an item that has been expired for the
// grace period, by the clock of compactions. A client cannot delete an expired item, so
// a tombstone right above an expired version means that it expired. If the item is
// written before the expirer comes to it, there is no tombstone, and the feed shows
// that write only.

// tellsExpiry says whether some container keeps changes and has items that expire.
func (db *DB) tellsExpiry() bool {
	for c := range db.containers.Load().Values() {
		if c.tellsExpiry() {
			return true
		}
	}
	return false
}

func (c *Container) tellsExpiry() bool { return c.def.ChangeRetention > 0 && c.life.Default() != 0 }

func (db *DB) expire() {
	for db.work.Sleep(db.expiryWanted, 0) {
		if db.failure.Load() != nil {
			return
		}
		if err := db.expireItems(db.work.Context()); err != nil && db.work.Context().Err() == nil {
			db.backgroundError("expire items", err)
		}
	}
}

// expireItems makes a pass over each partition that is due. An error holds up no other.
func (db *DB) expireItems(ctx context.Context) (failed error) {
	for _, p := range db.partitions() {
		start, changes, purge := db.opts.elapsed(), p.c.life.Changes(), p.removable()
		// An unfinished copy takes no writes, nor does a container that was copied.
		if !p.c.tellsExpiry() || !p.c.takes(fromCaller) || p.Dropped.Load() || purge == (lifetime.Past{}) {
			continue
		}
		seen := p.Visible.Load()
		if !p.expiry.Due(start, seen, purge.Expired, changes) {
			continue
		}
		job := p.Job("expiry")
		sweep := expiry.Sweep{Life: &p.c.life, ReadError: p.db.readError, Write: func(ctx context.Context, gone []expiry.Item) error {
			return p.writeExpired(ctx, gone, changes)
		}}
		left, err := sweep.Run(job.Start(ctx), &p.Tree, purge)
		job.End()
		if errors.Is(err, lsm.ErrMoved) || errors.Is(err, ErrClosed) || errors.Is(err, ErrCopied) || errors.Is(err, errDefaultChanged) {
			continue
		}
		if err != nil {
			failed = errors.Join(failed, err)
			seen, left = 0, 0 // unknown: the next pass must look again
		}
		failed = errors.Join(failed, sweep.Passed)
		p.expiry = expiry.Ended(start, db.opts.elapsed()-start, seen, left, changes)
	}
	return failed
}

// errDefaultChanged ends a pass in whose time the default time to live was changed: what was changed
// back may be changed again, and is not removed before the grace period is over.
var errDefaultChanged = errors.New("the default time to live was changed")

// writeExpired writes the tombstones, and shows them together. changes counts those of the default
// time to live by which the items have expired.
func (p *partition) writeExpired(ctx context.Context, gone []expiry.Item, changes uint64) error {
	r := requests.Get().(*request)
	defer r.release()
	var failed error
	var newest physical.Record
	for i := range gone {
		if p.c.life.Changes() != changes {
			failed = errDefaultChanged
			break
		}
		w, err := p.writeTombstone(ctx, r, &gone[i])
		if errors.Is(err, ErrPrecondition) {
			continue // the item was written meanwhile
		}
		if failed = err; err != nil {
			break
		}
		newest = w
	}
	if newest.Seq == 0 {
		return failed
	}
	return errors.Join(p.Show(newest), failed)
}

// writeTombstone writes the tombstone of an item, if its version is still there. Compactions keep
// expired claims where another default time to live could bring their item back. This ends
// with the tombstone, so those go with it that the item still has, in the same record: a crash
// leaves all of them or none.
func (p *partition) writeTombstone(ctx context.Context, r *request, gone *expiry.Item) (physical.Record, error) {
	r.setTombstone(gone.Key.PK, gone.Key.ID)
	if p.c.unique != nil && p.c.life.Follows() {
		b := batches.Get().(*Batch)
		defer b.release()
		b.bind(p.c, keyOf(string(r.key.PK)), &r.epk)
		if err := b.writes.Add(writebatch.Op{Verb: writebatch.Expire, IfMatch: gone.Seq}, r.key.ID, nil); err != nil {
			return physical.Record{}, err
		}
		u := newCommit(b, false)
		u.Link()
		return p.applyBatch(ctx, &u)
	}
	if p.c.life.Follows() {
		r.ttl = lifetime.Ever // the mark of lifetime.Tombstone
	}
	r.precondition, r.ifMatch, r.sync = writebatch.Stale, gone.Seq, false
	return p.apply(ctx, r)
}
