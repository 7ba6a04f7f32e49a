package physical

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/pacing"
	"github.com/cleavestore/cleave/internal/tiers"
)

// Rewriting is a kind of work that writes files anew.
type Rewriting uint8

// Kinds.
const (
	Compaction Rewriting = iota // of neighbouring runs
	Trim                        // of a shared file, without what belongs to other partitions
	Reindex                     // of a file, with another index
)

// String returns the name that the work has in errors and profiles.
func (r Rewriting) String() string { return [...]string{"compaction", "trim", "index"}[r] }

// InTurn calls work with Tree.Compacting held. If that is taken, it waits for it if wait
// is set, and else does nothing. Compactors pass over a partition whose turn is taken, so one
// that waited asks them to look again at its end.
func (p *Partition) InTurn(ctx context.Context, wait bool, work func() (done bool, err error)) (done bool, err error) {
	if wait {
		if err = p.Compacting.Lock(ctx); err != nil {
			return false, err
		}
		defer p.Env.Work.RewriteSoon()
	} else if !p.Compacting.TryLock() {
		return false, nil
	}
	defer p.Compacting.Unlock()
	done, err = work()
	p.Env.Reclaim.NowIfManual()
	return done, err
}

// CompactOne compacts what is due: runs of like size, or those that scans seek in often, unless another compaction runs in the partition.
func (p *Partition) CompactOne(ctx context.Context) (bool, error) {
	return p.InTurn(ctx, false, func() (bool, error) { return p.CompactRuns(ctx, p.PickDue) })
}

// CompactFully compacts until the partition has few runs, past damage that it meets. It
// drops the versions that are dead when it begins; versions that die meanwhile may stay.
func (p *Partition) CompactFully(ctx context.Context) error {
	if err := p.compactEach(ctx, p.PickDead(ctx)); err != nil {
		return err
	}
	return p.CompactFew(ctx)
}

// CompactFew is the part of CompactFully that has nothing to do with dead versions.
func (p *Partition) CompactFew(ctx context.Context) error { return p.compactEach(ctx, p.PickFew) }

// compactEach compacts, past damage that it meets, as often as there are rows of runs between files that are set
// aside, also by it: these are compacted separately.
func (p *Partition) compactEach(ctx context.Context, choose lsm.Picker) error {
	for n := 0; n <= p.Version.Load().FilesAside(); n++ {
		if err := p.PastDamage(func() error {
			_, err := p.CompactBy(ctx, choose)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// CompactBy waits for its turn to compact in the partition, and compacts what choose
// picks.
func (p *Partition) CompactBy(ctx context.Context, choose lsm.Picker) (bool, error) {
	return p.InTurn(ctx, true, func() (bool, error) { return p.CompactRuns(ctx, choose) })
}

// CompactRuns carries out one compaction; done is false if there was nothing to do.
// Tree.Compacting is held.
func (p *Partition) CompactRuns(ctx context.Context, choose lsm.Picker) (done bool, err error) {
	return p.compactRuns(ctx, 0, math.MaxInt64, choose)
}

// nested compacts runs of like size that are newer than the inputs of a compaction or rewriting
// under way. It does not keep others waiting, for which that has to end: a split, and writers
// of other partitions. After an error it is not tried again within that.
func (p *Partition) nested(ctx context.Context) lsm.Nested {
	failed := false
	return func(behind int, most int64) {
		othersWait := p.Env.Gate.Waiting() && p.Version.Load().Ages() < tiers.MostRuns
		if failed || othersWait || p.SplitQueued() || ctx.Err() != nil {
			return
		}
		_, err := p.compactRuns(ctx, behind, most, p.PickTiers)
		if failed = err != nil; failed && ctx.Err() == nil {
			p.Env.Background("compaction", err)
		}
	}
}

// compactRuns is CompactRuns in front of the oldest runs, as many as behind says, for at most so
// many bytes.
func (p *Partition) compactRuns(ctx context.Context, behind int, most int64, choose lsm.Picker) (done bool, err error) {
	start := p.Env.Clock()
	job := p.Job(Compaction.String())
	defer job.End()
	c, done, err := p.Compact(ctx, behind, most, func(runs []*lsm.Run, last bool) (plan tiers.Plan, err error) {
		if plan, err = choose(runs, last); plan.End > plan.First {
			job.Start(ctx)
		}
		return plan, err
	}, p.nested(ctx))
	if err != nil || !done {
		return false, err
	}
	p.Env.Gate.Release() // writes that wait for fewer runs
	p.Env.Compacted(p, Compaction, &c, p.since(start))
	return true, nil
}

func (p *Partition) since(start time.Time) time.Duration { return p.Env.Clock().Sub(start) }

// TrimOne writes one file of a partition anew, within the bounds of its reference, if
// much of it is foreign. All versions are kept. done is false if there is no such file
// or, without wait, if a compaction runs in the partition.
//
// The steps are those of a compaction (internal/lsm), with one file as the input. If an
// automatic split of the partition is queued, TrimOne gives up; with wait set it then
// returns lsm.ErrMoved.
func (p *Partition) TrimOne(ctx context.Context, wait bool) (done bool, err error) {
	return p.InTurn(ctx, wait, func() (bool, error) {
		done, err := p.RewriteFile(ctx, Trim, p.Env.TrimRate, func(f *lsm.File) bool { return f.Trimmable(wait) })
		if err == lsm.ErrMoved && !wait {
			err = nil
		}
		return done, err
	})
}

// RewriteFile writes a file anew that wants says, at a rate; nil: that of all compactions. It
// gives up with lsm.ErrMoved if a split of the partition is queued, which would make the file
// foreign again. Tree.Compacting is held.
func (p *Partition) RewriteFile(ctx context.Context, kind Rewriting, rate *pacing.Rate, wants func(*lsm.File) bool) (done bool, err error) {
	start := p.Env.Clock()
	job := p.Job(kind.String())
	defer job.End()
	c, done, err := p.Rewrite(ctx, &lsm.Rewriting{Rate: rate, Stop: p.SplitQueued, Wants: func(f *lsm.File) bool {
		is := wants(f)
		if is {
			job.Start(ctx)
		}
		return is
	}, Nested: p.nested(ctx)})
	if err == lsm.ErrMoved {
		return false, err
	} else if err != nil {
		return false, fmt.Errorf("%v of partition %d: %w", kind, p.ID, err)
	}
	if done {
		p.Env.Compacted(p, kind, &c, p.since(start))
	}
	return done, nil
}
