package engine

import (
	"context"
	"errors"
	"time"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lsm"
)

// A feed of all versions shows that an item has expired. An expiry is no write and
// has no sequence, so the engine makes it a write: in a container that keeps
// changes, the expirer writes a tombstone for an item that has been expired for the
// grace period, by the clock of merges. A client cannot delete an expired item, so
// a tombstone right above an expired version means that it expired. If the item is
// written before the expirer comes to it, there is no tombstone, and the feed shows
// that write only.
//
// A pass of the expirer goes over all items of a partition. The expirer rests
// between two passes, so that they take about a twentieth of the time.
const (
	expiryShare = 20
	expiryBatch = 256     // tombstones that are waited for together
	expirySteps = 4 << 10 // items read in one epoch guard
	leastExpiry = time.Second
)

// expiryPass describes the last pass over a partition. Only the expirer uses it.
type expiryPass struct {
	again time.Duration // earliest time of the next pass, since the store was opened
	seq   uint64        // newest visible sequence of the pass
	next  int64         // earliest expiry of the items that were left, milliseconds; 0: none expires
}

// tellsExpiry says whether some container keeps changes and has items that
// expire.
func (db *DB) tellsExpiry() bool {
	for c := range db.containers.Load().all() {
		if c.tellsExpiry() {
			return true
		}
	}
	return false
}

func (c *Container) tellsExpiry() bool { return c.def.ChangeRetention > 0 && c.def.DefaultTTL != 0 }

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

// expireItems makes a pass over each partition that is due. An error in one does
// not hold up the others.
func (db *DB) expireItems(ctx context.Context) (failed error) {
	for _, p := range db.partitions() {
		start := db.opts.elapsed()
		purge := db.purgeable()
		// An unfinished copy takes no writes, nor does a container that was copied.
		if !p.c.tellsExpiry() || p.c.takes(fromCaller) != nil || p.Dropped.Load() || purge == 0 || start < p.expiry.again {
			continue
		}
		seen := p.Visible.Load()
		if seen == p.expiry.seq && (p.expiry.next == 0 || p.expiry.next > purge) {
			continue // nothing was written since the last pass, and nothing more has expired
		}
		next, err := db.expirePartition(ctx, p, purge)
		if errors.Is(err, lsm.ErrMoved) || errors.Is(err, ErrClosed) || errors.Is(err, ErrCopied) {
			continue
		}
		if err != nil {
			failed = errors.Join(failed, err)
			seen, next = 0, 0 // unknown: the next pass must look again
		}
		took := db.opts.elapsed() - start
		p.expiry = expiryPass{again: start + took + max(leastExpiry, expiryShare*took), seq: seen, next: next}
	}
	return failed
}

// expired is an item to write a tombstone for.
type expired struct {
	key item.Key
	seq uint64
}

// expirePartition writes tombstones for the items that had expired by purge. It
// returns the earliest expiry of the other items, 0 if none expires.
func (db *DB) expirePartition(ctx context.Context, p *partition, purge int64) (next int64, err error) {
	var from item.KeyCopy
	begun := false
	for more := true; more; {
		var gone []expired
		if gone, more, err = p.expiredFrom(ctx, &from, begun, purge, &next); err != nil {
			return 0, err
		}
		begun = true
		if err := p.writeExpired(ctx, gone); err != nil {
			return 0, err
		}
		if err := ctx.Err(); err != nil {
			return 0, err
		}
	}
	return next, nil
}

// expiredFrom returns items that had expired by purge. It begins behind the key
// from, or at the first item if begun is false, and moves from to the last item
// that it read. It lowers next to the earliest later expiry. more says that there
// may be more items.
func (p *partition) expiredFrom(ctx context.Context, from *item.KeyCopy, begun bool, purge int64, next *int64) (gone []expired, more bool, err error) {
	guard := p.db.env.Epoch.Enter()
	defer guard.Leave()
	at := p.Visible.Load()
	v := p.Version.Load()
	if p.Dropped.Load() {
		return nil, false, p.gone()
	}
	var m lsm.Cursor
	m.Open(v, at, false)
	m.Ctx = ctx
	defer m.Close()
	if begun {
		m.Seek(&from.Key, false)
	} else {
		m.Start()
	}
	for passed := 0; m.Valid(); m.Next() {
		k, ver := m.Top()
		if passed++; passed == expirySteps || len(gone) == expiryBatch {
			return gone, true, nil
		}
		from.Set(k)
		switch {
		case !ver.IsDocument() || ver.Expires == 0: // merges drop an expired claim
		case ver.Expires <= purge:
			gone = append(gone, expired{k.Clone(), ver.Seq})
		case *next == 0 || ver.Expires < *next:
			*next = ver.Expires
		}
	}
	if err := m.Err(); err != nil {
		return nil, false, p.db.readError(err)
	}
	return gone, false, nil
}

// writeExpired writes the tombstones, and shows them together.
func (p *partition) writeExpired(ctx context.Context, gone []expired) error {
	r := requests.Get().(*request)
	defer r.release()
	var failed error
	var newest record
	for i := range gone {
		r.setTombstone(gone[i].key.PK, gone[i].key.ID)
		r.precondition, r.ifMatch, r.sync = stale, ETag(gone[i].seq), false
		w, err := p.apply(ctx, r)
		if errors.Is(err, ErrPrecondition) {
			continue // the item was written meanwhile
		}
		if failed = err; err != nil {
			break
		}
		newest = w
	}
	if newest.seq == 0 {
		return failed
	}
	return errors.Join(p.show(newest), failed)
}
