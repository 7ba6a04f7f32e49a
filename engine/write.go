package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cleavestore/cleave/internal/cost"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/logrecord"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/memtable"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/wal"
)

// A write goes through these steps:
//
//  1. The document is scanned once; id and partition key come from that scan.
//  2. What the write demands of the present version (absent, present, etag) is
//     looked up without a lock.
//  3. Under the partition's commit lock the memtables are asked again,
//     versions that are not published yet included. If the set of files
//     changed since step 2, step 2 is repeated.
//  4. The record is appended to the log's buffer, which gives the sequence.
//  5. The version is put into the memtable, unpublished; the lock is released.
//  6. The record is written, and synced if the write asks for it. A buffered
//     write behind a synced one of its partition waits for that one's sync.
//  7. The partition's visible sequence rises to the write's.
//
// Commit point: the record is durable (6). A crash before it loses the write,
// which no reader saw; a crash after it finds the record at recovery. If 6 fails
// the store has failed: 7 never happens, and the memtable is never flushed.

// demand is what a write requires of the present version of its item.
type precondition uint8

const (
	anything precondition = iota
	absent                // Create
	present               // Replace, Delete
	stale                 // the expirer: the version has the etag, expired or not
)

// request is a write under way. It is pooled: the scanner's scratch and the
// record's head are reused.
type request struct {
	key          item.Key
	epk          partmap.EPK
	ver          item.Version // Seq is set under the commit lock
	precondition precondition
	ifMatch      ETag
	ttl          int64 // milliseconds, 0: for ever
	sync         bool
	copying      bool // by a Copy: ver.Expires is kept
	waited       time.Duration
	counted      // set by measure

	scanner jsondoc.Scanner
	doc     jsondoc.Doc
	derived []byte // scratch of a synthetic key
	head    []byte
}

var requests = sync.Pool{New: func() any { return new(request) }}

func (r *request) release() {
	r.ver.Body, r.counted, r.copying = nil, counted{}, false
	if cap(r.head) > 64<<10 {
		r.head = nil
	}
	requests.Put(r)
}

// Create writes a new item. It returns ErrExists if the item exists,
// *DocumentError for a document that is refused.
func (c *Container) Create(ctx context.Context, doc []byte, o *WriteOptions) (Meta, error) {
	return c.writeDocument(ctx, doc, o, absent)
}

// Upsert writes an item whether or not it exists. Errors: *DocumentError,
// ErrPrecondition, ErrLogicalPartitionFull, ErrBusy, ErrDiskFull, ErrClosed,
// ErrReadOnly, ErrFailed.
func (c *Container) Upsert(ctx context.Context, doc []byte, o *WriteOptions) (Meta, error) {
	return c.writeDocument(ctx, doc, o, anything)
}

// Replace writes an item that exists; ErrNotFound otherwise.
func (c *Container) Replace(ctx context.Context, doc []byte, o *WriteOptions) (Meta, error) {
	return c.writeDocument(ctx, doc, o, present)
}

// Delete deletes an item; ErrNotFound if there is none. WriteOptions.Charge tells
// what it cost.
func (c *Container) Delete(ctx context.Context, pk PartitionKey, id string, o *WriteOptions) error {
	_, err := c.writeBytes(ctx, pk, id, nil, o, present, item.Tombstone)
	return err
}

// Put writes an item of an opaque container, whether or not it exists. The
// body is any bytes, the id any text, also with slashes. Errors are those of
// Upsert, with ErrTooLarge for body and id.
func (c *Container) Put(ctx context.Context, pk PartitionKey, id string, body []byte, o *WriteOptions) (Meta, error) {
	if c.def.Kind != Opaque {
		return Meta{}, invalidf("Put: container %q holds documents; use Upsert", c.name)
	}
	return c.writeBytes(ctx, pk, id, body, o, anything, 0)
}

func (c *Container) writeDocument(ctx context.Context, doc []byte, o *WriteOptions, d precondition) (Meta, error) {
	call, err := c.enter(ctx)
	if err != nil {
		return Meta{}, err
	}
	defer call.Leave()
	if c.def.Kind != JSON {
		return Meta{}, invalidf("container %q is opaque; use Put", c.name)
	}
	r := requests.Get().(*request)
	defer r.release()
	var given PartitionKey
	if o != nil {
		given = o.Key
	}
	if err := c.mayWrite(d, given); err != nil {
		return Meta{}, err
	}
	if err := c.scan(r, doc, given); err != nil {
		return Meta{}, err
	}
	if c.unique != nil {
		return c.writeAlone(ctx, r, o, [...]verb{anything: verbUpsert, absent: verbCreate, present: verbReplace}[d])
	}
	return c.write(ctx, r, o, d)
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
	b.begin(c, pk)
	b.alone = true
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
	if err != nil {
		return err
	}
	return r.set(pk, r.doc.ID, doc, 0)
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

func (c *Container) writeBytes(ctx context.Context, pk PartitionKey, id string, body []byte, o *WriteOptions, d precondition, flags item.Flags) (Meta, error) {
	call, err := c.enter(ctx)
	if err != nil {
		return Meta{}, err
	}
	defer call.Leave()
	if err := c.checkKey(pk, id); err != nil {
		return Meta{}, err
	}
	if int64(len(body)) > c.def.Limits.ItemBytes {
		return Meta{}, &LimitError{What: "item body", Size: int64(len(body)), Limit: c.def.Limits.ItemBytes, Kind: ErrTooLarge}
	}
	r := requests.Get().(*request)
	defer r.release()
	if err := r.set(pk.Encoded(), bytesOf(id), body, flags); err != nil {
		return Meta{}, err
	}
	if r.ttl = 0; flags&item.Tombstone == 0 {
		r.ttl = max(0, c.def.DefaultTTL.Milliseconds())
	}
	if c.unique != nil {
		return c.writeAlone(ctx, r, o, verbDelete)
	}
	return c.write(ctx, r, o, d)
}

func (r *request) set(pk, id, body []byte, flags item.Flags) error {
	fillKey(&r.key, &r.epk, pk, id)
	r.ver = item.Version{Flags: flags, Body: body}
	return nil
}

func (c *Container) write(ctx context.Context, r *request, o *WriteOptions, d precondition) (Meta, error) {
	db := c.db
	if err := c.writable(); err != nil {
		return Meta{}, err
	}
	r.precondition, r.ifMatch, r.waited = d, 0, 0
	var durability Durability
	if o != nil {
		r.ifMatch, durability = o.IfMatch, o.Durability
	}
	var err error
	if !r.ver.Deleted() {
		if r.ttl, err = c.ttl(o, r.ttl); err != nil {
			return Meta{}, err
		}
	}
	if r.sync, err = db.syncs(durability); err != nil {
		return Meta{}, err
	}
	for {
		rt := c.routing.Load()
		p := rt.parts[rt.table.Find(&r.epk)]
		m := p.meter.Load()
		if m != nil {
			if err := p.admit(m); err != nil {
				return Meta{}, err
			}
		}
		seq, pos, need, err := p.apply(ctx, r)
		if err == lsm.ErrMoved {
			continue
		}
		o.charged(r.outcome(err))
		if m != nil {
			m.Charge(db.uptime(), r.outcome(err))
		}
		if db.sampled() {
			p.sample(r.key.PK, r.outcome(err))
		}
		if err != nil {
			return Meta{Charge: cost.Failed}, err
		}
		if err := db.await(pos, need); err != nil {
			return Meta{}, err
		}
		if err := p.publish(seq); err != nil {
			return Meta{}, err
		}
		db.counters.written(len(r.key.PK)+len(r.key.ID)+len(r.ver.Body), r.ver.Deleted())
		return r.meta(), nil
	}
}

// syncs says whether a write with this durability, or the store's default, waits
// for a sync.
func (db *DB) syncs(d Durability) (bool, error) {
	switch d.mode {
	case durabilityDefault:
		return db.opts.Durability.mode == durabilitySynced, nil
	case durabilityInterval:
		return false, invalidf("Durability: interval is a store option")
	}
	return d.mode == durabilitySynced, nil
}

// await waits until the log is written up to pos, and synced up to need.
func (db *DB) await(pos, need wal.Position) error {
	if need < pos {
		if err := db.log.Wait(pos, false); err != nil {
			return db.uncertain(err)
		}
	}
	if need > 0 {
		if err := db.log.Wait(need, true); err != nil {
			return db.uncertain(err)
		}
	}
	return nil
}

// apply does steps 2 to 5. It returns the sequence of the write, the end of its record
// in the log, and need: the log must be synced up to there before the write may be
// shown.
func (p *partition) apply(ctx context.Context, r *request) (seq uint64, pos, need wal.Position, err error) {
	size := int64(len(r.key.PK) + len(r.key.ID) + len(r.ver.Body))
	if r.waited, err = p.db.admit(ctx, p, size); err != nil {
		return 0, 0, 0, err
	}
	defer p.db.admitted(size)
	for {
		var ahead presentVersion
		if r.conditional() {
			if ahead, err = p.lookAhead(r); err != nil {
				return 0, 0, 0, err
			}
		}
		if err = p.measure(ctx, r); err != nil {
			return 0, 0, 0, err
		}
		if p.db.opts.lookedAhead != nil {
			p.db.opts.lookedAhead()
		}
		p.mu.Lock()
		seq, pos, need, err = p.applyLocked(r, &ahead)
		p.mu.Unlock()
		if err == nil {
			if r.key.OfPartition() {
				p.full.forget(r.key.PK)
			}
			return seq, pos, need, nil
		}
		r.counted.takeBack()
		if err == errFilesChanged {
			continue
		}
		if err == wal.ErrNoFile {
			if err = p.db.makeLogFile(); err != nil {
				return 0, 0, 0, err
			}
			continue
		}
		if need > 0 {
			// The refusal depends on a version that readers do not see yet and that a
			// crash may take back. Wait until that version is durable, and publish it,
			// before refusing.
			if waitErr := p.db.await(pos, need); waitErr != nil {
				return 0, 0, 0, waitErr
			}
			if showErr := p.publish(seq); showErr != nil {
				return 0, 0, 0, showErr
			}
		}
		return 0, 0, 0, err
	}
}

// makeLogFile makes the log file that an append under a commit lock found missing.
func (db *DB) makeLogFile() error { return db.uncertain(db.log.MakeFile()) }

// errFilesChanged says that what lookAhead found may not be true any more.
var errFilesChanged = errors.New("set of files changed")

// applyLocked does steps 3 to 5. On a failed precondition with need above 0, first wait
// for log position need and publish seq: the conflicting version is not durable yet. The
// commit lock is held.
func (p *partition) applyLocked(r *request, ahead *presentVersion) (seq uint64, pos, need wal.Position, err error) {
	if p.Dropped.Load() {
		return 0, 0, 0, p.gone()
	}
	if err = p.c.accepts(r.copying); err != nil {
		return 0, 0, 0, err
	}
	if r.conditional() {
		if early, refusal := p.checkLocked(r, ahead); early {
			return p.mu.lastSeq, p.mu.last, max(p.mu.synced, 1), refusal
		} else if refusal != nil {
			return 0, 0, 0, refusal
		}
	}
	r.ver.Modified = p.db.stamp()
	if !r.copying {
		r.ver.Expires = expires(r.ver.Modified, r.ttl)
	}
	r.head = logrecord.AppendHead(r.head[:0], &r.key, &r.ver)
	seq, pos, err = p.db.log.AppendNow(wal.Stream(p.ID), wal.TypeWrite, 1, r.head, r.ver.Body)
	if err != nil {
		return 0, 0, 0, p.db.uncertain(err)
	}
	r.ver.Seq = seq
	// The record has its place in the log, so the version must enter the memtable, even
	// above the memory limit: admit has bounded the overdraft. Memtables are taken out
	// of use only under the commit lock.
	active := p.Version.Load().Active
	if err := active.Put(&r.key, &r.ver, true); err != nil {
		p.db.fail(err)
		return 0, 0, 0, p.db.writable()
	}
	return seq, pos, p.noteAppliedLocked(active, seq, pos, r.sync), nil
}

// noteAppliedLocked notes a record whose versions are in the memtable; seq is the last
// one's sequence. It returns the log position that must be synced before the record may
// be shown. The commit lock is held.
func (p *partition) noteAppliedLocked(active *memtable.Table, seq uint64, pos wal.Position, sync bool) (need wal.Position) {
	p.mu.last, p.mu.lastSeq = pos, seq
	if sync || p.mu.allSynced {
		p.mu.synced = pos
	} else {
		p.mu.lazy = pos
	}
	need = p.mu.synced
	if active.Bytes() >= p.db.opts.memtableBytes {
		p.freezeLocked()
		p.db.wakeFlusher()
	} else if n := active.Reserved(); n != p.mu.reserved {
		// Other processors write to the cache lines that ripe reads: do not ask for
		// every record.
		if p.mu.reserved = n; p.db.ripe() && p.db.work.mayFlush() {
			p.db.wakeFlusher()
		}
	}
	return need
}

// presentVersion is the newest version of an item as it was found without a lock.
type presentVersion struct {
	files   uint64 // state of the set of files that was looked at
	version item.Version
	exists  bool
}

// sequence returns the version's sequence, 0 if there is none.
func (i *presentVersion) sequence() uint64 {
	if !i.exists {
		return 0
	}
	return i.version.Seq
}

// lookAhead finds the present version of the request's item without a lock.
func (p *partition) lookAhead(r *request) (found presentVersion, err error) {
	guard := p.db.env.Epoch.Enter()
	defer guard.Leave()
	v := p.Version.Load()
	found.files = v.Generation
	_, found.exists, err = v.Lookup(&r.key, &r.epk, lsm.MaxSequence, nil, true, &found.version)
	return found, err
}

// checkLocked tests the request's demand. What lookAhead found in files is still true if
// the set of files is the same; else the error is errFilesChanged. The memtables are
// asked again. early says that the refusal depends on a version that is not published
// yet. The commit lock is held.
func (p *partition) checkLocked(r *request, ahead *presentVersion) (early bool, err error) {
	guard := p.db.env.Epoch.Enter()
	defer guard.Leave()
	v := p.Version.Load()
	if v.Generation != ahead.files {
		return false, errFilesChanged
	}
	found, exists := ahead.version, ahead.exists
	var newer item.Version
	if v.LookupMemory(r.key.Lookup(), lsm.MaxSequence, &newer) {
		found, exists = newer, true
	}
	err = r.precondition.check(r.ifMatch, &found, exists, p.c.nowMillis())
	return err != nil && exists && found.Seq > p.Visible.Load(), err
}

// demanding says whether the write depends on the present version.
func (r *request) conditional() bool { return r.precondition != anything || r.ifMatch != 0 }

// judge tests a demand, and the etag that must match unless it is 0, against
// the present version.
func (d precondition) check(ifMatch ETag, v *item.Version, exists bool, now int64) error {
	if d == stale {
		if !exists || ETag(v.Seq) != ifMatch {
			return ErrPrecondition
		}
		return nil
	}
	exists = exists && lsm.Shown(v, now)
	switch {
	case d == absent && exists:
		return ErrExists
	case d == present && !exists:
		return ErrNotFound
	case ifMatch != 0 && (!exists || ETag(v.Seq) != ifMatch):
		return ErrPrecondition
	}
	return nil
}

func (r *request) meta() Meta {
	// One string holds key and id: keeping either keeps both in memory.
	buf := make([]byte, 0, len(r.key.PK)+len(r.key.ID))
	both := string(append(append(buf, r.key.PK...), r.key.ID...))
	return Meta{
		Key:      keyOf(both[:len(r.key.PK)]),
		ID:       both[len(r.key.PK):],
		ETag:     ETag(r.ver.Seq),
		Seq:      r.ver.Seq,
		Modified: time.UnixMilli(r.ver.Modified),
		Expires:  timeOf(r.ver.Expires),
		Charge:   r.charge(),
		Waited:   r.waited,
	}
}
