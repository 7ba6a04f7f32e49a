package engine

import (
	"context"
	"fmt"

	"github.com/cleavestore/cleave/segment"
)

// foreignPercent is the share of a file, in percent, that must lie beyond the bounds of
// its reference for the file to be written anew within them. foreignLeft is the share
// for DB.Compact.
const (
	foreignPercent = 30
	foreignLeft    = 5
)

// trimmable says whether enough of the file is foreign.
func (f *file) trimmable(settle bool) bool {
	percent := int64(foreignPercent)
	if settle {
		percent = foreignLeft
	}
	return f.foreign()*100 >= f.ref.Size*percent
}

// trimOne writes one file of a partition anew, within the bounds of its reference, if
// much of it is foreign. All versions are kept. done is false if there is no such file
// or, without settle, if a merge runs in the partition.
//
// The steps are those of a merge (compaction.go), with one file as the input. If an automatic
// split of the partition is queued, trimOne gives up; with settle it then returns
// errMoved.
func (w *workers) trimOne(ctx context.Context, p *partition, settle bool) (done bool, err error) {
	if settle {
		if err = p.compacting.take(ctx); err != nil {
			return false, err
		}
	} else if !p.compacting.try() {
		return false, nil
	}
	defer p.compacting.leave()
	done, err = w.db.trimFile(ctx, p, settle)
	w.reclaimIfManual()
	if err == errMoved && !settle {
		err = nil
	}
	return done, err
}

func (db *DB) trimFile(ctx context.Context, p *partition, settle bool) (done bool, err error) {
	// Only merges remove files and one runs at a time, so the file stays.
	v, release := p.hold()
	defer release()
	for i, r := range v.runs {
		for _, f := range r.files {
			if f.trimmable(settle) && !f.aside.Load() && !p.dropped.Load() {
				if err := db.rewrite(ctx, p, f, v.runs[i+1:], true); err == errMoved {
					return false, err
				} else if err != nil {
					return false, fmt.Errorf("trim of partition %d: %w", p.id, err)
				}
				return true, nil
			}
		}
	}
	return false, nil
}

// rewrite writes a file anew within the bounds of its reference, to trim it or
// for its index. older are the runs that are older than it.
func (db *DB) rewrite(ctx context.Context, p *partition, f *file, older []*run, trim bool) error {
	start := db.opts.clock()
	out := p.newOutput(ctx, int(f.items()), older, []*run{{files: []*file{f}}})
	defer out.abandon()
	out.lo, out.hi, out.rewrites = f.min, f.max, p.toRewrite(trim)
	if trim {
		out.rate = db.opts.TrimBytesPerSecond
	}
	if len(older) == 0 {
		out.codec = p.c.def.Compression
	}
	if out.codec != segment.None {
		out.dict = p.c.compactionDictionary([]*run{{files: []*file{f}}})
	}
	in := runInput{files: []*file{f}}
	for n := 0; ; n++ {
		more, err := in.next()
		if err != nil {
			return err
		}
		if !more {
			break
		}
		if n%yieldEvery == 0 {
			if err := out.yield(); err != nil {
				return err
			}
			if p.queued.Load() != nil {
				return errMoved // the split would make it foreign again
			}
		}
		if n%paceItems == 0 {
			if err := db.pace(ctx, out); err != nil {
				return err
			}
		}
		if err := out.addFrom(&in); err != nil {
			return err
		}
	}
	var written []*file
	if out.items > 0 {
		r, err := out.finish()
		if err != nil {
			return err
		}
		written = r.files
	}
	p.install.Lock()
	defer p.install.Unlock()
	if p.dropped.Load() {
		return errMoved
	}
	runs := p.version.Load().runs
	next := replaceInRuns(runs, f, written)
	p.carryShadows(out, runs[:len(runs)-len(older)])
	if err := p.replaceFiles(next, []*file{f}); err != nil {
		return err
	}
	out.published = true
	p.swap(func(v version) version {
		v.setRuns(next)
		return v
	})
	db.work.retire(func() { p.removeFiles([]*file{f}) })
	var bytes int64
	for _, f := range written {
		bytes += f.bytes()
	}
	if trim {
		db.counters.trims.Add(1)
		db.counters.trimmedBytes.Add(bytes)
	} else {
		db.counters.reindexes.Add(1)
		db.counters.reindexedBytes.Add(bytes)
	}
	notify(db, db.opts.Events.Compacted, CompactionEvent{
		Container: p.c.name, Partition: p.id, Runs: 1, Trim: trim, Reindex: !trim, ItemsIn: out.items, ItemsOut: out.items,
		BytesIn: f.bytes(), BytesOut: bytes, Duration: db.clockSince(start),
	})
	return nil
}

// toRewrite counts the files of the partition that are to be trimmed, or that have no
// index for the policy of the container.
func (p *partition) toRewrite(trim bool) (n int) {
	policy := p.c.indexing.Load()
	v, release := p.hold()
	defer release()
	for _, r := range v.runs {
		for _, f := range r.files {
			if !f.aside.Load() && (trim && f.trimmable(false) || !trim && policy != nil && f.staleFor(policy)) {
				n++
			}
		}
	}
	return max(n, 1)
}

// replaceInRuns returns the runs with other files in the place of one. A run
// that is left without files goes.
func replaceInRuns(runs []*run, old *file, files []*file) []*run {
	var next []*run
	for _, r := range runs {
		replaced := &run{shadowed: r.shadowed, heldBy: r.heldBy, expiring: r.expiring, keptAbove: r.keptAbove}
		found := false
		for _, f := range r.files {
			if f == old {
				replaced.files = append(replaced.files, files...)
				found = true
			} else {
				replaced.files = append(replaced.files, f)
			}
		}
		switch {
		case !found:
			next = append(next, r)
		case len(replaced.files) > 0:
			next = append(next, replaced)
		}
	}
	return next
}
