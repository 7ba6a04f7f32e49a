package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/cleavestore/cleave/internal/lsm"
)

// rewriting calls work with the compacting lock of the partition held. If the lock is
// taken, it waits for it if wait is set, and else does nothing.
func (p *partition) rewriting(ctx context.Context, wait bool, work func() (done bool, err error)) (done bool, err error) {
	if !wait {
		if !p.Compacting.TryLock() {
			return false, nil
		}
	} else if err = p.Compacting.Lock(ctx); err != nil {
		return false, err
	}
	defer p.Compacting.Unlock()
	done, err = work()
	p.db.env.Reclaim.NowIfManual()
	return done, err
}

// compactOne compacts runs of like size, unless another compaction runs in the partition.
func (p *partition) compactOne(ctx context.Context) (bool, error) {
	return p.rewriting(ctx, false, func() (bool, error) { return p.compactRuns(ctx, p.PickTiers) })
}

// compactBy waits for its turn to compact in the partition, and compacts what choose
// picks.
func (p *partition) compactBy(ctx context.Context, choose lsm.Picker) (bool, error) {
	return p.rewriting(ctx, true, func() (bool, error) { return p.compactRuns(ctx, choose) })
}

// compactRuns carries out one compaction; done is false if there was nothing to do. The
// compacting lock is held.
func (p *partition) compactRuns(ctx context.Context, choose lsm.Picker) (done bool, err error) {
	start := p.db.opts.clock()
	job := p.job("compaction")
	defer job.End()
	c, done, err := p.Compact(ctx, func(runs []*lsm.Run, last bool) (plan lsm.CompactionPlan, err error) {
		if plan, err = choose(runs, last); plan.End > plan.First {
			job.Start(ctx)
		}
		return plan, err
	})
	if err != nil || !done {
		return false, err
	}
	p.db.gate.Release() // writes that wait for fewer runs
	p.tellCompacted(&c, start, CompactionEvent{})
	return true, nil
}

// tellCompacted counts a compaction and sends its event. event says of which kind it was.
func (p *partition) tellCompacted(c *lsm.Compacted, start time.Time, event CompactionEvent) {
	event.Container, event.Partition, event.Runs = p.c.name, p.ID, int(c.Runs)
	event.ItemsIn, event.ItemsOut, event.BytesIn, event.BytesOut = c.ItemsIn, c.ItemsOut, c.BytesIn, c.BytesOut
	event.Duration = p.db.clockSince(start)
	n := &p.db.counters
	kind, count, bytes := 0, &n.compactions, &n.compactedBytes
	if event.Trim {
		kind, count, bytes = 1, &n.trims, &n.trimmedBytes
	} else if event.Reindex {
		kind, count, bytes = 2, &n.reindexes, &n.reindexedBytes
	}
	p.db.times.rewrites[kind].Record(event.Duration, 1)
	count.Add(1)
	bytes.Add(c.BytesOut)
	notify(p.db, p.db.opts.Events.Compacted, event)
}

// trimOne writes one file of a partition anew, within the bounds of its reference, if
// much of it is foreign. All versions are kept. done is false if there is no such file
// or, without wait, if a compaction runs in the partition.
//
// The steps are those of a compaction (internal/lsm), with one file as the input. If an
// automatic split of the partition is queued, trimOne gives up; with wait set it then
// returns lsm.ErrMoved.
func (p *partition) trimOne(ctx context.Context, wait bool) (done bool, err error) {
	return p.rewriting(ctx, wait, func() (bool, error) {
		done, err := p.rewriteFile(ctx, "trim", CompactionEvent{Trim: true}, &lsm.Rewriting{
			Wants: func(f *lsm.File) bool { return f.Trimmable(wait) },
			Rate:  p.db.opts.TrimBytesPerSecond,
			Stop:  p.splitQueued,
		})
		if err == lsm.ErrMoved && !wait {
			err = nil
		}
		return done, err
	})
}

// rewriteFile writes a file anew that r wants. what names the work in errors, event says
// of which kind it is. The compacting lock is held.
func (p *partition) rewriteFile(ctx context.Context, what string, event CompactionEvent, r *lsm.Rewriting) (done bool, err error) {
	start := p.db.opts.clock()
	job := p.job(what)
	defer job.End()
	wants := r.Wants
	r.Wants = func(f *lsm.File) bool {
		is := wants(f)
		if is {
			job.Start(ctx)
		}
		return is
	}
	c, done, err := p.Rewrite(ctx, r)
	if err == lsm.ErrMoved {
		return false, err
	} else if err != nil {
		return false, fmt.Errorf("%s of partition %d: %w", what, p.ID, err)
	}
	if done {
		p.tellCompacted(&c, start, event)
	}
	return done, nil
}

// splitQueued says that the automatic split of the partition is queued or under way: it
// would make a file that is written now foreign again.
func (p *partition) splitQueued() bool { return p.queued.Load() != nil }
