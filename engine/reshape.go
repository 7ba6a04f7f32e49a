package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cleavestore/cleave/internal/physical"
	"github.com/cleavestore/cleave/internal/reshaping"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/splitter"
	"github.com/cleavestore/cleave/wal"
)

// reshape is a running ReshapeJob: internal/reshaping numbers the steps.
type reshape struct {
	reshaping.Steps
	db  *DB
	c   *Container
	job *ReshapeJob

	from, to []*partition // the parents and the children, as this package has them
	routing  *routing     // with the children
}

// run carries the job out.
func (r *reshape) run(ctx context.Context) error {
	err := r.toChildren(ctx)
	r.forget(err)
	if err != nil {
		return err
	}
	// From here on the job only goes forward.
	swapped := r.db.opts.clock()
	r.c.divide()
	r.db.retire(r.from)
	if !r.db.opts.keepInheritance {
		for _, p := range r.to {
			if err := p.EndInheritance(r.db.work.Context()); err != nil {
				r.db.backgroundError("end an inheritance", err) // it is tried again
			}
		}
	}
	if err := r.db.retention.Release(); err != nil {
		r.db.backgroundError("release log files", err)
	}
	r.job.update(func(p *ReshapeProgress) { p.Inherit = r.db.clockSince(swapped) })
	r.db.work.RewriteSoon()
	return nil
}

// forget notes on the parents how the job ended: that decides when they may split
// by themselves again.
func (r *reshape) forget(err error) {
	for _, p := range r.from {
		if refused := errors.Is(err, splitter.ErrRefused); refused && r.job.load != nil {
			p.c.loadStats.Rest(&p.loadStats, p.db.uptime())
		} else if refused && r.job.Progress().Kind == ReshapeSplit && r.job.at == "" && !r.job.midpoint {
			p.refusedAt.Store(max(1, p.Version.Load().LiveBytes()))
		}
		if r.job.auto {
			if err != nil && !errors.Is(err, splitter.ErrRefused) {
				p.cutting.Failed()
			}
			p.queued.Store(nil)
			r.db.work.RewriteSoon() // trims gave way to the split
		}
	}
}

// toChildren does steps 1 to 4.
func (r *reshape) toChildren(ctx context.Context) error {
	begun := r.db.opts.clock()
	r.job.update(func(p *ReshapeProgress) { p.Phase = PhaseSettling })
	if err := r.settle(ctx); err != nil {
		return err
	}
	if err := r.decide(); err != nil {
		return err
	}
	stop, err := r.Still(ctx, r.job.auto) // the compaction of an automatic job's parents would be lost
	defer stop()
	if err != nil {
		return err
	}
	if err = r.c.reshapeMu.Lock(ctx); err != nil { // keeps the container from being dropped
		return err
	}
	defer r.c.reshapeMu.Unlock()
	if r.c.dropped.Load() {
		return r.c.gone()
	}
	if err = r.intend(); err != nil {
		return err
	}
	prepared := r.db.opts.clock()
	r.job.update(func(p *ReshapeProgress) { p.Phase, p.Settle = PhasePreparing, prepared.Sub(begun) })
	for _, p := range r.from {
		p.Install.Lock()
		defer p.Install.Unlock()
	}
	err = r.prepare(ctx)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		r.rollBack(false)
		return err
	}
	committing := r.db.opts.clock()
	r.job.update(func(p *ReshapeProgress) { p.Phase, p.Prepare = PhaseCommitting, committing.Sub(prepared) })
	if err := r.store(); err != nil {
		r.rollBack(errors.Is(err, ErrOutcomeUnknown))
		return err
	}
	r.job.update(func(p *ReshapeProgress) { p.Phase, p.Commit = PhaseInheriting, r.db.clockSince(committing) })
	r.NameFiles()
	return r.swap()
}

// settle finds the parents and flushes what they themselves inherited.
func (r *reshape) settle(ctx context.Context) error {
	for _, id := range r.job.Progress().Parents {
		p := r.c.partition(id)
		if p == nil {
			return r.c.noPartition(id)
		}
		if r.from = append(r.from, p); p.Lost != nil {
			return p.Lost
		}
	}
	r.Env, r.Container, r.Parents = &r.db.env, r.c.id, physicals(r.from)
	for _, p := range r.from {
		if err := p.EndInheritance(ctx); err != nil {
			return err
		}
		if p.Dropped.Load() {
			return p.c.gone()
		}
	}
	return ctx.Err()
}

// decide makes the plan.
func (r *reshape) decide() error {
	kind := r.job.Progress().Kind
	if kind == ReshapeSplit && r.c.routing.Load().table.Len() >= maxPartitions {
		return &splitter.Refusal{Reason: splitter.TooMany}
	}
	choice, err := r.Decide(splitter.Kind(kind), reshaping.Cut{At: r.job.at, Load: r.job.load, Midpoint: r.job.midpoint})
	if choice != (splitter.Choice{}) {
		r.job.update(func(p *ReshapeProgress) {
			p.At, p.LeftBytes, p.RightBytes = choice.At.String(), choice.Left, choice.Right
		})
	}
	return err
}

// intend is step 1. It locks creating because CreateContainer relies on the next
// ids not to change.
func (r *reshape) intend() error {
	db := r.db
	db.creating.Lock()
	defer db.creating.Unlock()
	db.storeManifest.Lock()
	defer db.storeManifest.Unlock()
	if err := db.writable(); err != nil {
		return err
	}
	e := db.storeManifest.state.Edit()
	children := r.Intend(e)
	if err := db.storeManifestLocked(e); err != nil {
		return err
	}
	r.job.update(func(p *ReshapeProgress) { p.Children = children })
	return nil
}

// prepare is step 2. install of the parents is locked.
func (r *reshape) prepare(ctx context.Context) error {
	copied, err := r.Prepare(ctx, func(e partmap.Entry) *physical.Partition {
		child := r.c.newPartition(e)
		r.to = append(r.to, child)
		return &child.Partition
	})
	r.job.update(func(p *ReshapeProgress) { p.CopiedBytes += copied })
	if err != nil {
		return err
	}
	return r.makeRouting()
}

// makeRouting builds the routing table with the children in the parents' place.
func (r *reshape) makeRouting() error {
	old := r.c.routing.Load()
	var entries []partmap.Entry
	next := new(routing)
	for i, p := range old.parts {
		if p == r.from[0] {
			for _, child := range r.to {
				entries = append(entries, partmap.Entry{ID: child.ID, Range: child.Range})
				next.parts = append(next.parts, child)
			}
		}
		if !slices.Contains(r.from, p) {
			entries = append(entries, old.table.Entry(i))
			next.parts = append(next.parts, p)
		}
	}
	table, err := partmap.NewTable(entries)
	if err != nil {
		return fmt.Errorf("routing table: %w", err)
	}
	next.table = table
	r.routing = next
	return nil
}

// store is step 3.
func (r *reshape) store() error {
	db := r.db
	if r.SyncsLog() {
		if err := db.uncertain(db.log.Sync()); err != nil {
			return err
		}
	}
	db.storeManifest.Lock()
	defer db.storeManifest.Unlock()
	if err := db.writable(); err != nil {
		return err
	}
	e := db.storeManifest.state.Edit()
	r.Commit(e, &db.storeManifest.state, db.clockMillis())
	return db.storeManifestLocked(e)
}

// rollBack undoes steps 1 and 2, unless the store manifest may name the children: then
// the store has failed.
func (r *reshape) rollBack(named bool) {
	db := r.db
	db.env.Discard(physicals(r.to), named)
	db.storeManifest.Lock()
	defer db.storeManifest.Unlock()
	if db.writable() != nil {
		return
	}
	e := db.storeManifest.state.Edit()
	e.Intents = nil
	if err := db.storeManifestLocked(e); err != nil {
		db.backgroundError("take back an intent", err)
	}
}

// swap is step 4 of a reshape, and its only pause. install of the parents is locked.
func (r *reshape) swap() (err error) {
	db := r.db
	defer func() {
		if err != nil {
			r.db.env.Discard(physicals(r.to), true) // the store has failed: the parents serve its readers
		}
	}()
	// Write the log's buffer now, so that nothing is left to write while the locks are
	// held. Where the disk is full it stays in the buffer: the children then wait for
	// room, as the parents did.
	if err = db.log.Wait(db.log.Appended(), false); err != nil && !errors.Is(err, wal.ErrStalled) {
		return db.uncertain(err)
	}
	if len(r.from) > 1 {
		err = r.SyncParents()
		// Until there is room, or Close: calls that it waits for may want these locks.
		for errors.Is(err, wal.ErrStalled) && !db.closing.Load() && db.work.Sleep(nil, 10*time.Millisecond) {
			err = r.SyncParents()
		}
		if err != nil {
			db.fail(err) // the manifest names the children: there is no way back
			return err
		}
	}
	r.Lock()
	start := db.opts.clock()
	err = r.swapLocked()
	swapped := db.opts.clock()
	r.Unlock()
	if err != nil {
		return err
	}
	db.times.pauses[r.Plan.Kind].Record(swapped.Sub(start), 1)
	r.job.update(func(p *ReshapeProgress) { p.Pause, p.Swapped = swapped.Sub(start), swapped })
	return nil
}

// swapLocked lets the children take the place of the parents. The commit locks
// of the parents are held.
func (r *reshape) swapLocked() error {
	if err := r.TakeOverLocked(); err != nil {
		return err
	}
	r.inheritMeters()
	r.c.routing.Store(r.routing)
	for _, p := range r.from {
		p.EndLocked()
	}
	return nil
}
