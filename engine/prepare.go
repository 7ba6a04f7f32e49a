package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/storedir"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/partmap"
)

// prepare is step 2. install of the parents is locked.
func (r *reshape) prepare(ctx context.Context) error {
	r.names = make(map[uint64]string)
	for _, p := range r.parents {
		v, release := p.PinVersion()
		defer release()
		for _, run := range v.Runs {
			for _, f := range run.Files {
				if r.names[f.Ref.Number] == "" || f.Broken() == nil {
					r.names[f.Ref.Number] = f.Name
				}
			}
		}
	}
	for i, rng := range r.plan.Children {
		child := r.c.newPartition(partmap.Entry{ID: PartitionID(r.ids[i].ID), Range: rng})
		for _, p := range r.parents {
			child.Parents = append(child.Parents, p.ID)
			child.ChangeFloor.Store(max(child.ChangeFloor.Load(), p.ChangeFloor.Load()))
		}
		r.children = append(r.children, child)
		runs, err := child.InheritRuns(trees(r.parents))
		if err != nil {
			return err
		}
		v := *child.Version.Load()
		v.SetRuns(runs)
		child.Version.Store(&v)
		if err := r.link(ctx, child); err != nil {
			return err
		}
	}
	if err := r.db.env.FS.SyncDir(manifest.PartitionsDir); err != nil {
		return err
	}
	return r.makeRouting()
}

// link makes the directory of a child: links to its files, and its manifest. Storing
// the manifest syncs all names in the directory.
func (r *reshape) link(ctx context.Context, child *partition) error {
	fsys := r.db.env.FS
	if err := storedir.MakePartition(fsys, child.Dir); err != nil {
		return err
	}
	linked := make(map[uint64]bool)
	var copied int64
	for _, run := range child.Version.Load().Runs {
		for _, f := range run.Files {
			if linked[f.Ref.Number] {
				continue
			}
			linked[f.Ref.Number] = true
			if err := ctx.Err(); err != nil {
				return err
			}
			n, err := vfs.LinkOrCopy(fsys, r.names[f.Ref.Number], f.Name)
			if err != nil && !f.Missing(err) {
				return err
			}
			copied += n
		}
	}
	r.job.update(func(p *ReshapeProgress) { p.CopiedBytes += copied })
	var inherits []manifest.Inherited
	var flushed uint64
	for _, p := range r.parents {
		seq := p.Install.FlushedSeq.Load()
		flushed = max(flushed, seq)
		if p.Range.Overlaps(child.Range) {
			inherits = append(inherits, manifest.Inherited{Stream: uint32(p.ID), FlushedSeq: seq})
		}
	}
	child.Install.FlushedSeq.Store(flushed)
	child.Inherits.Store(&inherits)
	child.Install.Applied = r.parents[0].Install.Applied
	child.InstallEpoch = r.parents[0].InstallEpoch
	return child.Install.Dir.Store(child.Manifest(child.Version.Load().Runs, flushed, child.Install.Applied, inherits))
}

// makeRouting builds the routing table with the children in the parents' place.
func (r *reshape) makeRouting() error {
	old := r.c.routing.Load()
	var entries []partmap.Entry
	next := new(routing)
	for i, p := range old.parts {
		if p == r.parents[0] {
			for _, child := range r.children {
				entries = append(entries, partmap.Entry{ID: child.ID, Range: child.Range})
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
func trees(parts []*partition) (all []*lsm.Tree) {
	for _, p := range parts {
		all = append(all, &p.Tree)
	}
	return all
}
