package engine

import (
	"context"

	"github.com/cleavestore/cleave/internal/pacing"
	"github.com/cleavestore/cleave/segment"
)

// rewriting says which file of a partition is written anew, and how.
type rewriting struct {
	wants func(*file) bool // says whether a file is to be written anew
	rate  int64            // limit in bytes a second, beside that of all compactions; 0: none
	stop  func() bool      // says that the work is to be given up
}

// rewrite writes one file anew within the bounds of its reference, to trim it or for its
// index. All versions are kept. done is false if no file is wanted. The steps are those
// of a compaction, with one file as the input. rewrite returns errMoved if the partition
// was dropped or stop says so. The caller holds compacting.
func (t *tree) rewrite(ctx context.Context, o *rewriting) (c compacted, done bool, err error) {
	// Only compactions remove files and one runs at a time, so the file stays.
	v, release := t.hold()
	defer release()
	if t.dropped.Load() {
		return c, false, nil
	}
	var f *file // the first that is wanted
	var older []*run
	count := 0
	for i, r := range v.runs {
		for _, candidate := range r.files {
			if candidate.aside.Load() || !o.wants(candidate) {
				continue
			}
			if count++; f == nil {
				f, older = candidate, v.runs[i+1:]
			}
		}
	}
	if f == nil {
		return c, false, nil
	}
	c, err = t.rewriteFile(ctx, f, older, count, o)
	return c, err == nil, err
}

// rewriteFile is rewrite for a file. older are the runs that are older than it, and
// backlog is the number of files to be written.
func (t *tree) rewriteFile(ctx context.Context, f *file, older []*run, backlog int, o *rewriting) (c compacted, err error) {
	out := t.newOutput(ctx, int(f.items()), older, []*run{{files: []*file{f}}})
	defer out.abandon()
	out.lo, out.hi, out.rewrites, out.rate = f.min, f.max, backlog, o.rate
	if len(older) == 0 {
		out.codec = t.family.compression
	}
	if out.codec != segment.None {
		out.dict = t.family.compactionDictionary([]*run{{files: []*file{f}}})
	}
	in := runInput{files: []*file{f}}
	for n := 0; ; n++ {
		more, err := in.next()
		if err != nil {
			return c, err
		}
		if !more {
			break
		}
		if n%pacing.Piece == 0 {
			if err := out.yield(); err != nil {
				return c, err
			}
			if o.stop() {
				return c, errMoved
			}
		}
		if n%paceItems == 0 {
			if err := out.pace(); err != nil {
				return c, err
			}
		}
		if err := out.addFrom(&in); err != nil {
			return c, err
		}
	}
	var written []*file
	if out.items > 0 {
		r, err := out.finish()
		if err != nil {
			return c, err
		}
		written = r.files
	}
	t.install.Lock()
	defer t.install.Unlock()
	if t.dropped.Load() {
		return c, errMoved
	}
	runs := t.version.Load().runs
	next := replaceInRuns(runs, f, written)
	t.carryShadows(out, runs[:len(runs)-len(older)])
	if err := t.replaceFiles(next, []*file{f}); err != nil {
		return c, err
	}
	out.published = true
	t.swap(func(v version) version {
		v.setRuns(next)
		return v
	})
	t.env.retire(func() { t.removeFiles([]*file{f}) })
	c = compacted{runs: 1, itemsIn: out.items, itemsOut: out.items, bytesIn: f.bytes()}
	for _, f := range written {
		c.bytesOut += f.bytes()
	}
	return c, nil
}
