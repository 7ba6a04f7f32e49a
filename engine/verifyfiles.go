package engine

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/segment"
)

// fileReport takes what a check has found wrong in a file. The offset is -1 if it concerns
// the file as a whole.
type fileReport func(file string, offset int64, what string)

// wholef reports what is wrong with a file as a whole.
func (r fileReport) wholef(file, format string, args ...any) {
	r(file, -1, fmt.Sprintf(format, args...))
}

// failed reports the error of a check, if there is one, at the place that it names.
func (r fileReport) failed(file string, err error) {
	var corrupt *fault.CorruptionError
	switch {
	case err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
	case errors.As(err, &corrupt):
		r(corrupt.File, corrupt.Offset, fmt.Sprint(corrupt.Err))
	default:
		r(file, -1, err.Error())
	}
}

// treeChecker checks the files of trees. It ends early when its context ends. One
// goroutine uses it.
type treeChecker struct {
	ctx    context.Context
	report fileReport
	read   map[*segment.Reader]bool // they were checked: a file that trees share is read once
}

func newTreeChecker(ctx context.Context, report fileReport) *treeChecker {
	return &treeChecker{ctx: ctx, report: report, read: make(map[*segment.Reader]bool)}
}

func (c *treeChecker) done() bool { return c.ctx.Err() != nil }

// check checks the files of a tree: every byte of them, their indexes, their lists of
// overwritten versions, and that they lie within the tree and its runs. sharers returns
// what to add to a finding in a file: which other trees share the file.
func (c *treeChecker) check(t *tree, sharers func(*file) string) {
	if c.done() {
		return
	}
	present, release := t.hold()
	defer release()
	for n, r := range present.runs {
		for i, f := range r.files {
			if !c.done() {
				c.file(t, f, sharers)
				c.shadows(t, f, present.runs, n)
			}
			if i > 0 && f.min.Compare(&r.files[i-1].max) < 0 {
				c.report.wholef(t.env.fs.Path(f.name), "reference [%s, %s) overlaps that of another file of its run", f.min.String(), f.max.String())
			}
		}
	}
}

// file checks one file of a tree, with its index.
func (c *treeChecker) file(t *tree, f *file, sharers func(*file) string) {
	name := t.env.fs.Path(f.name)
	if !c.read[f.Reader] {
		c.read[f.Reader] = true
		c.report.failed(name, f.Verify(c.ctx, func(found segment.Finding) {
			c.report(name, found.Offset, found.What+sharers(f))
		}))
		if !c.done() {
			c.report.failed(name, f.named(checkIndex(c.ctx, f.Reader, func(at int64, what string) { c.report(name, at, what) })))
		}
	}
	if c.done() {
		return
	}
	// The keys must lie within the reference, which lies within the partition.
	if f.min.Compare(&t.rng.Min) < 0 || f.max.Compare(&t.rng.Max) > 0 {
		c.report.wholef(name, "reference [%s, %s) goes beyond partition %d", f.min.String(), f.max.String(), t.id)
	}
	if f.ref.Part != nil {
		return // some of its keys belong to other partitions
	}
	bounds := partmap.Range{Min: f.min, Max: f.max}
	walk := f.Walk()
	var last item.Key
	for walk.Next() {
		if k := walk.Key(); item.ComparePartition(k, &last) != 0 {
			epk := partmap.HashEncoded(k.PK)
			if !bounds.Contains(&epk) {
				c.report.wholef(name, "item with EPK %s lies outside of the reference [%s, %s)", epk.String(), f.min.String(), f.max.String())
			}
			last = k.Clone()
		}
		if c.done() {
			return
		}
	}
	c.report.failed(name, f.named(walk.Err()))
}

// shares says whether a file is one of the version, perhaps within other bounds.
func (v *version) shares(f *file) bool {
	return slices.ContainsFunc(v.runs, func(r *run) bool {
		return slices.ContainsFunc(r.files, func(o *file) bool { return o.Reader == f.Reader })
	})
}

// unknownFiles returns the names of files in the tree's directory that its newest manifest
// does not name and that no crash of this engine leaves there.
func (t *tree) unknownFiles() (unknown []string, err error) {
	names, err := t.env.fs.List(t.dir)
	if err != nil {
		return nil, err
	}
	m, err := manifest.LoadNewest[manifest.Files](t.env.fs, t.dir, manifest.PartitionKind)
	if err != nil {
		return nil, err
	}
	for _, base := range names {
		number, ok := manifest.ParseSegmentName(base)
		if !ok || m.Lists(number) || m.Disposable(number) || slices.Contains(t.listed(), number) {
			continue
		}
		name := path.Join(t.dir, base)
		if _, err := t.env.fs.Stat(name); errors.Is(err, fault.ErrMissing) {
			continue // removed since
		}
		unknown = append(unknown, name)
	}
	return unknown, nil
}
