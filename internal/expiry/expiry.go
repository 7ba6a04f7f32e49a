// Package expiry finds the items whose time to live is over, and says when their space
// may be given back.
//
// An item expires when its time to live has passed since it was written. Readers pass over
// it from then on. Its space comes back after a grace period: then a compaction that takes
// in the oldest run drops it, as it would drop a tombstone. In a container that keeps
// changes the engine writes a tombstone for the item before that, so that a change feed
// shows the end of the item. A Scan, which passes over all items of a partition, finds the
// items that have expired.
//
// Invariants:
//
//  1. Two clocks must agree that the grace period is over: the system's clock, and the
//     time of the opening plus the time since, which no jump of the system's clock moves.
//     Nothing is dropped before the store has been open for the grace period. So a wrong
//     clock hides items, but does not lose them if it is set right in time.
//  2. A pass that was carried through has met every item that had expired when it began,
//     except for those written meanwhile: the next pass meets them. It has left out
//     the part of the key space of a damaged file that it has passed.
//  3. Passes over a partition take about a twentieth of the time.
//
// The package has no locks. A Scan reads the tree a batch at a time, each inside an epoch
// guard.
package expiry

import (
	"cmp"
	"context"
	"time"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/lsm"
)

// Purgeable returns a time stamp: what had expired at or before it may be dropped. 0:
// nothing may. The store was opened at opened, and has been open for open.
func Purgeable(opened, now time.Time, open, grace time.Duration) int64 {
	if open < grace {
		return 0
	}
	return min(opened.Add(open).UnixMilli(), now.UnixMilli()) - grace.Milliseconds()
}

const (
	share     = 20 // passes rest for so many times the time that the last one took
	leastRest = time.Second
)

// Pass describes the last pass over a partition. The zero Pass: there was none.
type Pass struct {
	again time.Duration // earliest time of the next pass, since the store was opened
	seq   uint64        // newest visible sequence of the pass
	next  int64         // earliest expiry of the items that were left, milliseconds; 0: none expires
	// changes counts those of the default time to live when the pass began: next depends on it.
	changes uint64
}

// Due says whether a pass may find something: at the time open since the opening of the
// store, with the newest visible sequence seq, for what had expired by purge. changes counts those
// of the default time to live.
func (p *Pass) Due(open time.Duration, seq uint64, purge int64, changes uint64) bool {
	if open < p.again {
		return false
	}
	// Nothing was written since the last pass, and nothing more has expired?
	return seq != p.seq || changes != p.changes || p.next != 0 && p.next <= purge
}

// Ended returns a pass that began at open and took so long. It has seen all up to seq, and
// left items the first of which expires at next, where changes were made. An error leaves unknown what it has seen:
// then seq and next are 0, and the next pass looks again.
func Ended(open, took time.Duration, seq uint64, next int64, changes uint64) Pass {
	return Pass{again: open + took + max(leastRest, share*took), seq: seq, next: next, changes: changes}
}

const (
	batch = 256     // items that are returned together
	steps = 4 << 10 // items read in one epoch guard
)

// Item is one that has expired.
type Item struct {
	Key item.Key
	Seq uint64 // of its newest version
}

// Sweep is what a pass over a partition does with the items that have expired.
type Sweep struct {
	Life      *lifetime.Life                               // of the container
	Write     func(ctx context.Context, gone []Item) error // removes items
	ReadError func(error) error                            // is told of an error of reading, and returns it

	Passed error // the first damage that Run has passed; nil: none
}

// Run removes the items that have expired by past. It returns the earliest expiry of the others
// under the present default, 0 if none expires. The error is lsm.ErrMoved if the partition was
// dropped.
func (s *Sweep) Run(ctx context.Context, t *lsm.Tree, past lifetime.Past) (left int64, err error) {
	scan := Scan{Life: s.Life}
	for more := true; more && err == nil; {
		var gone []Item
		if gone, more, err = scan.Next(ctx, t, past); err == lsm.ErrMoved {
			return 0, err
		} else if err != nil {
			return 0, s.ReadError(err)
		}
		if err = s.Write(ctx, gone); err == nil {
			err = ctx.Err()
		}
	}
	if scan.failed != nil {
		s.Passed = s.ReadError(scan.failed)
	}
	return scan.Left, err
}

// Scan goes over all items of a tree. The zero Scan is at the first one.
type Scan struct {
	// Left is the earliest expiry of the items that it passed and that had not expired; 0:
	// none expires.
	Left int64
	// Life is that of the container.
	Life *lifetime.Life

	from   item.KeyCopy // the last item that it read
	begun  bool
	failed error // the first damage that it has passed; nil: none
}

// Next returns the next items that have expired. more says that there may be more
// of them. The error is lsm.ErrMoved if the partition was dropped.
func (s *Scan) Next(ctx context.Context, t *lsm.Tree, past lifetime.Past) (gone []Item, more bool, err error) {
	guard := t.Env.Epoch.Enter()
	defer guard.Leave()
	at := t.Visible.Load()
	v := t.Version.Load()
	if t.Dropped.Load() {
		return nil, false, lsm.ErrMoved // v may be empty
	}
	var m lsm.Cursor
	m.Open(v, at, false)
	m.Ctx = ctx
	defer m.Close()
	if s.begun {
		m.Seek(&s.from.Key, false)
	} else {
		m.Start()
	}
	s.begun = true
	for passed := 0; m.Valid(); m.Next() {
		k, ver := m.Top()
		if passed++; passed == steps || len(gone) == batch {
			return gone, true, nil
		}
		s.from.Set(k)
		if !ver.IsDocument() {
			continue // compactions drop an expired claim
		}
		if past.Gone(ver) {
			gone = append(gone, Item{k.Clone(), ver.Seq})
		} else if at := s.Life.Expires(ver.Modified, ver.Expires); at != 0 && (s.Left == 0 || at < s.Left) {
			s.Left = at
		}
	}
	if err = m.Err(); !lsm.Unreadable(err) || !s.pass(v, t.Family.Levels) {
		return gone, false, err
	}
	s.failed = cmp.Or(s.failed, err)
	return gone, true, nil
}

// pass moves behind the next damaged file: within it, items may have newer versions that cannot be
// read. It returns false if there is none.
func (s *Scan) pass(v *lsm.Version, levels int) bool {
	var to *item.Key
	for f := range v.Files() {
		end := &f.Bounds(levels).Hi
		if f.Damage.Load() != nil && item.Compare(&s.from.Key, end) < 0 && (to == nil || item.Compare(end, to) < 0) {
			to = end
		}
	}
	if to != nil {
		s.from.Set(to)
	}
	return to != nil
}
