package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/partmap"
)

// prepare is step 2. install of the parents is locked.
func (r *reshape) prepare(ctx context.Context) error {
	r.names = make(map[uint64]string)
	for _, p := range r.parents {
		v, release := p.hold()
		defer release()
		for _, run := range v.runs {
			for _, f := range run.files {
				r.names[f.ref.Number] = f.name
			}
		}
	}
	for i, rng := range r.plan.Children {
		child := r.c.newPartition(partmap.Entry{ID: PartitionID(r.ids[i].ID), Range: rng})
		for _, p := range r.parents {
			child.parents = append(child.parents, p.id)
			child.changeFloor.Store(max(child.changeFloor.Load(), p.changeFloor.Load()))
		}
		r.children = append(r.children, child)
		runs, err := child.inheritRuns(trees(r.parents))
		if err != nil {
			return err
		}
		v := *child.version.Load()
		v.setRuns(runs)
		child.version.Store(&v)
		if err := r.link(ctx, child); err != nil {
			return err
		}
	}
	if err := r.db.env.fs.SyncDir(manifest.PartitionsDir); err != nil {
		return err
	}
	return r.makeRouting()
}

// link makes the directory of a child: links to its files, and its manifest. Storing
// the manifest syncs all names in the directory.
func (r *reshape) link(ctx context.Context, child *partition) error {
	fsys := r.db.env.fs
	if err := child.makeDirectory(); err != nil {
		return err
	}
	linked := make(map[uint64]bool)
	var copied int64
	for _, run := range child.version.Load().runs {
		for _, f := range run.files {
			if linked[f.ref.Number] {
				continue
			}
			linked[f.ref.Number] = true
			if err := ctx.Err(); err != nil {
				return err
			}
			n, err := vfs.LinkOrCopy(fsys, r.names[f.ref.Number], f.name)
			if err != nil && !f.missing(err) {
				return err
			}
			copied += n
		}
	}
	r.job.update(func(p *Progress) { p.CopiedBytes += copied })
	var inherits []manifest.Inherited
	var flushed uint64
	for _, p := range r.parents {
		seq := p.install.flushedSeq.Load()
		flushed = max(flushed, seq)
		if p.rng.Overlaps(child.rng) {
			inherits = append(inherits, manifest.Inherited{Stream: uint32(p.id), FlushedSeq: seq})
		}
	}
	child.install.flushedSeq.Store(flushed)
	child.inherits.Store(&inherits)
	child.install.applied = r.parents[0].install.applied
	child.born = r.parents[0].born
	return child.install.dir.Store(child.manifest(child.version.Load().runs, flushed, child.install.applied, inherits))
}

// makeRouting builds the routing table with the children in the parents' place.
func (r *reshape) makeRouting() error {
	old := r.c.routing.Load()
	var entries []partmap.Entry
	next := new(routing)
	for i, p := range old.parts {
		if p == r.parents[0] {
			for _, child := range r.children {
				entries = append(entries, partmap.Entry{ID: child.id, Range: child.rng})
				next.parts = append(next.parts, child)
			}
		}
		if !slices.Contains(r.parents, p) {
			entries = append(entries, old.table.Entry(i))
			next.parts = append(next.parts, p)
		}
	}
	table, err := partmap.NewTable(entries)
	if err != nil {
		return fmt.Errorf("routing table: %w", err)
	}
	next.table = table
	r.routing = next
	return nil
}

// trees returns the trees of partitions.
func trees(parts []*partition) (all []*tree) {
	for _, p := range parts {
		all = append(all, &p.tree)
	}
	return all
}
