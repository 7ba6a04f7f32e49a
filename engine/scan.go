package engine

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/cleavestore/cleave/internal/cost"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/partmap"
)

// ScanOptions are the options of a scan. Nil means none.
type ScanOptions struct {
	Limit   int  // items at most; 0 or less: all
	Reverse bool // from the end
	// Borrow says that the loop keeps nothing of an item: the memory of an item is used
	// again when the loop goes on. Such a scan allocates nothing for each item.
	Borrow bool
	// Charge, if not nil, is increased by what the scan costs, in request units: the
	// cost of all items that were read ahead, and of visits to partitions without any.
	Charge *float64
}

// A scan sees one commit point, taken when its loop begins. It copies a batch of items
// inside an epoch guard and hands them out outside of it. So a slow loop holds neither
// memtables nor files, only the versions that its sequence can see. The next batch goes
// on where the cursors stand if the version of the partition is still the newest.
// Otherwise it opens cursors in the newest version, after the last key of the batch
// before. A batch is small enough for the nearest caches.
const (
	scanBatchItems  = 256
	scanBatchBytes  = 24 << 10
	scanBatchPassed = 4096 // deleted items passed over
	scanBatchTested = 512  // items shown to scanner.accept
)

// Scan returns the items of one logical partition in the order of their ids by
// bytes, beginning at the id from, or at the first (with Reverse the last) if
// from is empty. Items are safe to keep. At most one error comes, as the last
// pair. Each loop shows one commit point, that at which it began.
func (c *Container) Scan(ctx context.Context, pk PartitionKey, from string, o *ScanOptions) iter.Seq2[Item, error] {
	return c.scanKey(ctx, pk, from, o, nil)
}

// Scan is Container.Scan as of the snapshot.
func (s *Snapshot) Scan(ctx context.Context, pk PartitionKey, from string, o *ScanOptions) iter.Seq2[Item, error] {
	return s.c.scanKey(ctx, pk, from, o, s)
}

// ScanAll returns the items of the container in key-space order: by EPK, then key, then
// id. Each physical partition is seen at one commit point, taken when the scan reaches
// it. To see all partitions at one commit point, use a Snapshot.
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
		sc := scanners.Get().(*scanner)
		defer sc.release()
		sc.begin(ctx, c, s, o)
		sc.pk, sc.onlyKey = pk, true
		encoded := pk.Encoded()
		epk := partmap.HashEncoded(encoded)
		first := item.Key{Hash: epk.Head(), EPK: epk.Bytes(), PK: encoded, ID: bytesOf(from)}
		if sc.reverse && from == "" {
			first.ID = afterAllIDs
		}
		sc.bound.Set(&first)
		sc.bounded, sc.inclusive = true, true
		sc.run(partmap.Range{Min: epk, Max: epk}, yield)
	}
}

func (c *Container) scanAll(ctx context.Context, o *ScanOptions, s *Snapshot) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		sc := scanners.Get().(*scanner)
		defer sc.release()
		sc.begin(ctx, c, s, o)
		for rest, more := (partmap.Range{Min: partmap.MinEPK(), Max: partmap.MaxEPK()}), true; more && !rest.Empty(); {
			rest, more = sc.run(rest, yield)
		}
	}
}

// scanner is a scan under way. It is pooled, for its buffers.
type scanner struct {
	c        *Container
	ctx      context.Context
	snapshot *Snapshot
	pk       PartitionKey // of the results, if onlyKey
	onlyKey  bool
	reverse  bool
	borrow   bool
	left     int      // items still wanted
	born     uint64   // installations in the container when the sequence was taken
	now      int64    // milliseconds: items that expire at or before it are gone; 0: the clock at each batch
	begun    bool     // its first batch was read: from now on it waits where it is throttled
	visit    float64  // RU of the visit of the partition, which the next item carries
	charged  *float64 // ScanOptions.Charge
	visited  bool     // with accept: the visit of the first partition is already paid for
	read     float64  // with accept: RU of the items of this batch that were shown to it
	spent    float64  // with accept: RU of all batches

	bound     item.KeyCopy // where the next batch begins, if bounded
	bounded   bool
	inclusive bool
	within    *bounds // bounds of the scan in this partition; nil: the partition's own

	// accept, if set, is called inside of the guard for each item. It says whether the
	// item is a result, and with which body. known says that the item is known to be
	// wanted. The arguments are valid only during the call.
	accept accept
	// candidates, if set, replaces the cursors where indexes allow it.
	candidates *candidates
	// changes says that the results are the items whose newest version is above
	// since, deleted ones included, which have no body.
	changes bool
	since   uint64
	// claims says that claims on unique keys are among the results.
	claims bool

	cursors mergedCursor
	found   []found // the batch, its bytes in text
	text    []byte
}

type accept func(k *item.Key, v *item.Version, known bool) (body []byte, ok bool, err error)

// found is an item of a batch: body, id and, in a scan of a container, the
// partition key lie behind each other.
type found struct {
	seq          uint64
	modified     int64
	expires      int64
	body, id, pk int // lengths
}

var scanners = sync.Pool{New: func() any { return new(scanner) }}

// release gives the scanner back to its pool, with its buffers and nothing else.
func (s *scanner) release() {
	s.cursors.close()
	if s.candidates != nil {
		s.candidates.release()
	}
	kept := scanner{bound: s.bound, cursors: s.cursors, found: s.found[:0], text: s.text[:0]}
	if cap(kept.text) > 2*scanBatchBytes {
		kept.text = nil
	}
	*s = kept
	scanners.Put(s)
}

func (s *scanner) begin(ctx context.Context, c *Container, snapshot *Snapshot, o *ScanOptions) {
	s.ctx, s.c, s.snapshot = ctx, c, snapshot
	s.left = int(^uint(0) >> 1)
	if o != nil {
		s.reverse, s.borrow, s.charged = o.Reverse, o.Borrow, o.Charge
		if o.Limit > 0 {
			s.left = o.Limit
		}
	}
}

// run scans the part of rest that lies in one physical partition, at one commit point:
// the partition in which rest begins, in reverse ends. It returns the remaining range;
// false means that the loop is over. If the partition is replaced meanwhile, the scan
// goes on in its successors, within the same bounds, at the same commit point.
func (s *scanner) run(rest partmap.Range, yield func(Item, error) bool) (partmap.Range, bool) {
	db := s.c.db
	p := s.route(rest)
	var at uint64
	if s.snapshot != nil {
		at, s.born = s.snapshot.cutAt(&p.rng.Min)
	} else {
		at = db.env.pins.take(byScan, p.visible.Load, db.opts.clock())
		for p.dropped.Load() && !s.c.dropped.Load() {
			// The successors may have flushed before the sequence was taken.
			db.env.pins.release(byScan, at)
			p = s.route(rest)
			at = db.env.pins.take(byScan, p.visible.Load, db.opts.clock())
		}
		defer db.env.pins.release(byScan, at)
		s.born = p.born
	}
	part, rest := s.divide(rest, p.rng)
	s.visit = cost.Visit
	s.bounded = s.onlyKey
	return rest, s.runAt(p, part, at, yield)
}

// runAt scans part, which begins, in reverse ends, in p. at is a sequence that the
// caller has pinned. If bounded is set the scan begins at the bound. It returns false if
// the loop is over.
func (s *scanner) runAt(p *partition, part partmap.Range, at uint64, yield func(Item, error) bool) bool {
	for {
		s.limit(p, part)
		s.cursors.close()
		if s.candidates != nil {
			s.candidates.close()
		}
		err := s.batches(p, at, yield)
		if err == errMoved {
			p = s.route(part)
			continue
		}
		if err != nil {
			return false
		}
		if s.left == 0 || s.onlyKey {
			return s.left > 0
		}
		if _, part = s.divide(part, p.rng); part.Empty() {
			return true
		}
		// If p has replaced a larger partition, the scan may have got into part there.
		s.bounded = s.bounded && newBounds(part, s.c.levels()).holds(&s.bound.Key)
		p = s.route(part)
	}
}

// route returns the partition in which a range begins, in reverse ends.
func (s *scanner) route(r partmap.Range) *partition {
	rt := s.c.routing.Load()
	if !s.reverse || s.onlyKey {
		return rt.parts[rt.table.Find(&r.Min)]
	}
	i := rt.table.Find(&r.Max)
	if rt.parts[i].rng.Min.Compare(&r.Max) >= 0 {
		i-- // the end does not belong to the range
	}
	return rt.parts[i]
}

// divide splits r: first is the part that comes first in the scan and lies in by.
func (s *scanner) divide(r, by partmap.Range) (first, rest partmap.Range) {
	first, rest = r, r
	if s.reverse {
		if by.Min.Compare(&r.Min) > 0 {
			first.Min = by.Min
		}
		rest.Max = first.Min
	} else {
		if by.Max.Compare(&r.Max) < 0 {
			first.Max = by.Max
		}
		rest.Min = first.Max
	}
	return first, rest
}

// limit keeps the scan of a partition within a range.
func (s *scanner) limit(p *partition, r partmap.Range) {
	s.within = nil
	if s.onlyKey || r.Min.Compare(&p.rng.Min) <= 0 && p.rng.Max.Compare(&r.Max) <= 0 {
		return
	}
	s.within = newBounds(r, s.c.levels())
	if s.bounded {
		return
	}
	if s.reverse {
		s.bound.Set(&s.within.hi)
	} else {
		s.bound.Set(&s.within.lo)
	}
	s.bounded, s.inclusive = true, true // no item has that key
}

// errStopped says that the loop is over.
var errStopped = errors.New("the loop is over")

// batches scans a partition to its end. It returns errMoved if the partition was
// replaced, errStopped if the loop is over or was given an error.
func (s *scanner) batches(p *partition, at uint64, yield func(Item, error) bool) error {
	if !s.visited {
		s.read = cost.Visit
	}
	s.visited = false
	for s.left > 0 {
		more, err := s.fill(p, at)
		if err == errMoved {
			return err
		}
		if s.begun && errors.Is(err, ErrThrottled) {
			if err = s.c.db.untilAdmitted(s.ctx, err); err == nil {
				continue
			}
		}
		s.begun = true
		if err != nil {
			yield(Item{}, err)
			return errStopped
		}
		text := s.text
		switch {
		case s.borrow:
		case len(text) > cap(text)*3/4:
			s.text = make([]byte, 0, scanBatchBytes*9/8) // the caller may keep the items
		default:
			text = append([]byte(nil), text...) // exactly as much as they need
		}
		for i := range s.found {
			s.left--
			var it Item
			if it, text = s.item(&s.found[i], text); !yield(it, nil) {
				return errStopped
			}
		}
		if !more {
			return nil
		}
	}
	return nil
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
	guard := db.env.epoch.Enter()
	defer guard.Leave()
	s.found, s.text = s.found[:0], s.text[:0]
	m := p.meter.Load()
	if m != nil {
		if err := m.admit(p); err != nil {
			return false, err
		}
	}
	defer s.charge(p, m)
	v := p.version.Load()
	if p.dropped.Load() {
		return false, p.gone() // the loaded version may be the empty one that retire put there
	}
	if p.born > s.born {
		return false, ErrReplaced
	}
	now := s.c.nowMillis()
	if s.snapshot != nil && s.snapshot.now != 0 {
		now = s.snapshot.now
	}
	if s.now != 0 {
		now = s.now
	}
	if c := s.candidates; c != nil {
		fits, err := s.findCandidates(p, v, at, now)
		if err != nil {
			return false, db.readError(err)
		}
		if fits {
			return s.collect(c, now)
		}
	}
	if s.cursors.version == v {
		s.cursors.next() // from the last key of the batch before
	} else {
		s.cursors.since = s.since
		s.cursors.open(v, at, s.reverse)
		s.cursors.ctx = s.ctx
		if s.onlyKey || s.within != nil {
			s.cursors.lo, s.cursors.hi = s.limits(&s.cursors.limits, p)
		}
		s.seek()
	}
	return s.collect(&s.cursors, now)
}

// keyCursor iterates over the input of a scan: all items, or those that indexes name.
type keyCursor interface {
	valid() bool
	top() (*item.Key, *item.Version)
	known() bool // the item at the cursor is known to be wanted
	next()
	err() error
}

// collect fills the batch from a cursor.
func (s *scanner) collect(c keyCursor, now int64) (more bool, err error) {
	limit := scanBatchPassed
	if s.accept != nil {
		limit = scanBatchTested
	}
	for passed := 1; c.valid(); passed++ {
		k, v := c.top()
		if s.within != nil && !s.within.holds(k) {
			return false, nil
		}
		if s.onlyKey && !item.SamePartition(k, &s.bound.Key) {
			return false, nil
		}
		if s.changes {
			if v.Seq > s.since && !s.c.isClaim(k) && (v.Deleted() || v.IsDocument()) {
				s.take(k, v, v.Body)
			}
		} else if visible(v, now) || s.claims && v.Flags == item.Claim {
			body, ok := v.Body, true
			if s.accept != nil {
				s.read += cost.Read(len(v.Body))
				if body, ok, err = s.accept(k, v, c.known()); err != nil {
					return false, err
				}
			}
			if ok {
				s.take(k, v, body)
			}
		}
		if len(s.found) == s.left || len(s.found) == scanBatchItems || len(s.text) >= scanBatchBytes || passed == limit {
			s.bound.Set(k)
			s.bounded, s.inclusive = true, false
			return true, nil
		}
		c.next()
	}
	if err := c.err(); err != nil {
		return false, s.c.db.readError(err)
	}
	return false, nil
}

// charge charges the batch to the partition's meter, if it has one, and to the caller.
func (s *scanner) charge(p *partition, m *meter) {
	if s.accept != nil {
		defer func() { s.spent, s.read = s.spent+s.read, 0 }()
	}
	if m != nil {
		m.charge(p.db.uptime(), s.pageCharge())
	}
	if s.charged != nil {
		*s.charged += s.pageCharge()
	}
	if s.onlyKey && p.db.sampled() {
		p.sample(s.bound.PK, s.pageCharge())
	}
}

// pageCharge returns the RU of the batch.
func (s *scanner) pageCharge() float64 {
	if s.accept != nil {
		return s.read
	}
	charge := s.visit
	for i := range s.found {
		charge += cost.Read(s.found[i].body)
	}
	return charge
}

// seek puts the cursors at the first item of the next batch.
func (s *scanner) seek() {
	if !s.bounded {
		s.cursors.start()
		return
	}
	s.cursors.seek(&s.bound.Key, s.inclusive)
}

// take adds an item to the batch.
func (s *scanner) take(k *item.Key, v *item.Version, body []byte) {
	f := found{seq: v.Seq, modified: v.Modified, expires: v.Expires, body: len(body), id: len(k.ID)}
	s.text = append(append(s.text, body...), k.ID...)
	if !s.onlyKey {
		f.pk = len(k.PK)
		s.text = append(s.text, k.PK...)
	}
	s.found = append(s.found, f)
}

// item makes an item of the first bytes of text, and returns the others.
func (s *scanner) item(f *found, text []byte) (Item, []byte) {
	body, text := text[:f.body:f.body], text[f.body:]
	id, text := stringOf(text[:f.id]), text[f.id:]
	pk := s.pk
	if !s.onlyKey {
		pk, text = keyOf(stringOf(text[:f.pk])), text[f.pk:]
	}
	charge := s.visit + cost.Read(f.body)
	s.visit = 0
	return Item{
		Meta: Meta{Key: pk, ID: id, ETag: ETag(f.seq), Seq: f.seq, Modified: time.UnixMilli(f.modified), Expires: timeOf(f.expires), Charge: charge},
		Body: body,
	}, text
}
