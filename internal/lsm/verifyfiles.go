package lsm

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

// FileReport takes what a check has found wrong in a file. The offset is -1 if it concerns
// the file as a whole.
type FileReport func(file string, offset int64, what string)

// wholef reports what is wrong with a file as a whole.
func (r FileReport) wholef(file, format string, args ...any) {
	r(file, -1, fmt.Sprintf(format, args...))
}

// Failed reports the error of a check, if there is one, at the place that it names.
func (r FileReport) Failed(file string, err error) {
	var corrupt *fault.CorruptionError
	switch {
	case err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
	case errors.As(err, &corrupt):
		r(corrupt.File, corrupt.Offset, fmt.Sprint(corrupt.Err))
	default:
		r(file, -1, err.Error())
	}
}

// TreeChecker checks the files of trees. It ends early when its context ends. One
// goroutine uses it.
type TreeChecker struct {
	ctx    context.Context
	report FileReport
	read   map[*segment.Reader]bool // they were checked: a file that trees share is read once
}

// NewTreeChecker returns a checker that has not read any file yet.
func NewTreeChecker(ctx context.Context, report FileReport) *TreeChecker {
	return &TreeChecker{ctx: ctx, report: report, read: make(map[*segment.Reader]bool)}
}

func (c *TreeChecker) done() bool { return c.ctx.Err() != nil }

// Check checks the files of a tree: every byte of them, their indexes, their lists of
// overwritten versions, and that they lie within the tree and its runs. sharers returns
// what to add to a finding in a file: which other trees share the file.
func (c *TreeChecker) Check(t *Tree, sharers func(*File) string) {
	if c.done() {
		return
	}
	present, release := t.PinVersion()
	defer release()
	for n, r := range present.Runs {
		for i, f := range r.Files {
			if !c.done() {
				c.file(t, f, sharers)
				c.vectors(t, f, present.Runs, n)
			}
			if i > 0 && f.Min.Compare(&r.Files[i-1].Max) < 0 {
				c.report.wholef(t.Env.FS.Path(f.Name), "reference [%s, %s) overlaps that of another file of its run", f.Min.String(), f.Max.String())
			}
		}
	}
}

// file checks one file of a tree, with its index.
func (c *TreeChecker) file(t *Tree, f *File, sharers func(*File) string) {
	name := t.Env.FS.Path(f.Name)
	if !c.read[f.Reader] {
		c.read[f.Reader] = true
		c.report.Failed(name, f.Verify(c.ctx, func(found segment.Finding) {
			c.report(name, found.Offset, found.What+sharers(f))
		}))
		if !c.done() {
			c.report.Failed(name, f.Renamed(CheckIndex(c.ctx, f.Reader, func(at int64, what string) { c.report(name, at, what) })))
		}
	}
	if c.done() {
		return
	}
	// The keys must lie within the reference, which lies within the partition.
	if f.Min.Compare(&t.Range.Min) < 0 || f.Max.Compare(&t.Range.Max) > 0 {
		c.report.wholef(name, "reference [%s, %s) goes beyond partition %d", f.Min.String(), f.Max.String(), t.ID)
	}
	if f.Ref.Part != nil {
		return // some of its keys belong to other partitions
	}
	bounds := partmap.Range{Min: f.Min, Max: f.Max}
	walk := f.Walk()
	var last item.Key
	for walk.Next() {
		if k := walk.Key(); item.ComparePartition(k, &last) != 0 {
			epk := partmap.HashEncoded(k.PK)
			if !bounds.Contains(&epk) {
				c.report.wholef(name, "item with EPK %s lies outside of the reference [%s, %s)", epk.String(), f.Min.String(), f.Max.String())
			}
			last = k.Clone()
		}
		if c.done() {
			return
		}
	}
	c.report.Failed(name, f.Renamed(walk.Err()))
}

// Shares says whether a file is one of the version, perhaps within other bounds.
func (v *Version) Shares(f *File) bool {
	return slices.ContainsFunc(v.Runs, func(r *Run) bool {
		return slices.ContainsFunc(r.Files, func(o *File) bool { return o.Reader == f.Reader })
	})
}

// UnknownFiles returns the names of files in the tree's directory that its newest manifest
// does not name and that no crash of this engine leaves there.
func (t *Tree) UnknownFiles() (unknown []string, err error) {
	names, err := t.Env.FS.List(t.Dir)
	if err != nil {
		return nil, err
	}
	m, err := manifest.LoadNewest[manifest.Files](t.Env.FS, t.Dir, manifest.PartitionKind)
	if err != nil {
		return nil, err
	}
	for _, base := range names {
		number, ok := manifest.ParseSegmentName(base)
		if !ok || m.Lists(number) || m.Disposable(number) || slices.Contains(t.Listed(), number) {
			continue
		}
		name := path.Join(t.Dir, base)
		if _, err := t.Env.FS.Stat(name); errors.Is(err, fault.ErrMissing) {
			continue // removed since
		}
		unknown = append(unknown, name)
	}
	return unknown, nil
}
