package engine

import (
	"context"
	"fmt"
	"iter"

	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/verify"
)

// Finding is something that Verify found wrong. It is an error.
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

// Verify reads the whole store and yields what is wrong with it. It checks the checksum
// of every byte, the order of items, their place in the range of their partition, every
// locator entry, every term of the indexes, the stored lists of overwritten versions,
// the log, the manifests, and that there are no unknown files. It may run on a store in
// use, beside a writer in another process too; then it checks the files that each
// partition has when Verify reaches it. Only the last pair can have an error: the
// verification could not go on.
func (db *DB) Verify(ctx context.Context) iter.Seq2[Finding, error] {
	return func(yield func(Finding, error) bool) {
		state, call, err := db.enterNewest(ctx)
		if err != nil {
			yield(Finding{}, err)
			return
		}
		loop := state.loops.Enter() // a Refresh or Shutdown lets the loop come to its end
		defer loop.Leave()
		call.Leave()
		v := newVerifier(ctx, state)
		for step := v.files.Manifests; step != nil; step = v.nextStep() {
			// No call is held while the caller looks at the findings.
			err = v.take(step)
			for _, f := range v.found {
				if !yield(f, nil) {
					return
				}
			}
			v.found = v.found[:0]
			if err != nil {
				yield(Finding{}, err)
				return
			}
		}
	}
}

// take runs a step of a verification inside of a call.
func (v *verifier) take(step func()) error {
	call, err := v.db.enterAgain(v.ctx)
	if err != nil {
		return err
	}
	defer call.Leave()
	step()
	return v.ctx.Err()
}

// maxFindings is how many findings of one step are kept.
const maxFindings = 1000

// verifier is a verification under way.
type verifier struct {
	db    *DB
	ctx   context.Context
	files *verify.Checker
	found []Finding           // by the present step
	seen  map[*partition]bool // they were checked
	ended bool                // the log was the last step
}

func newVerifier(ctx context.Context, db *DB) *verifier {
	v := &verifier{db: db, ctx: ctx, seen: make(map[*partition]bool)}
	v.files = verify.New(ctx, db.env.FS, db.opts.ReadOnly, v.report)
	return v
}

// nextStep returns the next step, nil after the last one: a partition that was not
// checked yet, also one that has replaced others since, or the log.
func (v *verifier) nextStep() func() {
	for _, p := range v.db.partitions() {
		if !v.seen[p] {
			v.seen[p] = true
			return func() { v.files.Partition(&p.Tree, p.c.trees) }
		}
	}
	if v.ended {
		return nil
	}
	v.ended = true
	return func() { v.files.Log(v.db.logOptions()) }
}

// report notes a finding of the present step.
func (v *verifier) report(file string, offset int64, what string) {
	switch n := len(v.found); {
	case n < maxFindings:
		v.found = append(v.found, Finding{File: file, Offset: offset, What: what})
	case n == maxFindings:
		v.found = append(v.found, Finding{File: file, Offset: -1, What: "more findings than are listed"})
	}
}

// trees yields the trees of the container's partitions.
func (c *Container) trees(yield func(*lsm.Tree) bool) {
	for _, p := range c.routing.Load().parts {
		if !yield(&p.Tree) {
			return
		}
	}
}
