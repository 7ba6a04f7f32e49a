package engine

import (
	"context"
	"fmt"
	"iter"
	"path"
	"slices"

	"github.com/cleavestore/cleave/internal/logrecord"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/segment"
	"github.com/cleavestore/cleave/wal"
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
		v := newVerifier(ctx, db)
		for step := v.manifests; step != nil; step = v.nextStep() {
			// No call is held while the caller looks at the findings.
			err := v.take(step)
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
	call, err := v.db.enter(v.ctx)
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
	files *lsm.TreeChecker
	found []Finding           // by the present step
	seen  map[*partition]bool // they were checked
	ended bool                // the log was the last step
}

func newVerifier(ctx context.Context, db *DB) *verifier {
	v := &verifier{db: db, ctx: ctx, seen: make(map[*partition]bool)}
	v.files = lsm.NewTreeChecker(ctx, v.report)
	return v
}

// nextStep returns the next step, nil after the last one: a partition that was not
// checked yet, also one that has replaced others since, or the log.
func (v *verifier) nextStep() func() {
	for _, p := range v.db.partitions() {
		if !v.seen[p] {
			v.seen[p] = true
			return func() { v.partition(p) }
		}
	}
	if v.ended {
		return nil
	}
	v.ended = true
	return v.log
}

func (v *verifier) done() bool { return v.ctx.Err() != nil }

// report notes a finding of the present step.
func (v *verifier) report(file string, offset int64, what string) {
	switch n := len(v.found); {
	case n < maxFindings:
		v.found = append(v.found, Finding{File: file, Offset: offset, What: what})
	case n == maxFindings:
		v.found = append(v.found, Finding{File: file, Offset: -1, What: "more findings than are listed"})
	}
}

// failed reports the error of a check, if there is one, at the place that it names.
func (v *verifier) failed(file string, err error) { lsm.FileReport(v.report).Failed(file, err) }

// manifests reads the manifests again, and reports unknown names among the partition
// directories.
func (v *verifier) manifests() {
	if _, err := manifest.LoadNewest[manifest.Store](v.db.env.FS, ".", manifest.StoreKind); err != nil {
		v.failed(v.db.env.FS.Path("."), err)
		return
	}
	bases, err := v.db.env.FS.List(manifest.PartitionsDir)
	if err != nil {
		v.failed(v.db.env.FS.Path(manifest.PartitionsDir), err)
		return
	}
	for _, base := range bases {
		// Directories that no manifest names are left by a crash, or belong to
		// a container that is being made.
		if _, ok := manifest.ParsePartitionDir(base); !ok {
			v.report(v.db.env.FS.Path(path.Join(manifest.PartitionsDir, base)), -1, "not a partition of this store")
		}
	}
}

// partition checks the files of a physical partition.
func (v *verifier) partition(p *partition) {
	v.files.Check(&p.Tree, func(f *lsm.File) string { return v.sharers(p, f) })
	if v.done() || v.dropped(p) {
		return
	}
	unknown, err := p.UnknownFiles()
	if err != nil {
		if !v.dropped(p) {
			v.failed(v.db.env.FS.Path(p.Dir), err)
		}
		return
	}
	for _, name := range unknown {
		v.report(v.db.env.FS.Path(name), -1, "no manifest names this file")
	}
}

// sharers names the other partitions that share a damaged file.
func (v *verifier) sharers(p *partition, f *lsm.File) (text string) {
	guard := v.db.env.Epoch.Enter()
	defer guard.Leave()
	for _, other := range p.c.routing.Load().parts {
		if other == p {
			continue
		}
		if other.Version.Load().Shares(f) {
			text += fmt.Sprintf("; shared with partition %d", other.ID)
		}
	}
	return text
}

// dropped reports whether the store has dropped a partition. A store that is open
// read-only reads that from the manifest of the writer.
func (v *verifier) dropped(p *partition) bool {
	if !v.db.opts.ReadOnly {
		return p.Dropped.Load()
	}
	store, err := manifest.LoadNewest[manifest.Store](v.db.env.FS, ".", manifest.StoreKind)
	return err == nil && !slices.ContainsFunc(store.Partitions, func(m manifest.Partition) bool { return m.ID == uint32(p.ID) })
}

// log reads the log. It reads again if log files were released meanwhile.
func (v *verifier) log() {
	for !v.done() {
		read, err := v.readLog()
		if err != nil {
			if now, _ := v.logState(); now.First != read.First || !slices.Equal(now.Closed, read.Closed) {
				continue
			}
		}
		v.failed(v.db.env.FS.Path(manifest.LogDir), err)
		return
	}
}

// logState returns what the newest manifest says of the log.
func (v *verifier) logState() (wal.State, error) {
	store, err := manifest.LoadNewest[manifest.Store](v.db.env.FS, ".", manifest.StoreKind)
	return wal.State{First: store.LogFirst, Closed: store.LogClosed}, err
}

// readLog decodes every record of the log that the newest manifest describes.
func (v *verifier) readLog() (state wal.State, err error) {
	state, err = v.logState()
	if err != nil {
		return state, nil // reported by manifests
	}
	var op logrecord.Operation
	_, err = wal.Recover(v.ctx, v.db.env.FS, manifest.LogDir, state, v.db.logOptions(), func(rec *wal.Record) error {
		if rec.Type != wal.TypeWrite && rec.Type != wal.TypeCarried {
			return nil
		}
		for rest := rec.Payload; len(rest) > 0; {
			var wrong error
			if rest, wrong = logrecord.Decode(rest, rec.Type == wal.TypeCarried, &op); wrong != nil {
				return recordError(v.db, rec, wrong)
			}
		}
		return nil
	})
	return state, err
}

// VerifyIndex compares the index of a segment file, if it has one, with an index that is
// built anew from its documents: each term must have the versions that contain it, and
// no others. report is called with what is wrong and the offset of the index in the
// file; values are not shown. The error, if any, is that of reading the file.
func VerifyIndex(ctx context.Context, r *segment.Reader, report func(offset int64, what string)) error {
	return lsm.CheckIndex(ctx, r, report)
}
