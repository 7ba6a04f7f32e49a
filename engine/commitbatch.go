package engine

import (
	"context"
	"runtime/trace"
	"time"

	"github.com/cleavestore/cleave/internal/cost"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/keysizes"
	"github.com/cleavestore/cleave/internal/latency"
	"github.com/cleavestore/cleave/internal/logrecord"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/memtable"
	"github.com/cleavestore/cleave/internal/physical"
	"github.com/cleavestore/cleave/internal/uniquekey"
	"github.com/cleavestore/cleave/wal"
)

// A batch is committed like a single write (commit.go), with the differences below.
// The writes of a transaction are a batch too.
//
//   - Step 3 judges the operations in order, each against the present version of its
//     item, or against what an earlier operation of the batch leaves. A transaction
//     judges no operation; it is refused if an item that it wrote or read has changed
//     since its sequence.
//   - Step 4 appends one record with all operations, operation i with the sequence of the
//     record plus i.
//   - Step 5 puts all of them into one memtable, under one hold of the lock, so that no
//     memtable, and no flush, ends in the middle of them.
//   - In a container with unique keys the record and the memtable get claims too, behind
//     the operations: see internal/uniquekey.
//   - Step 7 raises the visible sequence to the last one. Every sequence that a reader or
//     a snapshot takes is the last of some record, so it sees all operations or none.
//
// Commit point: the record is durable.

// commit is a batch that is being committed.
type commit struct {
	*Batch
	tx     *Tx // the transaction whose writes the batch has; nil: none
	sync   bool
	waited time.Duration
	on     waits // without stalled, which is waited

	counted keysizes.Counted
	files   uint64                // state of the set of files when the operations were looked up
	ahead   uint64                // the newest sequence of the partition at that time
	again   int                   // how often a transaction was looked up again
	claims  uniquekey.Reservation // of a container with unique keys

	at       int64  // time at which the batch is judged; 0: the clock's
	first    uint64 // sequence of the first operation
	modified int64  // time stamp
}

// Commit carries out a batch: all of its operations or, after an error, none. It returns
// what it wrote, in the order of the operations; deletes have no ETag. The batch stays as
// it is. An empty batch does nothing.
//
// Errors: *BatchError for the first operation that failed, with ErrExists, ErrNotFound,
// ErrPrecondition or *UniqueKeyError; a *LimitError for a full logical partition; else
// those of Upsert. An item that an earlier operation of the batch wrote has no etag yet:
// no IfMatch matches it.
func (c *Container) Commit(ctx context.Context, b *Batch) ([]Meta, error) {
	if b == nil {
		return nil, invalidf("Commit: no batch is given")
	}
	if b.c != c {
		return nil, invalidf("Commit: the batch is of container %q", b.c.name)
	}
	if b.refused != nil {
		return nil, b.refused
	}
	sync, err := c.db.syncs(b.Durability)
	if err != nil {
		return nil, err
	}
	u := commit{Batch: b, sync: sync}
	if err := u.run(ctx); err != nil || len(b.ops) == 0 {
		return nil, err
	}
	return u.metas(), nil
}

// run commits the batch.
func (u *commit) run(ctx context.Context) error {
	if trace.IsEnabled() {
		defer trace.StartRegion(ctx, "cleave.batch").End()
	}
	enter := u.c.enterWriting
	if u.tx != nil {
		enter = u.c.enterWritingAgain
	}
	call, err := enter(ctx, fromCaller)
	if err != nil {
		return err
	}
	defer call.Leave()
	if len(u.ops) == 0 {
		return nil
	}
	watch := u.c.db.start()
	p, w, err := u.place(ctx)
	if err == nil {
		err = p.showTimed(w, &u.on)
	}
	u.on.stalled = u.waited
	switch {
	case u.tx != nil: // update.run times it
	case u.alone:
		u.c.ended(latency.Write, watch, p, &u.epk, u.on, err)
	default:
		u.c.ended(latency.Batch, watch, p, &u.epk, u.on, err)
	}
	return err
}

// place does steps 2 to 5 in the partition that the batch belongs to. The caller shows
// the record.
func (u *commit) place(ctx context.Context) (*partition, physical.Record, error) {
	if u.tx == nil {
		u.link() // a transaction has one operation for each item
	}
	for {
		p, err := u.c.route(u.pk.Encoded(), &u.epk, u.tx != nil)
		if err != nil {
			return nil, physical.Record{}, err
		}
		w, err := p.applyBatch(ctx, u)
		if err == lsm.ErrMoved {
			continue
		}
		spent := u.outcome(err)
		u.charge += spent
		p.spend(u.pk.Encoded(), spent)
		if err != nil {
			return p, physical.Record{}, err
		}
		u.count()
		return p, w, nil
	}
}

// count counts the operations as written.
func (u *commit) count() {
	for i := range u.ops {
		op := &u.ops[i]
		u.c.db.counters.written(len(u.pk.Encoded())+len(op.data), op.verb == verbDelete)
	}
}

// now returns the time at which the batch is judged.
func (u *commit) now() int64 {
	if u.at != 0 {
		return u.at
	}
	return u.c.nowMillis()
}

// last returns the sequence of the last version, of an operation or a claim.
func (u *commit) last() uint64 { return u.first + uint64(u.versions()) - 1 }

// versions returns how many versions the batch writes.
func (u *commit) versions() int { return len(u.ops) + u.claims.Len() }

// applyBatch does steps 2 to 5 in this partition.
func (p *partition) applyBatch(ctx context.Context, u *commit) (w physical.Record, err error) {
	size := u.size
	if u.patches > 0 { // what patches write is known only when they are applied
		if err = p.lookAheadBatch(ctx, u); err != nil {
			return physical.Record{}, err
		}
		if size, err = u.weigh(); err != nil {
			return physical.Record{}, err
		}
	}
	size += u.claimBytes()
	if u.waited, err = p.db.admit(ctx, p, size); err != nil {
		return physical.Record{}, err
	}
	defer p.db.gate.Done(size)
	for {
		if w, err = p.tryBatch(ctx, u); err == nil {
			return w, nil
		}
		if err == errChanged {
			w = p.conflict()
		}
		if err = p.refuse(err, w); err != nil {
			return physical.Record{}, err
		}
	}
}

// tryBatch does steps 2 to 5 once. The record that comes with an error is what the error
// rests on: see refuse.
func (p *partition) tryBatch(ctx context.Context, u *commit) (physical.Record, error) {
	if err := p.lookAheadBatch(ctx, u); err != nil {
		return physical.Record{}, err
	}
	size := u.size
	if u.patches > 0 {
		var err error
		if size, err = u.weigh(); err != nil {
			return physical.Record{}, err
		}
	}
	if err := p.measureBatch(ctx, u, size); err != nil {
		return physical.Record{}, err
	}
	if p.db.opts.lookedAhead != nil {
		p.db.opts.lookedAhead()
	}
	since := p.db.waiting()
	p.Commit.Lock()
	p.db.waited(since, &u.on.locked)
	w, err := p.applyBatchLocked(u)
	p.Commit.Unlock()
	u.counted.End(err == nil, false)
	return w, err
}

// measureBatch is measure for a batch whose documents have size bytes. Of several
// operations on one item, only the last one counts.
func (p *partition) measureBatch(ctx context.Context, u *commit, size int64) error {
	if p.sizes.Small(&u.counted, size) {
		return nil
	}
	size = 0
	for i := range u.ops {
		if u.ops[i].final {
			size += int64(len(u.ops[i].body()))
		}
	}
	k := u.key(nil)
	return p.sizes.Count(ctx, &u.counted, &k, size, func() (replaced int64, err error) {
		for i := range u.ops {
			if !u.ops[i].final {
				continue
			}
			k := u.key(u.ops[i].id())
			n, err := p.sizes.OfItem(&k)
			if err != nil {
				return 0, err
			}
			replaced += n
		}
		return replaced, nil
	})
}

// applyBatchLocked does steps 3 to 5. The commit lock is held.
func (p *partition) applyBatchLocked(u *commit) (physical.Record, error) {
	if err := p.takesLocked(fromCaller, &u.counted); err != nil {
		return physical.Record{}, err
	}
	if rests, err := p.judgeBatchLocked(u); err != nil {
		if rests > p.Visible.Load() {
			return p.NewestLocked(), err
		}
		return physical.Record{}, err
	}
	u.modified = p.db.stamp()
	payload := u.record[:0]
	for i := range u.versions() {
		key, ver := u.version(i)
		payload = append(logrecord.AppendHead(payload, &key, &ver), ver.Body...)
	}
	u.record = payload
	first, pos, err := p.db.log.AppendNow(wal.Stream(p.ID), wal.TypeWrite, uint32(u.versions()), payload, nil)
	if err != nil {
		return physical.Record{}, p.db.uncertain(err)
	}
	active := p.Version.Load().Active
	if err := u.insertLocked(active, first); err != nil {
		return physical.Record{}, err
	}
	return p.NoteLocked(active, u.last(), pos, u.sync), nil
}

// insertLocked puts the versions of the batch into the memtable, with sequences from
// first on. The commit lock is held.
func (u *commit) insertLocked(active *memtable.Table, first uint64) error {
	u.first = first
	for i := range u.versions() {
		key, ver := u.version(i)
		ver.Seq = first + uint64(i)
		if err := active.Put(&key, &ver, true); err != nil {
			return u.c.db.lost(err)
		}
	}
	return nil
}

// version returns version i of the batch, without its sequence. The versions are those of
// the operations, then the claims, then the tombstones of items that lost their claims.
func (u *commit) version(i int) (item.Key, item.Version) {
	if i >= len(u.ops) {
		return u.claims.Version(i-len(u.ops), u.modified)
	}
	op := &u.ops[i]
	if op.verb == verbDelete {
		return u.key(op.id()), item.Version{Modified: u.modified, Flags: item.Tombstone}
	}
	ver := item.Version{Modified: u.modified, Expires: expires(u.modified, op.ttl), Body: op.body()}
	return u.key(op.id()), ver
}

// lookAheadBatch finds, without a lock, the present versions of the items that the
// operations depend on.
func (p *partition) lookAheadBatch(ctx context.Context, u *commit) error {
	if u.tx != nil {
		p.Commit.Lock()
		u.ahead = p.Commit.LastSeq
		p.Commit.Unlock()
	}
	guard := p.db.env.Epoch.Enter()
	defer guard.Leave()
	v := p.Version.Load()
	u.files = v.Generation
	if u.tx != nil {
		// If nothing was written above the transaction's sequence, there can be no
		// conflict.
		if u.ahead > u.tx.snapshot.seq {
			if err := u.validate(ctx, p, v); err != nil {
				return err
			}
		}
		if u.c.unique == nil {
			return nil
		}
		return u.lookUpClaims(v)
	}
	if cap(u.found) < len(u.ops) {
		u.found = make([]presentVersion, len(u.ops))
	}
	u.found = u.found[:len(u.ops)]
	for i := range u.ops {
		op, found := &u.ops[i], &u.found[i]
		*found = presentVersion{}
		if op.verb == verbPatch {
			if err := p.lookUpPatched(v, u, i); err != nil {
				return err
			}
			continue
		}
		if op.earlier >= 0 || !op.conditional() {
			continue
		}
		var err error
		key := u.key(op.id())
		if _, found.exists, err = v.Lookup(&key, &u.epk, lsm.MaxSequence, nil, true, &found.version); err != nil {
			return p.db.readError(err)
		}
	}
	if u.c.unique != nil {
		return u.lookUpClaims(v)
	}
	return nil
}

// judgeBatchLocked tests what the operations demand, in their order. What was found in
// files stays true while the set of files is the same; the memtables are asked again. On
// a refusal, rests is the newest sequence of the versions that were tested: that of the
// refused operation and those before it. The commit lock is held.
func (p *partition) judgeBatchLocked(u *commit) (rests uint64, err error) {
	guard := p.db.env.Epoch.Enter()
	defer guard.Leave()
	v := p.Version.Load()
	if v.Generation != u.files {
		return 0, errFilesChanged
	}
	if u.tx != nil {
		if err := u.validateLocked(p, v); err != nil || u.c.unique == nil {
			return 0, err
		}
		return u.checkClaimsLocked(v)
	}
	now := u.now()
	for i := range u.ops {
		op, found := &u.ops[i], &u.found[i]
		if !op.conditional() {
			continue
		}
		if op.earlier >= 0 {
			// Its sequence is not known yet, so no etag matches it.
			*found = presentVersion{exists: true}
			if u.ops[op.earlier].verb == verbDelete {
				found.version.Flags = item.Tombstone
			}
		} else {
			key := u.key(op.id())
			var newer item.Version
			if v.LookupMemory(key.Lookup(), lsm.MaxSequence, &newer) {
				if op.outdated(&found.version, &newer) {
					return 0, errFilesChanged
				}
				found.version, found.exists = newer, true
			}
			rests = max(rests, found.sequence())
		}
		err := op.verb.precondition().check(op.ifMatch, &found.version, found.exists, now)
		if err == nil {
			err = op.failed
		}
		if err != nil {
			return rests, &BatchError{Index: i, Op: verbNames[op.verb], Err: err}
		}
	}
	if u.c.unique != nil {
		claims, err := u.checkClaimsLocked(v)
		return max(rests, claims), err
	}
	return 0, nil
}

// outcome returns the RU of the batch, which ended with err.
func (u *commit) outcome(err error) (charge float64) {
	if err != nil {
		return cost.Failed
	}
	for i := range u.ops {
		charge += u.ops[i].charge()
	}
	return charge
}

// charge returns the RU of an operation of a batch that succeeds.
func (op *batchOp) charge() float64 {
	return writeCharge(op.verb.precondition(), op.ifMatch, op.verb == verbDelete, len(op.body()))
}

// metas describes what the batch wrote.
func (u *commit) metas() []Meta {
	all := make([]Meta, len(u.ops))
	at := time.UnixMilli(u.modified)
	ids := u.record[:0]
	for i := range u.ops {
		ids = append(ids, u.ops[i].id()...)
	}
	u.record = ids
	rest := string(ids) // one string for all ids
	for i := range u.ops {
		op := &u.ops[i]
		id := rest[:op.idLen]
		rest = rest[op.idLen:]
		all[i] = Meta{Key: u.pk, ID: id, Seq: u.first + uint64(i), Modified: at, Charge: op.charge(), Waited: u.waited}
		if op.verb != verbDelete {
			all[i].ETag, all[i].Expires = ETag(all[i].Seq), timeOf(expires(u.modified, op.ttl))
		}
	}
	return all
}
