package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cleavestore/cleave/internal/item"
)

// RepairOptions are the options of Repair. Nil means none.
type RepairOptions struct {
	// Store are the options of the store that is made; ReadOnly is passed over. Nil: the defaults.
	Store *Options
	// Older writes documents too of which a newer version may lie in what is damaged:
	// they may be out of date, or deleted.
	Older bool
	// Progress, if not nil, is called from time to time.
	Progress func(RepairReport)
}

// RepairReport says what Repair wrote and what it could not read.
type RepairReport struct {
	Documents int64 // that were written
	Bytes     int64 // of them
	// Uncertain is the number of documents of which a newer version, or a delete, may lie in
	// what is damaged. They are not written without RepairOptions.Older.
	Uncertain int64
	Refused   []error  // documents that could be read and not be written
	Lost      []Damage // what could not be read, with its part of the key space
}

// maxRefused bounds RepairReport.Refused.
const maxRefused = 1000

// Repair writes what can be read of the store in src into a new one in dst, which must
// be empty or absent, and says what it could not read. Nothing in src is changed. Documents keep
// their keys, ids and when they expire; sequences, etags and times of modification are new, and
// old versions for change feeds and entries of replicated logs stay behind. A store whose own
// manifest or log is damaged is refused.
func Repair(ctx context.Context, src, dst string, o *RepairOptions) (RepairReport, error) {
	var opts RepairOptions
	if o != nil {
		opts = *o
	}
	var store Options
	if opts.Store != nil {
		store = *opts.Store
	}
	read := store
	read.ReadOnly, read.RefuseDamaged, read.Events = true, false, nil
	from, err := Open(ctx, src, &read)
	if err != nil {
		return RepairReport{}, err
	}
	defer from.Close()
	store.ReadOnly, store.Durability = false, Buffered
	to, err := Open(ctx, dst, &store)
	if err != nil {
		return RepairReport{}, err
	}
	report, err := repair(ctx, from, to, &opts)
	return report, errors.Join(err, to.Close())
}

// repair copies between open stores.
func repair(ctx context.Context, from, to *DB, opts *RepairOptions) (RepairReport, error) {
	r := repairer{ctx: ctx, opts: opts}
	for info := range to.Containers() {
		return r.report, fmt.Errorf("repair: %w: the store to be written has a container %q", ErrExists, info.Name)
	}
	for info := range from.Containers() {
		c, err := from.Container(info.Name)
		if err != nil {
			return r.report, err
		}
		if err := r.container(c, to); err != nil {
			return r.report, fmt.Errorf("repair of container %q: %w", info.Name, err)
		}
	}
	return r.report, to.Flush(ctx)
}

// repairer is a repair under way.
type repairer struct {
	ctx    context.Context
	opts   *RepairOptions
	report RepairReport
	into   *Container
}

func (r *repairer) container(c *Container, to *DB) (err error) {
	def := c.Def()
	def.Throughput, def.Replicated = 0, false
	if _, err = to.CreateContainer(r.ctx, c.name, def); err != nil {
		return err
	}
	if r.into, err = to.Container(c.name); err != nil {
		return err
	}
	for _, p := range c.routing.Load().parts {
		if err := r.partition(p); err != nil {
			return err
		}
	}
	if rate := c.Def().Throughput; rate > 0 {
		return r.into.SetThroughput(r.ctx, rate)
	}
	return nil
}

// salvaged is a run as it is read for a repair: past what cannot be read.
type salvaged struct {
	runInput
	ok       bool
	last     item.KeyCopy // that it was at
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

// hides says that a version of a key may lie in what could not be read.
func (s *salvaged) hides(k *item.Key) bool {
	return s.gap && item.Compare(&s.from.Key, k) < 0 && item.Compare(k, &s.to.Key) < 0
}

// partition reads a partition as a merge of all of its runs does, with what is in memory
// in front of them.
func (r *repairer) partition(p *partition) error {
	v, release := p.hold()
	defer release()
	guard := p.db.epoch.Enter()
	defer guard.Leave()
	lost := func(f *file, why error) {
		d := Damage{
			Container: p.c.name, Partition: p.id, Min: f.min.String(), Max: f.max.String(), File: p.db.fs.Path(f.name), Offset: -1,
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
		if n%breathEvery == 0 {
			if err := r.ctx.Err(); err != nil {
				return err
			}
			if r.opts.Progress != nil {
				r.opts.Progress(r.report)
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
		if at == none {
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
		gone := deleted.hides(key, ver) || !visible(ver, now) || p.c.isClaim(key)
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
				gone = !r.opts.Older
			}
			if !gone {
				if err := r.write(key, ver, now); err != nil {
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

// write writes a document into the new store. What is wrong with it alone is reported.
func (r *repairer) write(k *item.Key, v *item.Version, now int64) (err error) {
	o := new(WriteOptions)
	if r.into.def.DefaultTTL != 0 {
		if o.TTL = NoExpiry; v.Expires != 0 {
			o.TTL = time.Duration(v.Expires-now) * time.Millisecond
		}
	}
	pk := keyOf(string(k.PK))
	if r.into.def.Kind == JSON {
		_, err = r.into.Upsert(r.ctx, v.Body, o)
	} else {
		_, err = r.into.Put(r.ctx, pk, string(k.ID), v.Body, o)
	}
	switch {
	case err == nil:
		r.report.Documents++
		r.report.Bytes += int64(len(v.Body))
	case errors.Is(err, ErrInvalid), errors.Is(err, ErrTooLarge), errors.Is(err, ErrUniqueKey), errors.Is(err, ErrLogicalPartitionFull):
		if len(r.report.Refused) < maxRefused {
			r.report.Refused = append(r.report.Refused, fmt.Errorf("document %s %q: %w", pk, k.ID, err))
		}
		err = nil
	}
	return err
}
