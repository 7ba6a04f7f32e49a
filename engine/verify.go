package engine

import (
	"context"
	"iter"

	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/verify"
)

// Finding is something that Verify found wrong. It is an error.
//
//	File   string // path
//	Offset int64  // -1: the file as a whole
//	What   string
type Finding = verify.Finding

// Verify reads the whole store and yields what is wrong with it. It checks the checksum
// of every byte, the order of items, their place in the range of their partition, every
// locator entry, every term of the indexes, the stored lists of overwritten versions,
// the log, the manifests, and that the files are there, at their length, and no others. It
// may run on a store in use, beside a writer in another process too; then it checks the
// files that each partition has when Verify reaches it. Only the last pair can have an
// error: the verification could not go on.
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
		walk := verify.NewWalk(ctx, state.env.FS, state.opts.ReadOnly)
		for step := range walk.Steps(state.verified, state.logOptions()) {
			// No call is held while the caller looks at the findings.
			err = state.during(ctx, step)
			for _, f := range walk.Take() {
				if !yield(f, nil) {
					return
				}
			}
			if err != nil {
				yield(Finding{}, err)
				return
			}
		}
	}
}

// during runs a step of what is under way inside of a call.
func (db *DB) during(ctx context.Context, step func()) error {
	call, err := db.enterAgain(ctx)
	if err != nil {
		return err
	}
	defer call.Leave()
	step()
	return ctx.Err()
}

// verified returns the partitions that Verify checks.
func (db *DB) verified() (all []verify.Part) {
	for _, p := range db.partitions() {
		all = append(all, verify.Part{Tree: &p.Tree, Siblings: p.c.trees})
	}
	return all
}

// trees yields the trees of the container's partitions.
func (c *Container) trees(yield func(*lsm.Tree) bool) {
	for _, p := range c.routing.Load().parts {
		if !yield(&p.Tree) {
			return
		}
	}
}
