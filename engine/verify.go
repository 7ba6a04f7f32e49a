package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path"
	"slices"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/partmap"
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
		v := verifier{db: db, ctx: ctx, seen: make(map[any]bool)}
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
	found []Finding    // by the present step
	seen  map[any]bool // partitions and readers that were checked: a shared file is read once
	ended bool         // the log was the last step
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

func (v *verifier) report(file string, offset int64, format string, args ...any) {
	switch n := len(v.found); {
	case n < maxFindings:
		v.found = append(v.found, Finding{File: file, Offset: offset, What: fmt.Sprintf(format, args...)})
	case n == maxFindings:
		v.found = append(v.found, Finding{File: file, Offset: -1, What: "more findings than are listed"})
	}
}

// check reports err, if there is one, at the place that it names.
func (v *verifier) check(file string, err error) {
	var corrupt *CorruptionError
	switch {
	case err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
	case errors.As(err, &corrupt):
		v.report(corrupt.File, corrupt.Offset, "%v", corrupt.Err)
	default:
		v.report(file, -1, "%v", err)
	}
}

// manifests reads the manifests again, and reports unknown names among the partition
// directories.
func (v *verifier) manifests() {
	if _, err := newest[manifest.Store](v.db, ".", manifest.StoreKind); err != nil {
		v.check(v.db.env.fs.Path("."), err)
		return
	}
	bases, err := v.db.env.fs.List(manifest.PartitionsDir)
	if err != nil {
		v.check(v.db.env.fs.Path(manifest.PartitionsDir), err)
		return
	}
	for _, base := range bases {
		// Directories that no manifest names are left by a crash, or belong to
		// a container that is being made.
		if _, ok := manifest.ParsePartitionDir(base); !ok {
			v.report(v.db.env.fs.Path(path.Join(manifest.PartitionsDir, base)), -1, "not a partition of this store")
		}
	}
}

// partition checks the files of a physical partition.
func (v *verifier) partition(p *partition) {
	if v.done() {
		return
	}
	present, release := p.hold()
	defer release()
	for n, r := range present.runs {
		for i, f := range r.files {
			if !v.done() {
				v.file(p, f)
				v.shadows(f, present.runs, n)
			}
			if i > 0 && f.min.Compare(&r.files[i-1].max) < 0 {
				v.report(v.db.env.fs.Path(f.name), -1, "reference [%s, %s) overlaps that of another file of its run", f.min.String(), f.max.String())
			}
		}
	}
	v.unknownFiles(p)
}

func (v *verifier) file(p *partition, f *file) {
	name := v.db.env.fs.Path(f.name)
	if !v.seen[f.Reader] {
		v.seen[f.Reader] = true
		v.check(name, f.Verify(v.ctx, func(found segment.Finding) {
			v.report(name, found.Offset, "%s%s", found.What, v.sharers(p, f))
		}))
		if !v.done() {
			v.check(name, f.named(VerifyIndex(v.ctx, f.Reader, func(at int64, what string) { v.report(name, at, "%s", what) })))
		}
	}
	if v.done() {
		return
	}
	// The keys must lie within the reference, which lies within the partition.
	if f.min.Compare(&p.rng.Min) < 0 || f.max.Compare(&p.rng.Max) > 0 {
		v.report(name, -1, "reference [%s, %s) goes beyond partition %d", f.min.String(), f.max.String(), p.id)
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
				v.report(name, -1, "item with EPK %s lies outside of the reference [%s, %s)", epk.String(), f.min.String(), f.max.String())
			}
			last = k.Clone()
		}
		if v.done() {
			return
		}
	}
	v.check(name, f.named(walk.Err()))
}

// newest loads the newest manifest of a directory. A writer may replace it at any time.
func newest[M any](db *DB, name string, kind manifest.Kind) (m M, err error) {
	for before := uint64(0); ; {
		dir := manifest.NewDir(db.env.fs, name, kind)
		latest, err := dir.Latest()
		if err != nil {
			return m, err
		}
		if err = dir.Load(&m); !errors.Is(err, ErrMissing) || latest == before {
			return m, err
		}
		before = latest
	}
}

// sharers names the other partitions that share a damaged file.
func (v *verifier) sharers(p *partition, f *file) (text string) {
	guard := v.db.env.epoch.Enter()
	defer guard.Leave()
	for _, other := range p.c.routing.Load().parts {
		if other == p {
			continue
		}
		if slices.ContainsFunc(other.version.Load().runs, func(r *run) bool {
			return slices.ContainsFunc(r.files, func(o *file) bool { return o.Reader == f.Reader })
		}) {
			text += fmt.Sprintf("; shared with partition %d", other.id)
		}
	}
	return text
}

// unknownFiles reports files in the directory of a partition that its newest
// manifest does not name and that no crash of this engine leaves there.
func (v *verifier) unknownFiles(p *partition) {
	if v.done() || v.dropped(p) {
		return
	}
	names, err := v.db.env.fs.List(p.dir)
	var m manifest.Files
	if err == nil {
		m, err = newest[manifest.Files](v.db, p.dir, manifest.PartitionKind)
	}
	if err != nil {
		if !v.dropped(p) {
			v.check(v.db.env.fs.Path(p.dir), err)
		}
		return
	}
	for _, base := range names {
		number, ok := manifest.ParseSegmentName(base)
		if !ok || m.Lists(number) || m.Disposable(number) || slices.Contains(p.listed(), number) {
			continue
		}
		name := path.Join(p.dir, base)
		if _, err := v.db.env.fs.Stat(name); errors.Is(err, ErrMissing) {
			continue // removed since
		}
		v.report(v.db.env.fs.Path(name), -1, "no manifest names this file")
	}
}

// dropped reports whether the store has dropped a partition. A store that is open
// read-only reads that from the manifest of the writer.
func (v *verifier) dropped(p *partition) bool {
	if !v.db.opts.ReadOnly {
		return p.dropped.Load()
	}
	store, err := newest[manifest.Store](v.db, ".", manifest.StoreKind)
	return err == nil && !slices.ContainsFunc(store.Partitions, func(m manifest.Partition) bool { return m.ID == uint32(p.id) })
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
		v.check(v.db.env.fs.Path(manifest.LogDir), err)
		return
	}
}

// logState returns what the newest manifest says of the log.
func (v *verifier) logState() (wal.State, error) {
	store, err := newest[manifest.Store](v.db, ".", manifest.StoreKind)
	return wal.State{First: store.LogFirst, Closed: store.LogClosed}, err
}

// readLog decodes every record of the log that the newest manifest describes.
func (v *verifier) readLog() (state wal.State, err error) {
	state, err = v.logState()
	if err != nil {
		return state, nil // reported by manifests
	}
	var op operation
	_, err = wal.Recover(v.ctx, v.db.env.fs, manifest.LogDir, state, v.db.logOptions(), func(rec *wal.Record) error {
		if rec.Type != wal.TypeWrite && rec.Type != wal.TypeCarried {
			return nil
		}
		for rest := rec.Payload; len(rest) > 0; {
			var wrong error
			if rest, wrong = decodeOperation(rest, rec.Type == wal.TypeCarried, &op); wrong != nil {
				return recordError(v.db, rec, wrong)
			}
		}
		return nil
	})
	return state, err
}
