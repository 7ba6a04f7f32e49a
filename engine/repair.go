package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/cleavestore/cleave/internal/definition"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/manifest"
)

// RepairOptions are the options of Repair. Nil means none.
type RepairOptions struct {
	// Store are the options of the store that is made; ReadOnly is ignored. Nil: the defaults.
	Store *Options
	// Older also writes documents of which a newer version, or a delete, may lie in a
	// damaged part: they may be out of date, or deleted.
	Older bool
	// Progress, if not nil, is called from time to time.
	Progress func(RepairReport)
}

// RepairReport says what Repair wrote and what it could not read.
type RepairReport struct {
	Documents int64 // documents that were written
	Bytes     int64 // of these documents
	// Uncertain is the number of documents of which a newer version, or a delete, may lie in
	// a damaged part. They are not written without RepairOptions.Older.
	Uncertain int64
	Refused   []error  // one for each document that could be read, but not be written: the first 1,000
	Lost      []Damage // what could not be read, with its part of the key space
}

// maxRefused bounds RepairReport.Refused.
const maxRefused = 1000

// Repair copies what can be read of the store in src into a new store in dst, and reports
// what it could not read. If dst has something in it, it is ErrExists. Nothing in src is changed.
// Documents keep their keys, ids and, to the second, times of expiry. Containers keep their
// definitions and limits, which do not bound the repair. An unfinished copy stays one, and what a
// copy has taken the place of takes no writes. Physical partitions are new, with equal parts of the
// throughput. Sequences, etags and times of modification are new. Old versions for change feeds and positions in replicated logs
// are not copied. A store whose own manifest or log is damaged is refused.
func Repair(ctx context.Context, src, dst string, o *RepairOptions) (RepairReport, error) {
	var opts RepairOptions
	if o != nil {
		opts = *o
	}
	if names, err := os.ReadDir(dst); err == nil && len(names) > 0 { // an Open would write to it
		return RepairReport{}, fmt.Errorf("repair into %s: %w: it has a file %q", dst, ErrExists, names[0].Name())
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
	r := repairer{ctx: ctx, opts: opts, made: make(map[uint32]*Container)}
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
	if err := r.closeCopies(from.storeState()); err != nil {
		return r.report, fmt.Errorf("repair: %w", err)
	}
	return r.report, to.Flush(ctx)
}

// repairer is a repair under way.
type repairer struct {
	ctx    context.Context
	opts   *RepairOptions
	report RepairReport
	past   salvage
	from   *Container
	into   *Container
	asleep bool                  // items have times to live, and nothing expires at present
	entry  int64                 // time of the newest entry of the partition at hand
	made   map[uint32]*Container // by the id of the container that was read
}

func (r *repairer) container(c *Container, to *DB) (err error) {
	def := c.Def()
	var newest lifetime.Rule
	for _, p := range c.routing.Load().parts {
		if _, at := p.Newest(); at.TTL.Revision > newest.Revision {
			newest = at.TTL
			def.DefaultTTL = definition.Duration(newest.Default)
		}
	}
	r.asleep = def.MutableTTL && def.DefaultTTL == 0
	if r.asleep { // until the end, so that items keep the times to live of their own
		def.DefaultTTL = NoExpiry
	}
	def.Throughput, def.Replicated = 0, false
	def.Limits.LogicalPartitionThroughput, def.Limits.LogicalPartitionBytes = 0, definition.MaxLogicalBytes
	if _, err = to.CreateContainer(r.ctx, c.name, def); err != nil {
		return err
	}
	r.from = c
	if r.into, err = to.Container(c.name); err != nil {
		return err
	}
	r.made[c.id] = r.into
	r.past = salvage{
		Salvager: lsm.Salvager{Ctx: r.ctx, Older: r.opts.Older, Give: r.write}, report: &r.report, progress: r.opts.Progress,
	}
	for _, p := range c.routing.Load().parts {
		r.entry = p.EntryTime.Load()
		if err = r.past.partition(p); err != nil {
			return err
		}
	}
	c.db.storeManifest.Lock()
	was := *c.db.storeManifest.state.Container(c.id)
	c.db.storeManifest.Unlock()
	if err = r.into.change(func(m *manifest.Container) error { definition.TakeKeyLimits(m, &was); return nil }); err != nil {
		return err
	}
	if r.asleep {
		if err = r.into.SetDefaultTTL(r.ctx, 0); err != nil {
			return err
		}
	}
	if rate := c.Def().Throughput; rate > 0 {
		return r.into.SetThroughput(r.ctx, rate)
	}
	return nil
}

// closeCopies has the containers take no writes that took none: unfinished copies, and those
// whose place a copy has taken. state is that of the store that was read.
func (r *repairer) closeCopies(state manifest.Store) error {
	for id, c := range r.made {
		was, of := state.Container(id), uint32(0)
		if source := r.made[was.CopyOf]; source != nil { // else it was dropped
			of = source.id
		}
		if !was.Copied && of == 0 {
			continue
		}
		if err := c.change(func(m *manifest.Container) error { m.Copied, m.CopyOf = was.Copied, of; return nil }); err != nil {
			return err
		}
		c.copied.Store(was.Copied)
		c.copyOf.Store(of)
	}
	return nil
}

// now returns the time by which documents expire: of a replicated container that of its
// newest entry, which may be long ago.
func (r *repairer) now() int64 {
	if r.from.def.Replicated {
		return r.entry
	}
	return r.into.db.clockMillis()
}

// write writes a document into the new store. It reports an error that lies in the
// document alone, and returns any other.
func (r *repairer) write(k *item.Key, v *item.Version) (err error) {
	o := new(WriteOptions)
	if r.into.life.Default() != 0 && (v.Expires != 0 || !r.into.life.Follows()) {
		if o.TTL = NoExpiry; v.Expires != 0 && v.Expires != lifetime.Never {
			o.TTL = time.Duration(v.Expires-r.now()) * time.Millisecond
			if r.asleep {
				o.TTL = max(o.TTL, time.Millisecond)
			} else if o.TTL <= 0 {
				return nil // it has expired since the partition was begun
			}
		}
	}
	pk := keyOf(string(k.PK))
	switch {
	case r.into.def.Kind != JSON:
		_, err = r.into.Put(r.ctx, pk, string(k.ID), v.Body, o)
	case r.into.def.Synthetic.rule().Random():
		o.Key = pk // the document does not tell its suffix
		_, err = r.into.Create(r.ctx, v.Body, o)
	default:
		_, err = r.into.Upsert(r.ctx, v.Body, o)
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
