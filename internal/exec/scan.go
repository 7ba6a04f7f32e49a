package exec

import (
	"context"
	"errors"
	"sync"
	"time"
	"unsafe"

	"github.com/cleavestore/cleave/internal/cost"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/keybounds"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/pins"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/segment"
)

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
	scanApart       = 16   // items that are taken one by one where a file does not give several together
)

// ScanOptions say what a scan shows.
type ScanOptions struct {
	Snapshot Snapshot // nil: each physical partition is seen at its newest sequence, when the scan reaches it
	Limit    int      // items at most; 0 or less: all
	Reverse  bool     // from the end
	Borrow   bool     // the memory of a row is used again when yield returns
	InPlace  bool     // bodies may stay in the mappings of files, until yield returns
	Charge   *float64 // if not nil, increased by what the scan costs, in request units
	// Changes makes the results the items whose newest version is above Since, deleted ones
	// included, which have no body.
	Changes bool
	Since   uint64
	// Claims says that claims on unique keys are among the results.
	Claims bool
	// Unique says that the container has unique keys: ids with the mark of claims are claims.
	Unique bool
	// Admitted says that the scan is part of a call that was admitted: its first batch is read
	// in any case. Waits says that the caller waits while it is refused: that is not counted.
	Admitted, Waits bool
	// Timed says that Host.Scanned is told how long the scan took.
	Timed bool
}

// ScanKey passes to yield the items of one logical partition whose ids lie in a range, in
// the order of ids. What lies outside of the range costs nothing. It returns nil if yield
// ended the scan.
func ScanKey(ctx context.Context, h Host, pk partmap.Key, ids item.IDRange, o *ScanOptions, yield func(*Row) bool) error {
	sc := scanners.Get().(*scanner)
	defer sc.release()
	sc.begin(ctx, h, o)
	sc.pk, sc.onlyKey, sc.ids = pk, true, ids
	encoded := pk.Encoded()
	epk := partmap.HashEncoded(encoded)
	first := item.Key{Hash: epk.Head(), EPK: epk.Bytes(), PK: encoded, ID: bytesOfID(ids.Lo)}
	sc.bounded, sc.inclusive = true, !ids.LoOpen
	if sc.reverse {
		first.ID, sc.inclusive = lastID(&ids), !ids.HiOpen
	}
	sc.bound.Set(&first)
	_, _, err := sc.run(partmap.Range{Min: epk, Max: epk}, yield)
	return sc.ended(unlessStopped(err))
}

// ScanAll is ScanRange of the whole key space.
func ScanAll(ctx context.Context, h Host, o *ScanOptions, yield func(*Row) bool) error {
	return ScanRange(ctx, h, partmap.Range{Min: partmap.MinEPK(), Max: partmap.MaxEPK()}, o, yield)
}

// ScanRange passes to yield the items of a range in key-space order. It returns nil if
// yield ended the scan.
func ScanRange(ctx context.Context, h Host, rest partmap.Range, o *ScanOptions, yield func(*Row) bool) (err error) {
	sc := scanners.Get().(*scanner)
	defer sc.release()
	sc.begin(ctx, h, o)
	for more := true; more && !rest.Empty() && err == nil; {
		rest, more, err = sc.run(rest, yield)
	}
	return sc.ended(unlessStopped(err))
}

// ended tells the host how long the scan took, if it is timed, and returns err.
func (s *scanner) ended(err error) error {
	if s.timed {
		s.h.Scanned(s.pk, s.took+s.throttled, s.throttled, err)
	}
	return err
}

// addSince adds the time since then to d, if the scan is timed.
func (s *scanner) addSince(then time.Duration, d *time.Duration) {
	if s.timed {
		*d += s.h.Elapsed() - then
	}
}

// clock is Host.Elapsed, if the scan is timed.
func (s *scanner) clock() time.Duration {
	if !s.timed {
		return 0
	}
	return s.h.Elapsed()
}

// lastID returns the id with which a range ends.
func lastID(r *item.IDRange) []byte {
	if r.Hi == "" {
		return lsm.AfterAllIDs
	}
	return bytesOfID(r.Hi)
}

// bytesOfID views an id as bytes, which must not be written to.
func bytesOfID(id string) []byte { return unsafe.Slice(unsafe.StringData(id), len(id)) }

// idOf views b as an id; b must not be written to any more.
func idOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// unlessStopped returns err, nil for errStopped.
func unlessStopped(err error) error {
	if err == errStopped {
		return nil
	}
	return err
}

// scanner is a scan under way. It is pooled, for its buffers.
type scanner struct {
	h            Host
	ctx          context.Context
	snapshot     Snapshot    // nil: there is none
	pk           partmap.Key // of the results, if onlyKey
	onlyKey      bool
	ids          item.IDRange // of the results, if onlyKey
	reverse      bool
	borrow       bool
	left         int                             // items still wanted
	most         int                             // items that the next batch may have
	installEpoch uint64                          // installations in the container when the sequence was taken
	pasts        func(partmap.EPK) lifetime.Past // Host.Pasts; nil: the present at each batch
	admitted     bool                            // ScanOptions.Admitted
	begun, waits bool                            // its first batch was read: from now on it waits where it is throttled; ScanOptions.Waits
	visit, owed  float64                         // RU of the visit of the partition: which the next item carries, which the next batch is charged
	charged      *float64                        // ScanOptions.Charge
	visited      bool                            // with accept: the visit of the first partition is already paid for
	read         float64                         // with accept: RU of the items of this batch that were shown to it
	spent        float64                         // with accept: RU of all batches

	timed           bool
	took, throttled time.Duration // by reading batches, and by waiting to be admitted

	bound     item.KeyCopy // where the next batch begins, if bounded
	bounded   bool
	inclusive bool
	within    *keybounds.Bounds // bounds of the scan in this partition; nil: the partition's own

	// accept, if set, is called inside of the guard for each item. It says whether the
	// item is a result, and with which body. known says that the item is known to be
	// wanted. The arguments are valid only during the call.
	accept accept
	// candidates, if set, replaces the cursors where indexes allow it.
	candidates *candidates
	// changes, since, claims and unique are those of ScanOptions.
	changes, claims, unique bool
	since                   uint64

	inPlace bool
	unpin   func()   // releases the files of the cursors, if inPlace; nil: none are held
	mapped  [][]byte // bodies of the batch that stay where they are, nil for the others; if inPlace

	cursors lsm.Cursor
	found   []segment.Taken // the batch, its bytes in text
	text    []byte
	row     Row // that yield is shown
}

type accept func(k *item.Key, v *item.Version, known bool) (body []byte, ok bool, err error)

var scanners = sync.Pool{New: func() any { return new(scanner) }}

// release gives the scanner back to its pool, with its buffers and nothing else.
func (s *scanner) release() {
	s.closeCursors()
	if s.candidates != nil {
		s.candidates.release()
	}
	if s.inPlace {
		clear(s.mapped[:cap(s.mapped)]) // an earlier batch may have been longer
	}
	kept := scanner{bound: s.bound, cursors: s.cursors, found: s.found[:0], text: s.text[:0], mapped: s.mapped[:0]}
	if cap(kept.text) > 2*scanBatchBytes {
		kept.text = nil
	}
	*s = kept
	scanners.Put(s)
}

// closeCursors closes the cursors, when nothing of what they have shown is used any more.
func (s *scanner) closeCursors() {
	s.cursors.Close()
	if s.unpin != nil {
		s.unpin()
		s.unpin = nil
	}
}

func (s *scanner) begin(ctx context.Context, h Host, o *ScanOptions) {
	s.ctx, s.h, s.snapshot = ctx, h, o.Snapshot
	s.reverse, s.borrow, s.charged, s.admitted, s.waits = o.Reverse, o.Borrow || o.InPlace, o.Charge, o.Admitted, o.Waits
	s.changes, s.since, s.claims, s.unique = o.Changes, o.Since, o.Claims, o.Unique
	s.timed, s.inPlace, s.most = o.Timed, o.InPlace, scanBatchItems
	if s.left = o.Limit; s.left <= 0 {
		s.left = int(^uint(0) >> 1)
	}
}

// run scans the part of rest that lies in one physical partition, at one commit point:
// the partition in which rest begins, in reverse ends. It returns the remaining range;
// more says whether the scan goes on there. An error ends it, errStopped if yield did. If
// the partition is replaced meanwhile, the scan goes on in its successors, within the
// same bounds, at the same commit point.
func (s *scanner) run(rest partmap.Range, yield func(*Row) bool) (_ partmap.Range, more bool, err error) {
	p, at, installEpoch := locate(s.snapshot, pins.Scan, func() Part { return s.route(rest) })
	if s.installEpoch = installEpoch; s.snapshot == nil {
		defer s.h.Unpin(at)
	}
	part, rest := s.divide(rest, p.Data().Range)
	s.visit, s.owed = cost.Visit, cost.Visit
	s.bounded = s.onlyKey
	more, err = s.runAt(p, part, at.Seq, yield)
	return rest, more, err
}

// runAt scans part, which begins, in reverse ends, in p. at is a sequence that the
// caller has pinned. If bounded is set the scan begins at the bound. more says whether
// the scan goes on behind part. An error ends it, errStopped if yield did.
func (s *scanner) runAt(p Part, part partmap.Range, at uint64, yield func(*Row) bool) (more bool, err error) {
	for {
		s.limit(p, part)
		s.closeCursors()
		if s.candidates != nil && !s.candidates.opened {
			s.candidates.close()
		}
		err := s.batches(p, at, yield)
		if err == lsm.ErrMoved {
			p = s.route(part)
			continue
		}
		if err != nil {
			return false, err
		}
		if s.left == 0 || s.onlyKey {
			return s.left > 0, nil
		}
		if _, part = s.divide(part, p.Data().Range); part.Empty() {
			return true, nil
		}
		// If p has replaced a larger partition, the scan may have got into part there.
		s.bounded = s.bounded && keybounds.New(part, s.h.Levels()).Holds(&s.bound.Key)
		p = s.route(part)
	}
}

// route returns the partition in which a range begins, in reverse ends.
func (s *scanner) route(r partmap.Range) Part {
	if s.reverse && !s.onlyKey {
		return s.h.FindBefore(r.Max)
	}
	return s.h.Find(r.Min)
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
func (s *scanner) limit(p Part, r partmap.Range) {
	s.within = nil
	if of := &p.Data().Range; s.onlyKey || r.Min.Compare(&of.Min) <= 0 && of.Max.Compare(&r.Max) <= 0 {
		return
	}
	s.within = keybounds.New(r, s.h.Levels())
	if s.bounded {
		return
	}
	if s.reverse {
		s.bound.Set(&s.within.Hi)
	} else {
		s.bound.Set(&s.within.Lo)
	}
	s.bounded, s.inclusive = true, true // no item has that key
}

// errStopped says that the loop is over.
var errStopped = errors.New("the loop is over")

// batches scans a partition to its end. It returns lsm.ErrMoved if the partition was
// replaced, errStopped if yield ended the loop.
func (s *scanner) batches(p Part, at uint64, yield func(*Row) bool) error {
	if !s.visited {
		s.read = cost.Visit
	}
	s.visited = false
	for s.left > 0 {
		then := s.clock()
		more, err := s.fill(p, at)
		s.addSince(then, &s.took)
		if err == lsm.ErrMoved {
			return err
		}
		if s.begun && err != nil {
			then = s.clock()
			err = s.h.Wait(s.ctx, err)
			s.addSince(then, &s.throttled)
			if err == nil {
				continue
			}
		}
		s.begun, s.most = true, min(2*s.most, scanBatchItems)
		if err != nil {
			return err
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
			if s.show(i, text); !yield(&s.row) {
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
func (s *scanner) fill(p Part, at uint64) (more bool, err error) {
	call, err := s.h.Enter(s.ctx)
	if err != nil {
		return false, err
	}
	defer call.Leave()
	s.found, s.text, s.mapped = s.found[:0], s.text[:0], s.mapped[:0]
	v, err := load(p, s.snapshot, s.installEpoch)
	if err != nil {
		return false, err
	}
	if s.begun || !s.admitted {
		if err = p.Admit(s.pk.Encoded(), s.begun || s.waits); err != nil {
			return false, err
		}
	}
	defer s.charge(p)
	var past lifetime.Past
	switch {
	case s.pasts != nil:
		past = s.pasts(p.Data().Range.Min)
	case s.snapshot != nil:
		past = s.snapshot.Past()
	}
	if past == (lifetime.Past{}) {
		past = p.Past()
	}
	if c := s.candidates; c != nil {
		fits, err := s.findCandidates(p, v, at, past)
		if err != nil {
			return false, s.h.ReadError(err)
		}
		if fits {
			return s.collect(c, past)
		}
	}
	if s.cursors.Version == v {
		s.cursors.Next() // from the last key of the batch before
	} else {
		s.closeCursors()
		s.cursors.Since = s.since
		s.cursors.Open(v, at, s.reverse)
		s.cursors.Ctx = s.ctx
		if s.cursors.InPlace = s.inPlace; s.inPlace {
			s.unpin = p.Data().Pin(v)
		}
		if s.onlyKey || s.within != nil {
			s.cursors.Lo, s.cursors.Hi = s.limits(&s.cursors.Limits, p)
		}
		s.seek()
		p.Data().Sought(v, s.cursors.Opened)
	}
	return s.collect(&s.cursors, past)
}

// keyCursor iterates over the input of a scan: all items, or those that indexes name.
type keyCursor interface {
	Valid() bool
	Top() (*item.Key, *item.Version)
	Known() bool // the item at the cursor is known to be wanted
	Next()
	Err() error
}

// collect fills the batch from a cursor.
func (s *scanner) collect(c keyCursor, past lifetime.Past) (more bool, err error) {
	limit := scanBatchPassed
	if s.accept != nil {
		limit = scanBatchTested
	}
	again := 0
	together := c == keyCursor(&s.cursors) && s.accept == nil && !s.changes && !s.claims && s.within == nil
	for passed := 1; c.Valid(); passed++ {
		k, v := c.Top()
		if s.within != nil && !s.within.Holds(k) {
			return false, nil
		}
		if s.onlyKey && (!item.SamePartition(k, &s.bound.Key) || s.behind(k)) {
			return false, nil
		}
		n, full := 0, false
		if together && passed >= again {
			if n, full = s.takeMany(past); n < 2 {
				again = passed + scanApart
			}
			if passed += max(n-1, 0); n > 0 && !full {
				continue
			}
		}
		if n > 0 {
			k, _ = c.Top() // the last that was taken
		} else if s.changes {
			if v.Seq > s.since && !(s.unique && k.Marked()) && (v.Deleted() || v.IsDocument()) {
				s.take(k, v, v.Body)
			}
		} else if lsm.Shown(v, past) || s.claims && v.Flags == item.Claim {
			body, ok := v.Body, true
			if s.accept != nil {
				if err = s.ctx.Err(); err != nil {
					return false, err
				}
				s.read += cost.Read(len(v.Body))
				if body, ok, err = s.accept(k, v, c.Known()); err != nil {
					return false, err
				}
			}
			if ok {
				s.take(k, v, body)
			}
		}
		if len(s.found) == s.left || len(s.found) == s.most || len(s.text) >= scanBatchBytes || passed >= limit {
			s.bound.Set(k)
			s.bounded, s.inclusive = true, false
			return true, nil
		}
		c.Next()
	}
	if err := c.Err(); err != nil {
		return false, s.h.ReadError(err)
	}
	return false, nil
}

// behind says whether a key of the logical partition lies behind the range of ids.
func (s *scanner) behind(k *item.Key) bool {
	if s.reverse {
		return s.ids.Before(k.ID)
	}
	return s.ids.After(k.ID)
}

// charge charges the batch to the partition, if it is metered, and to the caller.
func (s *scanner) charge(p Part) {
	if s.accept != nil {
		defer func() { s.spent, s.read = s.spent+s.read, 0 }()
	}
	charge := s.pageCharge()
	s.owed = 0
	if p.Metered() {
		p.Charge(s.pk.Encoded(), charge)
	}
	if s.charged != nil {
		*s.charged += charge
	}
	if s.onlyKey && s.h.Sampled() {
		p.Sample(s.bound.PK, charge)
	}
}

// pageCharge returns the RU of the batch.
func (s *scanner) pageCharge() float64 {
	if s.accept != nil {
		return s.read
	}
	charge := s.owed
	for i := range s.found {
		charge += cost.Read(int(s.found[i].Body.Len))
	}
	return charge
}

// seek puts the cursors at the first item of the next batch.
func (s *scanner) seek() {
	if !s.bounded {
		s.cursors.Start()
		return
	}
	s.cursors.Seek(&s.bound.Key, s.inclusive)
}

// take adds an item to the batch.
func (s *scanner) take(k *item.Key, v *item.Version, body []byte) {
	f := segment.Taken{Seq: v.Seq, Modified: v.Modified, Expires: v.Expires, Body: segment.Part{Off: uint32(len(s.text)), Len: uint32(len(body))}}
	if s.inPlace {
		at := []byte(nil)
		if len(body) > 0 && s.cursors.Mapped() {
			at, body = body[:len(body):len(body)], nil
		}
		s.mapped = append(s.mapped, at)
	}
	s.text = append(s.text, body...)
	f.ID = s.copied(k.ID)
	if !s.onlyKey {
		f.PK = s.copied(k.PK)
	}
	s.found = append(s.found, f)
}

// copied adds bytes to the text of the batch.
func (s *scanner) copied(b []byte) segment.Part {
	at := segment.Part{Off: uint32(len(s.text)), Len: uint32(len(b))}
	s.text = append(s.text, b...)
	return at
}

// takeMany adds items to the batch, as many as lsm.Cursor.Take gives, and returns how many. If the batch is full the
// cursors are at the last of them, else behind it.
func (s *scanner) takeMany(past lifetime.Past) (n int, full bool) {
	w := segment.Wanted{Written: past.Before, Most: min(s.left, s.most) - len(s.found), Bytes: scanBatchBytes, InPlace: s.inPlace, Bodies: s.mapped}
	if s.onlyKey && s.ids.Hi != "" {
		w.Edge = bytesOfID(s.ids.Hi)
	}
	from, text := len(s.found), len(s.text)
	var pk segment.Part
	if !s.onlyKey {
		k, _ := s.cursors.Top()
		pk = s.copied(k.PK)
	}
	s.text, s.found, full = s.cursors.Take(&w, s.text, s.found)
	s.mapped = w.Bodies
	if n = len(s.found) - from; n == 0 {
		s.text = s.text[:text]
	}
	if !s.onlyKey {
		for i := range s.found[from:] {
			s.found[from+i].PK = pk
		}
	}
	for s.inPlace && len(s.mapped) < len(s.found) {
		s.mapped = append(s.mapped, nil)
	}
	return n, full
}

// show makes a row of item i of the batch, whose bytes text has but for a body that stays
// in a mapping.
func (s *scanner) show(i int, text []byte) {
	f, body := &s.found[i], []byte(nil)
	if s.inPlace {
		body = s.mapped[i]
	}
	if body == nil {
		body = f.Body.Of(text)
	}
	pk := s.pk
	if !s.onlyKey {
		pk = partmap.FromTrusted(f.PK.Of(text))
	}
	charge := s.visit + cost.Read(int(f.Body.Len))
	s.visit = 0
	r := &s.row
	r.Key, r.ID, r.Body = pk, idOf(f.ID.Of(text)), body
	r.Seq, r.Modified, r.Expires, r.Charge = f.Seq, f.Modified, f.Expires, charge
}
