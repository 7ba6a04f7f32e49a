package engine

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"time"

	"github.com/cleavestore/cleave/internal/cost"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/pacing"
	"github.com/cleavestore/cleave/partmap"
)

// ScanReadable returns what can be read of a container, or of one logical partition if
// pk is valid, in the order of ScanAll. It scans as usual until it meets damage; from
// there it reads past damage as Repair does. Afterwards report says what was returned,
// what could not be read, and how many documents were left out because a newer version,
// or a delete, may lie in what is damaged. It is meant for stores that are open
// ReadOnly: past damage it shows the newest versions, and keeps the memory they are in
// until the loop ends. Items are safe to keep. At most one error comes, as the last
// pair.
func (c *Container) ScanReadable(ctx context.Context, pk PartitionKey, report *RepairReport) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		*report = RepairReport{}
		scan := c.ScanAll(ctx, nil)
		past := salvager{ctx: ctx, report: report}
		if pk.Valid() {
			scan = c.Scan(ctx, pk, "", nil)
			first, last := itemKey(pk, ""), itemKey(pk, "")
			last.ID = afterAllIDs
			past.after, past.before = &first, &last
		}
		give := func(it Item) bool {
			report.Documents++
			report.Bytes += int64(len(it.Body))
			return yield(it, nil)
		}
		var last Item
		var failure error
		for it, err := range scan {
			if failure = err; err != nil {
				break
			}
			if last = it; !give(it) {
				return
			}
		}
		if failure == nil {
			return
		}
		if !unreadable(failure) && !errors.Is(failure, ErrIO) {
			yield(Item{}, failure)
			return
		}
		if last.ID != "" {
			after := itemKey(last.Key, last.ID)
			past.after = &after
		}
		past.give = func(k *item.Key, v *item.Version, _ int64) error {
			it := Item{
				Meta: Meta{
					Key: keyOf(string(k.PK)), ID: string(k.ID), ETag: ETag(v.Seq), Seq: v.Seq, Modified: time.UnixMilli(v.Modified),
					Expires: timeOf(v.Expires), Charge: cost.Read(len(v.Body)),
				},
				Body: bytes.Clone(v.Body),
			}
			if !give(it) {
				return errStopped
			}
			return nil
		}
		for _, p := range c.routing.Load().parts {
			if err := past.partition(p); err != nil {
				if err != errStopped {
					yield(Item{}, err)
				}
				return
			}
		}
	}
}

// itemKey returns the key of an item.
func itemKey(pk PartitionKey, id string) item.Key {
	epk := partmap.HashEncoded(pk.Encoded())
	return item.Key{Hash: epk.Head(), EPK: epk.Bytes(), PK: pk.Encoded(), ID: bytesOf(id)}
}

// salvaged is a run that a repair reads, past what cannot be read.
type salvaged struct {
	runInput
	ok       bool
	last     item.KeyCopy // the key before the present one
	gap      bool         // something between from and to could not be read
	from, to item.KeyCopy
}

// advance moves to the next version that can be read.
func (s *salvaged) advance(lost func(f *file, why error)) {
	s.gap = false
	if s.ok {
		s.last.Set(s.walker.Key())
	}
	for {
		before := s.ok
		ok, err := s.next()
		if err == nil {
			if s.ok = ok; ok && s.gap {
				s.to.Set(s.walker.Key())
			}
			return
		}
		b := s.file.bounds(len(s.file.Properties().Min.EPK) / (item.MaxEPK / item.MaxLevels))
		if !s.gap {
			s.gap = true
			s.from.Set(&b.lo)
			if before && item.Compare(&b.lo, &s.last.Key) < 0 {
				s.from.Set(&s.last.Key)
			}
		}
		s.to.Set(&b.hi)
		lost(s.file, err)
		if !s.walker.Skip() {
			s.walker = nil
		}
	}
}

// hides says that a version of the key may lie in the part that could not be read.
func (s *salvaged) hides(k *item.Key) bool {
	return s.gap && item.Compare(&s.from.Key, k) < 0 && item.Compare(k, &s.to.Key) < 0
}

// salvager reads partitions past what cannot be read.
type salvager struct {
	ctx      context.Context
	report   *RepairReport
	older    bool // RepairOptions.Older
	progress func(RepairReport)
	// Only keys between these, exclusive, are wanted. nil: from the first, to the last.
	after, before *item.Key
	// give gets each document. Its arguments are valid only during the call. now is the
	// time by which documents have expired.
	give func(k *item.Key, v *item.Version, now int64) error
}

// wants says that a key from lo to hi may be wanted.
func (r *salvager) wants(lo, hi *item.Key) bool {
	return (r.after == nil || item.Compare(r.after, hi) < 0) && (r.before == nil || item.Compare(lo, r.before) < 0)
}

// partition reads a partition as a merge of all of its runs does, with the memtables in
// front of them.
func (r *salvager) partition(p *partition) error {
	if b := p.bounds(); !r.wants(&b.lo, &b.hi) {
		return nil
	}
	v, release := p.hold()
	defer release()
	guard := p.db.env.epoch.Enter()
	defer guard.Leave()
	lost := func(f *file, why error) {
		if b := f.bounds(p.c.levels()); !r.wants(&b.lo, &b.hi) {
			return
		}
		d := Damage{
			Container: p.c.name, Partition: p.id, Min: f.min.String(), Max: f.max.String(), File: p.db.env.fs.Path(f.name), Offset: -1,
			Aside: true, Whole: p.lost != nil, Err: why,
		}
		if at := new(CorruptionError); errors.As(why, &at) {
			d.File, d.Offset = at.File, at.Offset
		}
		r.report.Lost = append(r.report.Lost, d)
	}
	var mem mergedCursor
	mem.open(&version{active: v.active, frozen: v.frozen}, maxSequence, false)
	defer mem.close()
	mem.start()
	var runs []*salvaged
	for _, of := range v.runs {
		s := &salvaged{runInput: runInput{files: of.files}}
		s.advance(lost)
		runs = append(runs, s)
	}
	var k item.KeyCopy
	var deleted deletedBefore
	var of item.KeyCopy // the logical partition at hand
	whole := len(runs)  // index of the newest run that may have lost a delete of it
	now := p.c.nowMillis()
	for n := 0; ; n++ {
		if n%pacing.Piece == 0 {
			if err := r.ctx.Err(); err != nil {
				return err
			}
			if r.progress != nil {
				r.progress(*r.report)
			}
		}
		// The newest version of the lowest key. -1 is memory.
		const none = -2
		at := none
		var key *item.Key
		var ver *item.Version
		if mem.valid() {
			key, ver = mem.top()
			at = -1
		}
		for i, s := range runs {
			if !s.ok {
				continue
			}
			c := -1
			if at != none {
				c = item.Compare(s.walker.Key(), key)
			}
			if c < 0 || c == 0 && at >= 0 && s.walker.Version().Seq > ver.Seq {
				at, key, ver = i, s.walker.Key(), s.walker.Version()
			}
		}
		if at == none || r.before != nil && item.Compare(key, r.before) >= 0 {
			return mem.err()
		}
		k.Set(key)
		if n == 0 || !item.SamePartition(key, &of.Key) {
			of.Set(key)
			whole = len(runs)
			t := key.Partition()
			for i := len(runs) - 1; i >= 0; i-- {
				if runs[i].hides(&t) {
					whole = i
				}
			}
		}
		gone := deleted.hides(key, ver) || !visible(ver, now) || p.c.isClaim(key) || !r.wants(key, key)
		if !gone {
			uncertain := at > whole || at >= 0 && runs[at].walker.Older()
			for i := range at {
				uncertain = uncertain || runs[i].hides(key)
			}
			if at >= 0 {
				if err := runs[at].walker.Complete(); err != nil {
					lost(runs[at].file, runs[at].file.met(err))
					gone = true
				}
				ver = runs[at].walker.Version()
			}
			if uncertain && !gone {
				r.report.Uncertain++
				gone = !r.older
			}
			if !gone {
				if err := r.give(key, ver, now); err != nil {
					return err
				}
			}
		}
		if mem.valid() {
			if at, _ := mem.top(); item.Compare(at, &k.Key) == 0 {
				mem.next()
			}
		}
		for _, s := range runs {
			for s.ok && item.Compare(s.walker.Key(), &k.Key) == 0 {
				s.advance(lost)
			}
		}
	}
}
