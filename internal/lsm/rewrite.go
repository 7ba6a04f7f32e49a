package lsm

import (
	"context"

	"github.com/cleavestore/cleave/internal/pacing"
	"github.com/cleavestore/cleave/segment"
)

// Rewriting says which file of a partition is written anew, and how.
type Rewriting struct {
	Wants func(*File) bool // says whether a file is to be written anew
	Rate  *pacing.Rate     // within that of all compactions; nil: that of all
	Stop  func() bool      // says that the work is to be given up
	// Nested compacts runs that have come meanwhile; nil: none are compacted.
	Nested Nested
}

// Rewrite writes one file anew within the bounds of its reference, to trim it or for its
// index. All versions are kept. done is false if no file is wanted. The steps are those
// of a compaction, with one file as the input. Rewrite returns ErrMoved if the partition
// was dropped or stop says so. The caller holds compacting.
func (t *Tree) Rewrite(ctx context.Context, o *Rewriting) (c Compacted, done bool, err error) {
	// Only compactions remove files and one runs at a time, so the file stays.
	v, release := t.PinVersion()
	defer release()
	if t.Dropped.Load() {
		return c, false, nil
	}
	var f *File // the first that is wanted
	var older []*Run
	count := 0
	for i, r := range v.Runs {
		for _, candidate := range r.Files {
			if candidate.Aside.Load() || !o.Wants(candidate) {
				continue
			}
			if count++; f == nil {
				f, older = candidate, v.Runs[i+1:]
			}
		}
	}
	if f == nil {
		return c, false, nil
	}
	size := f.SizeWithin()
	if err = t.needRoom(size); err != nil {
		return c, false, err
	}
	defer t.giveRoom(size)
	c, err = t.rewriteFile(ctx, f, older, count, o)
	return c, err == nil, err
}

// rewriteFile is rewrite for a file. older are the runs that are older than it, and
// backlog is the number of files to be written.
func (t *Tree) rewriteFile(ctx context.Context, f *File, older []*Run, backlog int, o *Rewriting) (c Compacted, err error) {
	out := t.NewOutput(ctx, int(f.ItemsWithin()), older, []*Run{{Files: []*File{f}}})
	defer out.Abandon()
	out.lo, out.hi, out.rewrites, out.rate = f.Min, f.Max, backlog, o.Rate
	out.nest(len(older)+1, o.Nested, nil)
	if len(older) == 0 {
		out.Codec = t.Family.Compression
	}
	if out.Codec != segment.None {
		out.Dict = t.Family.CompactionDictionary([]*Run{{Files: []*File{f}}})
	}
	in := runWalker{files: []*File{f}}
	for n := 0; ; n++ {
		more, err := in.next()
		if err != nil {
			return c, err
		}
		if !more {
			break
		}
		if n%pacing.Piece == 0 && o.Stop() {
			return c, ErrMoved
		}
		if err := out.Step(); err != nil {
			return c, err
		}
		if err := out.addFrom(&in); err != nil {
			return c, err
		}
	}
	var written []*File
	if out.Items > 0 {
		r, err := out.Finish()
		if err != nil {
			return c, err
		}
		written = r.Files
	}
	t.Install.Lock()
	defer t.Install.Unlock()
	if t.Dropped.Load() {
		return c, ErrMoved
	}
	runs := t.Version.Load().Runs
	next := replaceInRuns(runs, f, written)
	t.carryVectors(out, runs[:len(runs)-len(older)])
	if err := t.replaceFiles(next, []*File{f}); err != nil {
		return c, err
	}
	out.Published = true
	t.Swap(func(v Version) Version {
		v.SetRuns(next)
		return v
	})
	t.Env.Reclaim.Retire(func() { t.removeFiles([]*File{f}) })
	c = Compacted{Runs: 1, ItemsIn: out.Items, ItemsOut: out.Items, BytesIn: f.SizeWithin()}
	for _, f := range written {
		c.BytesOut += f.SizeWithin()
	}
	return c, nil
}
