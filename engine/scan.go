package engine

import (
	"bytes"
	"context"
	"iter"
	"time"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/partmap"
)

// ScanOptions are the options of a scan. Nil means none.
type ScanOptions struct {
	Limit   int  // items at most; 0: all
	Reverse bool // from the end
}

// A scan sees one commit point, taken when its loop begins. It copies a batch
// of items inside an epoch guard and hands them out outside of it, so that a
// slow loop holds neither memtables nor files, only the versions that its
// sequence can see. Each batch begins after the last key of the one before, in
// whatever version of the partition is then the newest.
const (
	scanBatchItems = 256
	scanBatchBytes = 128 << 10
)

// Scan returns the items of one logical partition in the order of their ids by
// bytes, beginning at the id from, or at the first (with Reverse the last) if
// from is empty. Items are safe to keep. At most one error comes, as the last
// pair. It may be ranged over more than once; each time it reads anew.
func (c *Container) Scan(ctx context.Context, pk PartitionKey, from string, o *ScanOptions) iter.Seq2[Item, error] {
	return c.scanKey(ctx, pk, from, o, nil)
}

// Scan is Container.Scan as of the snapshot.
func (s *Snapshot) Scan(ctx context.Context, pk PartitionKey, from string, o *ScanOptions) iter.Seq2[Item, error] {
	return s.c.scanKey(ctx, pk, from, o, s)
}

// ScanAll returns the items of the container in key-space order: by EPK, then
// key, then id. Each physical partition is seen at one commit point, taken
// when the scan reaches it; use a Snapshot for one of all.
func (c *Container) ScanAll(ctx context.Context, o *ScanOptions) iter.Seq2[Item, error] {
	return c.scanAll(ctx, o, nil)
}

// ScanAll is Container.ScanAll with all partitions as of the snapshot.
func (s *Snapshot) ScanAll(ctx context.Context, o *ScanOptions) iter.Seq2[Item, error] {
	return s.c.scanAll(ctx, o, s)
}

func (c *Container) scanKey(ctx context.Context, pk PartitionKey, from string, o *ScanOptions, s *Snapshot) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		if err := c.checkPartitionKey(pk); err != nil {
			yield(Item{}, err)
			return
		}
		sc := scanner{c: c, ctx: ctx, snapshot: s, pk: pk, onlyKey: true}
		sc.init(o)
		var epk partmap.EPK
		fillKey(&sc.bound, &epk, pk.Encoded(), bytesOf(from))
		sc.bounded = true
		sc.inclusive = true
		if sc.reverse && from == "" {
			sc.bound.ID = afterAllIDs
		}
		rt := c.routing.Load()
		sc.run(rt.parts[rt.table.Find(&epk)], yield)
	}
}

func (c *Container) scanAll(ctx context.Context, o *ScanOptions, s *Snapshot) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		sc := scanner{c: c, ctx: ctx, snapshot: s}
		sc.init(o)
		parts := c.routing.Load().parts
		for i := range parts {
			p := parts[i]
			if sc.reverse {
				p = parts[len(parts)-1-i]
			}
			sc.bounded = false
			if !sc.run(p, yield) {
				return
			}
		}
	}
}

// afterAllIDs sorts after every id: it is longer than an id can be.
var afterAllIDs = bytes.Repeat([]byte{0xFF}, item.MaxID+1)

// scanner is a scan under way.
type scanner struct {
	c        *Container
	ctx      context.Context
	snapshot *Snapshot
	pk       PartitionKey // of the results, if onlyKey
	onlyKey  bool
	reverse  bool
	left     int // items still wanted

	bound     item.Key // where the next batch begins, if bounded
	bounded   bool
	inclusive bool

	cursors mergedCursor
	batch   []Item
}

func (s *scanner) init(o *ScanOptions) {
	s.left = int(^uint(0) >> 1)
	if o != nil {
		s.reverse = o.Reverse
		if o.Limit > 0 {
			s.left = o.Limit
		}
	}
}

// run scans one physical partition; false means the loop is over.
func (s *scanner) run(p *partition, yield func(Item, error) bool) bool {
	db := s.c.db
	var at uint64
	if s.snapshot != nil {
		at = s.snapshot.seq
	} else {
		at = db.pins.take(p.visible.Load, db.opts.clock())
		defer db.pins.release(at)
	}
	for s.left > 0 {
		more, err := s.fill(p, at)
		if err != nil {
			yield(Item{}, err)
			return false
		}
		for i := range s.batch {
			s.left--
			if !yield(s.batch[i], nil) {
				return false
			}
		}
		if !more {
			return s.left > 0
		}
	}
	return false
}

// fill reads the next batch. more says that the partition may hold more.
func (s *scanner) fill(p *partition, at uint64) (more bool, err error) {
	call, err := s.c.enter(s.ctx)
	if err != nil {
		return false, err
	}
	defer call.Leave()
	if s.snapshot != nil {
		if err := s.snapshot.check(); err != nil {
			return false, err
		}
	}
	db := s.c.db
	guard := db.epoch.Enter()
	defer guard.Leave()
	s.batch = s.batch[:0]
	s.cursors.open(p.version.Load(), at, s.reverse)
	s.seek()
	now := db.nowMillis()
	slab := make([]byte, 0, min(scanBatchBytes, 4<<10))
	size := 0
	for s.cursors.valid() {
		k, v := s.cursors.top()
		if s.onlyKey && item.ComparePartition(k, &s.bound) != 0 {
			return false, nil
		}
		if visible(v, now) {
			slab = s.take(slab, k, v)
			size += len(v.Body)
			if len(s.batch) == s.left || len(s.batch) == scanBatchItems || size >= scanBatchBytes {
				s.bound, s.bounded, s.inclusive = k.Clone(), true, false
				return true, nil
			}
		}
		s.cursors.next()
	}
	if err := s.cursors.err(); err != nil {
		return false, db.readError(err)
	}
	return false, nil
}

// seek puts the cursors at the first item of the next batch.
func (s *scanner) seek() {
	if !s.bounded {
		s.cursors.start()
		return
	}
	s.cursors.seek(&s.bound, s.inclusive)
}

// take adds an item to the batch, its bytes to a slab that the batch's items
// share.
func (s *scanner) take(slab []byte, k *item.Key, v *item.Version) []byte {
	need := len(k.ID) + len(v.Body)
	if !s.onlyKey {
		need += len(k.PK)
	}
	if cap(slab)-len(slab) < need {
		slab = make([]byte, 0, max(need, min(2*cap(slab), scanBatchBytes)))
	}
	n := len(slab)
	slab = append(slab, v.Body...)
	body := slab[n:len(slab):len(slab)]
	n = len(slab)
	slab = append(slab, k.ID...)
	id := stringOf(slab[n:])
	pk := s.pk
	if !s.onlyKey {
		n = len(slab)
		slab = append(slab, k.PK...)
		pk = keyOf(stringOf(slab[n:]))
	}
	s.batch = append(s.batch, Item{
		Meta: Meta{Key: pk, ID: id, ETag: ETag(v.Seq), Seq: v.Seq, Modified: time.UnixMilli(v.Modified)},
		Body: body,
	})
	return slab
}
