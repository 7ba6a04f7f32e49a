package verify

import (
	"context"
	"fmt"
	"iter"

	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/wal"
)

// Finding is something that is wrong with a store. It is an error.
type Finding struct {
	File   string // path
	Offset int64  // -1: the file as a whole
	What   string
}

// Error implements error.
func (f Finding) Error() string {
	if f.Offset < 0 {
		return fmt.Sprintf("%s: %s", f.File, f.What)
	}
	return fmt.Sprintf("%s: offset %d: %s", f.File, f.Offset, f.What)
}

// Part is a physical partition to be checked. Siblings are the trees of its container.
type Part struct {
	Tree     *lsm.Tree
	Siblings iter.Seq[*lsm.Tree]
}

// maxFindings is how many findings of one step are kept.
const maxFindings = 1000

// Walk is a check of a whole store, step by step: the manifests, each physical partition, the
// log. A partition is checked once. One that has replaced others since the walk began is
// checked too, so no part of the key space is left out.
type Walk struct {
	files *Checker
	found []Finding // by the present step
}

// NewWalk returns a walk over the store in fs: see New.
func NewWalk(ctx context.Context, fs vfs.FS, readOnly bool) *Walk {
	w := new(Walk)
	w.files = New(ctx, fs, readOnly, w.report)
	return w
}

// Steps yields the steps, each to be called before the next one is asked for. parts returns
// the partitions that there are now.
func (w *Walk) Steps(parts func() []Part, log wal.Options) iter.Seq[func()] {
	return func(yield func(func()) bool) {
		if !yield(w.files.Manifests) {
			return
		}
		seen := make(map[*lsm.Tree]bool)
		for p, ok := next(parts(), seen); ok; p, ok = next(parts(), seen) {
			seen[p.Tree] = true
			if !yield(func() { w.files.Partition(p.Tree, p.Siblings) }) {
				return
			}
		}
		yield(func() { w.files.Log(log) })
	}
}

// next returns a partition that was not seen, if there is one.
func next(parts []Part, seen map[*lsm.Tree]bool) (Part, bool) {
	for _, p := range parts {
		if !seen[p.Tree] {
			return p, true
		}
	}
	return Part{}, false
}

// Take returns the findings since it was last called.
func (w *Walk) Take() []Finding {
	found := w.found
	w.found = nil
	return found
}

func (w *Walk) report(file string, offset int64, what string) {
	switch n := len(w.found); {
	case n < maxFindings:
		w.found = append(w.found, Finding{File: file, Offset: offset, What: what})
	case n == maxFindings:
		w.found = append(w.found, Finding{File: file, Offset: -1, What: "more findings than are listed"})
	}
}
