package engine

import (
	"context"
	"errors"
	"slices"

	"github.com/cleavestore/cleave/internal/ctxlock"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/treecut"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/splitter"
)

// A reshape replaces one or two partitions by one or two new ones. It goes
// through these steps, which docs/splits.md draws:
//
//  1. Intent: the store manifest takes up the ids of the children.
//  2. Prepare: the reshape holds the parents' flushing turns and their install locks,
//     so that their files and the records that they need of the log do not change. The
//     children get directories with links to the files, and manifests with bounds
//     and the inherited streams.
//  3. Commit point: the store manifest names the children.
//  4. Swap (swap.go): fences, inherited memtables, the routing table.
//  5. The parents' directories are removed when the last reader has left them.
//  6. The children flush the memtables that they inherited.
//
// A crash before 3 leaves directories that no manifest names. A crash after it leaves
// children that replay the parents' streams. docs/crash-safety.md has the argument.
type reshape struct {
	db  *DB
	c   *Container
	job *ReshapeJob

	parents  []*partition
	plan     splitter.Plan
	children []*partition
	routing  *routing // with the children
	ids      []manifest.Partition
	names    map[uint64]string // of the parents' files
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
	r.db.retire(r.parents)
	if !r.db.opts.keepInheritance {
		for _, p := range r.children {
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
	for _, p := range r.parents {
		if refused := errors.Is(err, splitter.ErrRefused); refused && r.job.load != nil {
			p.c.loadStats.Rest(&p.loadStats, p.db.uptime())
		} else if refused {
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
	stop, err := r.stillParents(ctx)
	defer stop()
	if err != nil {
		return err
	}
	r.c.reshapeMu.Lock() // keeps the container from being dropped
	defer r.c.reshapeMu.Unlock()
	if r.c.dropped.Load() {
		return r.c.gone()
	}
	if err = r.intend(); err != nil {
		return err
	}
	prepared := r.db.opts.clock()
	r.job.update(func(p *ReshapeProgress) { p.Phase, p.Settle = PhasePreparing, prepared.Sub(begun) })
	for _, p := range r.parents {
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
	if err := r.commit(); err != nil {
		r.rollBack(errors.Is(err, ErrOutcomeUnknown))
		return err
	}
	r.job.update(func(p *ReshapeProgress) { p.Phase, p.Commit = PhaseInheriting, r.db.clockSince(committing) })
	for _, child := range r.children { // before the parents' names of the files can be removed
		for _, run := range child.Version.Load().Runs {
			for _, f := range run.Files {
				f.AddName(f.Name)
			}
		}
	}
	return r.swap()
}

// settle finds the parents and flushes what they themselves inherited.
func (r *reshape) settle(ctx context.Context) error {
	for _, id := range r.job.Progress().Parents {
		p := r.c.partition(id)
		if p != nil && p.Lost != nil {
			return p.Lost
		}
		if p == nil {
			return r.c.noPartition(id)
		}
		r.parents = append(r.parents, p)
	}
	for _, p := range r.parents {
		if err := p.EndInheritance(ctx); err != nil {
			return err
		}
		if p.Dropped.Load() {
			return p.c.gone()
		}
	}
	return ctx.Err()
}

// stillParents locks the flushes of the parents. For an automatic job it first locks
// their compaction: the work of one under way would be lost. A compaction may be long,
// and flushes go on while stillParents waits for it. stop unlocks all of them.
func (r *reshape) stillParents(ctx context.Context) (stop func(), err error) {
	var all, held []*ctxlock.Mutex
	stop = func() {
		for _, l := range held {
			l.Unlock()
		}
	}
	if r.job.auto {
		for _, p := range r.parents {
			all = append(all, &p.Compacting)
		}
	}
	for _, p := range r.parents {
		all = append(all, &p.Flushing)
	}
	for _, l := range all {
		if err := l.Lock(ctx); err != nil {
			return stop, err
		}
		held = append(held, l)
	}
	return stop, nil
}

// decide makes the plan.
func (r *reshape) decide() error {
	left, right := r.parents[0].Range, r.parents[len(r.parents)-1].Range
	kind := r.job.Progress().Kind
	if kind == ReshapeMerge {
		var err error
		r.plan, err = splitter.PlanMerge(left, right)
		return err
	}
	if kind == ReshapeSplit && r.c.routing.Load().table.Len() >= maxPartitions {
		return &splitter.Refusal{Reason: splitter.TooMany}
	}
	at, err := r.boundary(partmap.Range{Min: left.Min, Max: right.Max})
	if err != nil {
		return err
	}
	if kind == ReshapeSplit {
		r.plan, err = splitter.PlanSplit(left, at)
	} else {
		r.plan, err = splitter.PlanMove(left, right, at)
	}
	r.job.update(func(p *ReshapeProgress) { p.At = at.String() })
	return err
}

// boundary returns the cut that the job asks for, or the best one.
func (r *reshape) boundary(rng partmap.Range) (at partmap.EPK, err error) {
	if r.job.at != "" {
		if at, err = partmap.ParseEPK(r.job.at); err != nil {
			return at, err
		}
		return splitter.Boundary(at, r.c.levels())
	}
	if r.job.load != nil {
		choice, cutErr := splitter.CutLoad(rng, r.job.load)
		if cutErr != nil {
			return at, cutErr
		}
		return splitter.Boundary(choice.At, r.c.levels())
	}
	choice, err := treecut.Choose(rng, trees(r.parents))
	if errors.Is(err, splitter.ErrRefused) && r.job.midpoint {
		return splitter.Boundary(partmap.Midpoint(rng), r.c.levels())
	}
	if err != nil {
		return at, err
	}
	r.job.update(func(p *ReshapeProgress) { p.LeftBytes, p.RightBytes = choice.Left, choice.Right })
	return splitter.Boundary(choice.At, r.c.levels())
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
	intent := manifest.Intent{Container: r.c.id, Kind: r.plan.Kind.String()}
	for _, p := range r.parents {
		intent.Parents = append(intent.Parents, uint32(p.ID))
	}
	var children []PartitionID
	for _, rng := range r.plan.Children {
		intent.Children = append(intent.Children, manifest.Partition{
			ID: e.NextPartition, Container: r.c.id, Parents: intent.Parents,
			Min: slices.Clone(rng.Min.Bytes()), Max: slices.Clone(rng.Max.Bytes()),
		})
		children = append(children, PartitionID(e.NextPartition))
		e.NextPartition++
	}
	e.Intents = []manifest.Intent{intent} // one at a time
	if err := db.storeManifestLocked(e); err != nil {
		return err
	}
	r.ids = intent.Children
	r.job.update(func(p *ReshapeProgress) { p.Children = children })
	return nil
}

// commit is step 3.
func (r *reshape) commit() error {
	db := r.db
	if len(r.parents) > 1 || r.c.def.Replicated && r.plan.Kind == splitter.Split {
		// One parent may have flushed writes that are newer than the durable log records
		// of the other: a crash must leave a prefix of the writes of both. And the
		// halves of a replicated partition must have all entries that it has applied:
		// an entry that has batches for both halves cannot be applied to either.
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
	e.Intents = nil
	var share float64 // 0: all partitions have equal parts of the throughput
	for _, p := range r.parents {
		share += db.storeManifest.state.Partition(uint32(p.ID)).Share
		e.DropPartitions = append(e.DropPartitions, uint32(p.ID))
	}
	for i := range r.ids {
		r.ids[i].Share = share / float64(len(r.ids))
	}
	e.Partitions = r.ids
	done := manifest.Reshape{Container: r.c.id, Kind: r.plan.Kind.String(), Time: db.opts.clock().UnixMilli()}
	for _, p := range r.parents {
		done.Parents = append(done.Parents, manifest.Former{
			ID: uint32(p.ID), Min: slices.Clone(p.Range.Min.Bytes()), Max: slices.Clone(p.Range.Max.Bytes()),
		})
	}
	for _, child := range r.ids {
		done.Children = append(done.Children, child.ID)
	}
	e.History = []manifest.Reshape{done}
	return db.storeManifestLocked(e)
}

// rollBack undoes steps 1 and 2, unless the store manifest may name the children: then
// the store has failed.
func (r *reshape) rollBack(named bool) {
	db := r.db
	db.discard(r.children, named)
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
