package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/lsm"
)

// compactOne compacts runs of like size, unless another compaction runs in the partition.
func (p *partition) compactOne(ctx context.Context) (bool, error) {
	if !p.Compacting.TryLock() {
		return false, nil
	}
	defer p.Compacting.Unlock()
	done, err := p.db.compactRuns(ctx, p, p.PickTiers)
	p.db.env.Reclaim.NowIfManual()
	return done, err
}

// compactBy waits for its turn to compact in the partition, and compacts what choose
// picks.
func (p *partition) compactBy(ctx context.Context, choose lsm.Picker) (bool, error) {
	if err := p.Compacting.Lock(ctx); err != nil {
		return false, err
	}
	defer p.Compacting.Unlock()
	done, err := p.db.compactRuns(ctx, p, choose)
	p.db.env.Reclaim.NowIfManual()
	return done, err
}

// compactRuns carries out one compaction; done is false if there was nothing to do. The
// caller holds the compacting lock of the partition.
func (db *DB) compactRuns(ctx context.Context, p *partition, choose lsm.Picker) (done bool, err error) {
	start := db.opts.clock()
	c, done, err := p.Compact(ctx, choose)
	if err != nil || !done {
		return false, err
	}
	db.gate.Release() // writes that wait for fewer runs
	db.counters.merges.Add(1)
	db.counters.mergedBytes.Add(c.BytesOut)
	db.tellCompacted(p, &c, start, CompactionEvent{})
	return true, nil
}

// tellCompacted sends the event of a compaction. event says of which kind it was.
func (db *DB) tellCompacted(p *partition, c *lsm.Compacted, start time.Time, event CompactionEvent) {
	event.Container, event.Partition, event.Runs = p.c.name, p.ID, int(c.Runs)
	event.ItemsIn, event.ItemsOut, event.BytesIn, event.BytesOut = c.ItemsIn, c.ItemsOut, c.BytesIn, c.BytesOut
	event.Duration = db.clockSince(start)
	notify(db, db.opts.Events.Compacted, event)
}

// trimOne writes one file of a partition anew, within the bounds of its reference, if
// much of it is foreign. All versions are kept. done is false if there is no such file
// or, without settle, if a merge runs in the partition.
//
// The steps are those of a merge (compaction.go), with one file as the input. If an automatic
// split of the partition is queued, trimOne gives up; with settle it then returns
// lsm.ErrMoved.
func (p *partition) trimOne(ctx context.Context, settle bool) (done bool, err error) {
	if ok, failure := p.lockCompacting(ctx, settle); !ok {
		return false, failure
	}
	defer p.Compacting.Unlock()
	done, err = p.db.trimFile(ctx, p, settle)
	p.db.env.Reclaim.NowIfManual()
	if err == lsm.ErrMoved && !settle {
		err = nil
	}
	return done, err
}

// lockCompacting takes the compacting lock of the partition, and waits for it if wait is
// set. ok is false if it was not taken.
func (p *partition) lockCompacting(ctx context.Context, wait bool) (ok bool, err error) {
	if !wait {
		return p.Compacting.TryLock(), nil
	}
	err = p.Compacting.Lock(ctx)
	return err == nil, err
}

func (db *DB) trimFile(ctx context.Context, p *partition, settle bool) (done bool, err error) {
	start := db.opts.clock()
	c, done, err := p.Rewrite(ctx, &lsm.Rewriting{
		Wants: func(f *lsm.File) bool { return f.Trimmable(settle) },
		Rate:  db.opts.TrimBytesPerSecond,
		Stop:  p.splitQueued,
	})
	if err == lsm.ErrMoved {
		return false, err
	} else if err != nil {
		return false, fmt.Errorf("trim of partition %d: %w", p.ID, err)
	}
	if done {
		db.counters.trims.Add(1)
		db.counters.trimmedBytes.Add(c.BytesOut)
		db.tellCompacted(p, &c, start, CompactionEvent{Trim: true})
	}
	return done, nil
}

func (db *DB) reindexFile(ctx context.Context, p *partition, policy *index.Compiled) (done bool, err error) {
	start := db.opts.clock()
	c, done, err := p.Rewrite(ctx, &lsm.Rewriting{
		Wants: func(f *lsm.File) bool { return f.StaleFor(policy) },
		Stop:  p.splitQueued,
	})
	if err == lsm.ErrMoved {
		return false, err
	} else if err != nil {
		return false, fmt.Errorf("index of partition %d: %w", p.ID, err)
	}
	if done {
		db.counters.reindexes.Add(1)
		db.counters.reindexedBytes.Add(c.BytesOut)
		db.tellCompacted(p, &c, start, CompactionEvent{Reindex: true})
	}
	return done, nil
}

// splitQueued says that the automatic split of the partition is queued or under way: it
// would make a file that is written now foreign again.
func (p *partition) splitQueued() bool { return p.queued.Load() != nil }
