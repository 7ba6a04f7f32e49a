package engine

import (
	"context"
	"errors"
	"runtime/trace"
	"sync"
	"time"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/keysizes"
	"github.com/cleavestore/cleave/internal/latency"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/logrecord"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/physical"
	"github.com/cleavestore/cleave/internal/writebatch"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/wal"
)

// request is a write under way. It is pooled: the scanner's scratch and the
// record's head are reused.
type request struct {
	key          item.Key
	epk          partmap.EPK
	ver          item.Version // Seq is set under the commit lock
	precondition writebatch.Precondition
	ifMatch      uint64 // sequence
	ttl          int64  // see lifetime.Stored
	sync         bool
	from         origin    // fromCopy: ver.Expires is kept
	watch        stopwatch // runs if a caller waits for the write
	on           waits     // without stalled, which is waited
	waited       time.Duration
	admission    admission
	spent        float64          // RU, once place has returned
	counted      keysizes.Counted // set by measure

	scanner jsondoc.Scanner
	doc     jsondoc.Doc
	derived []byte // scratch of a synthetic key
	head    []byte
}

var requests = sync.Pool{New: func() any { return new(request) }}

func (r *request) release() {
	r.ver.Body, r.counted, r.from, r.watch, r.admission = nil, keysizes.Counted{}, fromCaller, stopwatch{}, mayRefuse
	if cap(r.head) > 64<<10 {
		r.head = nil
	}
	requests.Put(r)
}

// Create writes a new item. It returns ErrExists if the item exists,
// *DocumentError for a document that is refused.
func (c *Container) Create(ctx context.Context, doc []byte, o *WriteOptions) (Meta, error) {
	return c.writeDocument(ctx, doc, o, verbCreate)
}

// Upsert writes an item whether or not it exists. Errors: *DocumentError,
// ErrPrecondition, ErrLogicalPartitionFull, ErrBusy, ErrDiskFull, ErrClosed,
// ErrReadOnly, ErrFailed.
func (c *Container) Upsert(ctx context.Context, doc []byte, o *WriteOptions) (Meta, error) {
	return c.writeDocument(ctx, doc, o, verbUpsert)
}

// Replace writes an item that exists; ErrNotFound otherwise.
func (c *Container) Replace(ctx context.Context, doc []byte, o *WriteOptions) (Meta, error) {
	return c.writeDocument(ctx, doc, o, verbReplace)
}

// Delete deletes an item; ErrNotFound if there is none. WriteOptions.Charge tells
// what it cost.
func (c *Container) Delete(ctx context.Context, pk PartitionKey, id string, o *WriteOptions) error {
	_, err := c.writeBytes(ctx, pk, id, nil, o, verbDelete)
	return err
}

// Put writes an item of an opaque container, whether or not it exists. The
// body is any bytes, the id any text, also with slashes. Errors are those of
// Upsert, with ErrTooLarge for body and id.
func (c *Container) Put(ctx context.Context, pk PartitionKey, id string, body []byte, o *WriteOptions) (Meta, error) {
	return c.writeBytes(ctx, pk, id, body, o, verbPut)
}

func (c *Container) writeDocument(ctx context.Context, doc []byte, o *WriteOptions, v verb) (Meta, error) {
	if o.hasTriggers() {
		return c.writeTriggeredDocument(ctx, doc, o, v)
	}
	if trace.IsEnabled() {
		defer trace.StartRegion(ctx, "cleave.write").End()
	}
	call, err := c.enterWriting(ctx, fromCaller)
	if err != nil {
		return Meta{}, err
	}
	defer call.Leave()
	r := requests.Get().(*request)
	r.watch = c.db.start()
	defer r.release()
	var given PartitionKey
	if o != nil {
		given = o.Key
	}
	if err := c.checkDocument(v.Precondition(), given); err != nil {
		return Meta{}, err
	}
	if err := c.scan(r, doc, given); err != nil {
		return Meta{}, err
	}
	if c.unique != nil {
		return c.writeAlone(ctx, r, o, v)
	}
	return c.write(ctx, r, o, v.Precondition())
}

// writeAlone is write as a batch of one.
func (c *Container) writeAlone(ctx context.Context, r *request, o *WriteOptions, v verb) (Meta, error) {
	return c.alone(ctx, keyOf(string(r.key.PK)), o, func(b *Batch, o *WriteOptions) error {
		return b.add(v, r.key.ID, r.ver.Body, r.ttl, o)
	})
}

// alone commits a batch of one operation, which add adds.
func (c *Container) alone(ctx context.Context, pk PartitionKey, o *WriteOptions, add func(b *Batch, o *WriteOptions) error) (Meta, error) {
	b := batches.Get().(*Batch)
	b.beginAlone(c, pk)
	defer b.release()
	if o != nil {
		b.Durability = o.Durability
		own := *o
		own.Durability, own.Charge = Durability{}, nil
		if err := add(b, &own); err != nil {
			return Meta{}, err
		}
	} else if err := add(b, nil); err != nil {
		return Meta{}, err
	}
	metas, err := c.Commit(ctx, b)
	o.charged(b.charge)
	if err != nil {
		return Meta{Charge: b.charge}, aloneError(err)
	}
	return metas[0], nil
}

// aloneError returns the error of the only operation of a batch.
func aloneError(err error) error {
	if be, ok := errors.AsType[*BatchError](err); ok {
		return be.Err
	}
	return err
}

// scan fills the request's operation from a document. If given is valid, it must be the
// document's partition key.
func (c *Container) scan(r *request, doc []byte, given PartitionKey) error {
	pk, err := c.scanDocument(r, doc, given)
	if err == nil {
		r.set(pk, r.doc.ID, doc, r.ttl)
	}
	return err
}

// scanDocument sets doc and ttl of the request and returns the partition key.
func (c *Container) scanDocument(r *request, doc []byte, given PartitionKey) (pk []byte, err error) {
	if err = r.scanner.Scan(doc, c.paths, c.scanLimits, &r.doc); err != nil {
		return nil, documentError(err)
	}
	if pk, err = c.keyOf(r, given); err == nil {
		r.ttl = c.ttlOf(&r.doc)
	}
	return pk, err
}

func (c *Container) writeBytes(ctx context.Context, pk PartitionKey, id string, body []byte, o *WriteOptions, v verb) (Meta, error) {
	pk = c.keys.Own(pk)
	if o.hasTriggers() {
		if err := c.checkBytes(v, pk, id, body); err != nil {
			return Meta{}, err
		}
		return c.writeTriggered(ctx, pk, o, &triggered{verb: v, id: id, body: body})
	}
	if trace.IsEnabled() {
		defer trace.StartRegion(ctx, "cleave.write").End()
	}
	call, err := c.enterWriting(ctx, fromCaller)
	if err != nil {
		return Meta{}, err
	}
	defer call.Leave()
	if err := c.checkBytes(v, pk, id, body); err != nil {
		return Meta{}, err
	}
	r := requests.Get().(*request)
	r.watch = c.db.start()
	defer r.release()
	if v == verbDelete {
		r.setTombstone(pk.Encoded(), bytesOf(id))
	} else {
		r.set(pk.Encoded(), bytesOf(id), body, c.defaultTTL())
	}
	if c.unique != nil {
		return c.writeAlone(ctx, r, o, v)
	}
	return c.write(ctx, r, o, v.Precondition())
}

// set fills the request's operation: an item is written.
func (r *request) set(pk, id, body []byte, ttl int64) {
	fillKey(&r.key, &r.epk, pk, id)
	r.ver, r.ttl = item.Version{Body: body}, ttl
}

// setTombstone fills the request's operation: an item, or without an id a logical
// partition, is deleted.
func (r *request) setTombstone(pk, id []byte) {
	fillKey(&r.key, &r.epk, pk, id)
	r.ver, r.ttl = item.Version{Flags: item.Tombstone}, 0
}

// write carries out a request. The call has been entered.
func (c *Container) write(ctx context.Context, r *request, o *WriteOptions, d writebatch.Precondition) (Meta, error) {
	r.precondition, r.ifMatch = d, 0
	var durability Durability
	if o != nil {
		r.ifMatch, durability = uint64(o.IfMatch), o.Durability
	}
	var err error
	if !r.ver.Deleted() {
		if r.ttl, err = c.ttl(o, r.ttl); err != nil {
			return Meta{}, err
		}
	}
	if r.sync, err = c.db.syncs(durability); err != nil {
		return Meta{}, err
	}
	p, w, err := c.place(ctx, r)
	o.charged(r.spent)
	if err == nil {
		err = p.showTimed(w, &r.on)
	}
	r.on.stalled = r.waited
	c.ended(latency.Write, r.watch, p, &r.epk, r.on, err)
	if err != nil {
		return Meta{Charge: r.spent}, err
	}
	return r.meta(c), nil
}

// place does steps 2 to 5 in the partition that the item belongs to. The caller shows
// the record.
func (c *Container) place(ctx context.Context, r *request) (*partition, physical.Record, error) {
	r.waited, r.spent, r.on = 0, 0, waits{}
	limited := r.key.PK
	if r.from == fromCopy {
		limited = nil // a CopyJob takes the throughput of the container only
	}
	for {
		p, err := c.route(limited, &r.epk, r.admission)
		if err != nil {
			return nil, physical.Record{}, err
		}
		w, err := p.apply(ctx, r)
		if err == lsm.ErrMoved {
			continue
		}
		r.spent = r.outcome(err)
		if limited != nil {
			p.spend(r.key.PK, r.spent)
		} else {
			p.Charge(nil, r.spent)
		}
		if err == nil {
			c.db.counters.written(r.size(), r.ver.Deleted())
		}
		return p, w, err
	}
}

// size returns the bytes of key, id and body.
func (r *request) size() int { return len(r.key.PK) + len(r.key.ID) + len(r.ver.Body) }

// apply does steps 2 to 5 in this partition.
func (p *partition) apply(ctx context.Context, r *request) (w physical.Record, err error) {
	size := int64(r.size())
	if r.waited, err = p.db.admit(ctx, p, size); err != nil {
		return physical.Record{}, err
	}
	defer p.db.gate.Done(size)
	for {
		var ahead writebatch.Found
		if r.conditional() {
			if ahead, err = p.lookAhead(r); err != nil {
				return physical.Record{}, p.db.readError(err)
			}
		}
		if err = p.measure(ctx, r); err != nil {
			return physical.Record{}, p.db.readError(err)
		}
		if p.db.opts.lookedAhead != nil {
			p.db.opts.lookedAhead()
		}
		since := p.db.waiting()
		p.Commit.Lock()
		p.db.waited(since, &r.on.locked)
		w, err = p.applyLocked(r, &ahead)
		p.Commit.Unlock()
		r.counted.End(err == nil, r.key.OfPartition(), p.Life.Expires(r.ver.Modified, r.ver.Expires))
		if err == nil {
			return w, nil
		}
		if err = p.refuse(err, w); err != nil {
			return physical.Record{}, err
		}
	}
}

// measure tests the request against the limit of its logical partition, and counts it.
func (p *partition) measure(ctx context.Context, r *request) error {
	size := int64(len(r.ver.Body))
	if p.sizes.Small(&r.counted, size) {
		return nil
	}
	return p.sizes.Count(ctx, &r.counted, &r.key, size, func() (int64, error) { return p.sizes.OfItem(&r.key) })
}

// applyLocked does steps 3 to 5. The record that comes with an error is what the error
// rests on: see refuse. The commit lock is held.
func (p *partition) applyLocked(r *request, ahead *writebatch.Found) (physical.Record, error) {
	if err := p.takesLocked(r.from, &r.counted); err != nil {
		return physical.Record{}, err
	}
	if r.conditional() {
		if early, err := p.checkLocked(r, ahead); err != nil {
			return p.restsLocked(early, r.sync), err
		}
	}
	r.ver.Modified = p.db.stamp()
	if r.from != fromCopy {
		r.ver.Expires = lifetime.Stored(r.ver.Modified, r.ttl)
	}
	r.head = logrecord.AppendHead(r.head[:0], &r.key, &r.ver)
	seq, pos, err := p.db.log.AppendNow(wal.Stream(p.ID), wal.TypeWrite, 1, r.head, r.ver.Body)
	if err != nil {
		return physical.Record{}, p.db.uncertain(err)
	}
	r.ver.Seq = seq
	// Memtables are taken out of use only under the commit lock.
	active := p.Version.Load().Active
	if err := active.Put(&r.key, &r.ver, true); err != nil {
		return physical.Record{}, p.db.lost(err)
	}
	return p.NoteLocked(active, seq, pos, r.sync), nil
}

// lookAhead finds the present version of the request's item without a lock.
func (p *partition) lookAhead(r *request) (found writebatch.Found, err error) {
	guard := p.db.env.Epoch.Enter()
	defer guard.Leave()
	v := p.Version.Load()
	found.Files = v.Generation
	_, found.Exists, err = v.Lookup(&r.key, &r.epk, lsm.MaxSequence, nil, true, &found.Version)
	return found, err
}

// checkLocked tests the request's demand. What lookAhead found in files is still true if
// the set of files is the same; else the error is writebatch.ErrAgain. The memtables are
// asked again. early says that the refusal depends on a version that is not published
// yet. The commit lock is held.
func (p *partition) checkLocked(r *request, ahead *writebatch.Found) (early bool, err error) {
	guard := p.db.env.Epoch.Enter()
	defer guard.Leave()
	v := p.Version.Load()
	if v.Generation != ahead.Files {
		return false, writebatch.ErrAgain
	}
	found, exists := ahead.Version, ahead.Exists
	var newer item.Version
	if v.LookupMemory(r.key.Lookup(), lsm.MaxSequence, &newer) {
		found, exists = newer, true
	}
	err = r.precondition.Check(r.ifMatch, &found, exists, p.Past())
	return err != nil && exists && found.Seq > p.Visible.Load(), err
}

// conditional says whether the write depends on the present version.
func (r *request) conditional() bool { return r.precondition != writebatch.Anything || r.ifMatch != 0 }

func (r *request) meta(c *Container) Meta {
	// One string holds key and id: keeping either keeps both in memory.
	buf := make([]byte, 0, len(r.key.PK)+len(r.key.ID))
	both := string(append(append(buf, r.key.PK...), r.key.ID...))
	return Meta{
		Key:      keyOf(both[:len(r.key.PK)]),
		ID:       both[len(r.key.PK):],
		ETag:     ETag(r.ver.Seq),
		Seq:      r.ver.Seq,
		Modified: time.UnixMilli(r.ver.Modified),
		Expires:  timeOf(c.life.Expires(r.ver.Modified, r.ver.Expires)),
		Charge:   r.charge(),
		Waited:   r.waited,
	}
}
