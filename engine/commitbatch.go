package engine

import (
	"cmp"
	"context"
	"runtime/trace"
	"time"

	"github.com/cleavestore/cleave/internal/latency"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/physical"
	"github.com/cleavestore/cleave/internal/writebatch"
)

// A batch is committed like a single write (commit.go): internal/writebatch says what is
// different. The writes of a transaction are a batch too.

// commit is a batch that is being committed.
type commit struct {
	writebatch.Commit
	b      *Batch // whose operations Commit has
	tx     *Tx    // the transaction whose writes the batch has; nil: none
	sync   bool
	waited time.Duration
	on     waits // without stalled, which is waited

	admission admission
}

func newCommit(b *Batch, sync bool) commit {
	return commit{Commit: writebatch.Commit{Batch: &b.writes}, b: b, sync: sync}
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
	if err := b.usable(); err != nil {
		return nil, err
	}
	if b.c != c {
		return nil, invalidf("Commit: the batch is of container %q", b.c.name)
	}
	sync, err := c.db.syncs(b.Durability)
	if err != nil {
		return nil, err
	}
	u := newCommit(b, sync)
	if err := u.run(ctx); err != nil || u.Len() == 0 {
		return nil, err
	}
	return u.metas(), nil
}

// run commits the batch.
func (u *commit) run(ctx context.Context) error {
	if trace.IsEnabled() {
		defer trace.StartRegion(ctx, "cleave.batch").End()
	}
	c := u.b.c
	enter := c.enterWriting
	if u.tx != nil {
		enter = c.enterWritingAgain
	}
	call, err := enter(ctx, fromCaller)
	if err != nil {
		return err
	}
	defer call.Leave()
	if u.Len() == 0 {
		return nil
	}
	watch := c.db.start()
	p, w, err := u.place(ctx)
	if err == nil {
		err = p.showTimed(w, &u.on)
	}
	u.on.stalled = u.waited
	switch {
	case u.tx != nil: // update.run times it
	case u.b.alone:
		c.ended(latency.Write, watch, p, u.EPK(), u.on, err)
	default:
		c.ended(latency.Batch, watch, p, u.EPK(), u.on, err)
	}
	return err
}

// place does steps 2 to 5 in the partition that the batch belongs to. The caller shows
// the record.
func (u *commit) place(ctx context.Context) (*partition, physical.Record, error) {
	if u.tx == nil {
		u.Link() // a transaction has one operation for each item
	}
	pk := u.b.pk.Encoded()
	for {
		p, err := u.b.c.route(pk, u.EPK(), u.admission)
		if err != nil {
			return nil, physical.Record{}, err
		}
		w, err := p.applyBatch(ctx, u)
		if err == lsm.ErrMoved {
			continue
		}
		spent := u.Charge(err)
		u.b.charge += spent
		p.spend(pk, spent)
		if err != nil {
			return p, physical.Record{}, err
		}
		u.count()
		return p, w, nil
	}
}

// count counts the operations as written.
func (u *commit) count() {
	for i := range u.Ops {
		op := &u.Ops[i]
		u.b.c.db.counters.written(len(u.b.pk.Encoded())+len(op.ID())+len(op.Body()), op.Deletes())
	}
}

// applyBatch does steps 2 to 5 in this partition.
func (p *partition) applyBatch(ctx context.Context, u *commit) (w physical.Record, err error) {
	if u.Patches() { // what patches write is known only when they are applied
		if err = p.lookAheadBatch(ctx, u); err != nil {
			return physical.Record{}, err
		}
	}
	size, err := u.Weigh()
	if err != nil {
		return physical.Record{}, err
	}
	size += u.ClaimBytes()
	if u.waited, err = p.db.admit(ctx, p, size); err != nil {
		return physical.Record{}, err
	}
	defer p.db.gate.Done(size)
	for {
		if w, err = p.tryBatch(ctx, u); err == nil {
			return w, nil
		}
		if err == writebatch.ErrChanged {
			w = p.conflict()
		}
		if err = cmp.Or(p.refuse(err, w), ctx.Err()); err != nil {
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
	size, err := u.Weigh()
	if err != nil {
		return physical.Record{}, err
	}
	if err = u.Measure(ctx, &p.sizes, size); err != nil {
		return physical.Record{}, p.db.readError(err)
	}
	if p.db.opts.lookedAhead != nil {
		p.db.opts.lookedAhead()
	}
	since := p.db.waiting()
	p.Commit.Lock()
	p.db.waited(since, &u.on.locked)
	w, err := p.applyBatchLocked(u)
	p.Commit.Unlock()
	u.Counted.End(err == nil, false, u.Expires(p.Life))
	return w, err
}

// lookAheadBatch is step 2.
func (p *partition) lookAheadBatch(ctx context.Context, u *commit) error {
	err := u.LookAhead(ctx, &p.Partition)
	if err != nil && err != writebatch.ErrChanged {
		return p.db.readError(err)
	}
	return err
}

// applyBatchLocked does steps 3 to 5. The commit lock is held.
func (p *partition) applyBatchLocked(u *commit) (physical.Record, error) {
	if err := p.takesLocked(fromCaller, &u.Counted); err != nil {
		return physical.Record{}, err
	}
	if rests, err := u.JudgeLocked(&p.Partition); err != nil {
		return p.restsLocked(rests > p.Visible.Load(), u.sync), err
	}
	return u.WriteLocked(&p.Partition, p.db.stamp(), u.sync)
}

// conflict counts a conflict. It returns the newest record of the partition: once that is
// shown, the next try of the transaction reads the version that it conflicts with.
func (p *partition) conflict() physical.Record {
	p.db.counters.conflicts.Add(1)
	w, _ := p.Newest()
	return w
}

// metas describes what the batch wrote.
func (u *commit) metas() []Meta {
	all := make([]Meta, len(u.Ops))
	at := time.UnixMilli(u.Modified)
	ids := u.Scratch[:0]
	for i := range u.Ops {
		ids = append(ids, u.Ops[i].ID()...)
	}
	u.Scratch = ids
	rest := string(ids) // one string for all ids
	for i := range u.Ops {
		op := &u.Ops[i]
		n := len(op.ID())
		id := rest[:n]
		rest = rest[n:]
		all[i] = Meta{Key: u.b.pk, ID: id, Seq: u.First + uint64(i), Modified: at, Charge: op.Charge(), Waited: u.waited}
		if !op.Deletes() {
			all[i].ETag, all[i].Expires = ETag(all[i].Seq), u.b.c.expires(u.b.pk, u.Modified, op.Expires(u.Modified))
		}
	}
	return all
}
