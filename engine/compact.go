package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cleavestore/cleave/internal/atonce"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/scheduler"
)

// Compact flushes, splits partitions that hold more than Options.MaxPartitionBytes, and
// compacts, one to four partitions at a time: one processor of several is left to other calls.
// Then each partition has one run, or two of which the newer is at most a sixteenth of the
// other or the disk has no room for more, no shared file has much that belongs to others, and
// all files have an index for the policy of their container. Versions that were overwritten,
// deleted or have expired are gone, except those that a reader holds or may ask for:
// Stats.Holders names the holders. Files that are not needed are removed when it returns.
// Where files are damaged Compact does what it can, and then returns an error that names one.
func (db *DB) Compact(ctx context.Context) error {
	call, err := db.enterWriting(ctx)
	if err != nil {
		return err
	}
	defer call.Leave()
	defer db.work.RewriteSoon() // of what it does not come to
	if err = db.flush(ctx); err != nil {
		return err
	}
	_, err = db.finishSplits(ctx)
	for again := true; again && err == nil; {
		if err = db.eachPartition(ctx, func(p *partition) error { return db.compactPartition(ctx, p) }); err == nil {
			// Compactions update what partitions count, so one may turn out too large only now.
			again, err = db.finishSplits(ctx)
		}
	}
	if err != nil {
		return err
	}
	for _, p := range db.partitions() {
		if err := p.Version.Load().FirstAside(); err != nil {
			return fmt.Errorf("compact: partition %d: a file is set aside: %w", p.ID, err)
		}
	}
	return db.env.Reclaim.Wait(ctx)
}

// compactPartition compacts, trims and indexes a partition.
func (db *DB) compactPartition(ctx context.Context, p *partition) error {
	if err := p.CompactFully(ctx); err != nil {
		return err
	}
	if err := p.rewriteAll(ctx, p.TrimOne); err != nil {
		return err
	}
	if err := p.CompactFew(ctx); err != nil { // trims have told what the files have
		return err
	}
	return p.rewriteAll(ctx, p.reindexOne)
}

// rewriteAll calls TrimOne or reindexOne until no file of the partition needs it, except
// those that are set aside. If they give way to a split, it waits for the split, and
// goes on unless the partition was replaced.
func (p *partition) rewriteAll(ctx context.Context, one func(context.Context, bool) (bool, error)) error {
	for {
		var done bool
		err := p.PastDamage(func() (err error) {
			done, err = one(ctx, true)
			return err
		})
		if err == lsm.ErrMoved {
			done = true
			_, err = p.awaitSplit(ctx, p.queued.Load())
		}
		if err != nil || !done {
			return err
		}
	}
}

// awaitSplit waits for an automatic split of the partition, nil if there is none, and
// says whether it was split. If the partition cannot be split or is gone, that is no
// error.
func (p *partition) awaitSplit(ctx context.Context, j *ReshapeJob) (split bool, err error) {
	if j == nil {
		return false, nil
	}
	if err = j.Wait(ctx); err == nil {
		return true, nil
	}
	if ctx.Err() == nil && (errors.Is(err, ErrRefused) || p.Dropped.Load()) {
		err = nil
	}
	return false, err
}

// finishSplits splits partitions until none is too large that can be split. It says
// whether it split one.
func (db *DB) finishSplits(ctx context.Context) (any bool, err error) {
	for {
		jobs := make(map[*partition]*ReshapeJob)
		for _, p := range db.partitions() {
			if err := p.EndInheritance(ctx); err != nil {
				return any, err
			}
			if j := db.splitIfLarge(p); j != nil {
				jobs[p] = j
			}
		}
		if len(jobs) == 0 {
			return any, nil
		}
		for p, j := range jobs {
			split, err := p.awaitSplit(ctx, j)
			if any = any || split; err != nil {
				return any, err
			}
		}
	}
}

// eachPartition calls fn with each partition, also with those that replace others meanwhile,
// for several at a time. Its error is that of the first partition whose call failed.
func (db *DB) eachPartition(ctx context.Context, fn func(*partition) error) error {
	for seen := make(map[*partition]bool); ; {
		parts := slices.DeleteFunc(db.partitions(), func(p *partition) bool { return seen[p] })
		if len(parts) == 0 {
			return nil
		}
		if _, err := atonce.Do(ctx, min(db.opts.atOnce, scheduler.CallOutputs()), len(parts), func(i int) error { return fn(parts[i]) }); err != nil {
			return err
		}
		for _, p := range parts {
			seen[p] = true
		}
	}
}
