package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/cleavestore/cleave/internal/atonce"
	"github.com/cleavestore/cleave/internal/cowmap"
	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/reshaping"
)

// openPartitions builds containers and partitions and opens their files.
func (db *DB) openPartitions(ctx context.Context, state *manifest.Store) error {
	entries, err := state.Entries()
	if err != nil {
		return err
	}
	containers := make(map[string]*Container, len(state.Containers))
	db.containers.Store(cowmap.New(containers))
	var all []*partition
	for i := range state.Containers {
		var c *Container
		c, err = db.newContainer(&state.Containers[i], entries[state.Containers[i].ID])
		if err != nil && !errors.Is(err, ErrTooNew) {
			err = fault.Corrupt(db.env.FS.Path(manifest.Name(db.storeManifest.dir.Generation())), 0, "%w", err)
		}
		if err != nil {
			return err
		}
		containers[c.name] = c
		for _, p := range c.routing.Load().parts {
			m := state.Partition(uint32(p.ID))
			p.Absent = m.Absent
			for _, id := range m.Parents {
				p.Parents = append(p.Parents, PartitionID(id))
			}
			all = append(all, p)
		}
	}
	if err = db.openAll(ctx, all); err != nil {
		return err
	}
	db.env.AdoptSeed(reshaping.Trees(physicals(all)))
	return nil
}

// openAll opens partitions, several at a time. It ends as if it opened one after the
// other: it returns the first error in their order, and reports the partitions and
// files before it that were set aside.
func (db *DB) openAll(ctx context.Context, parts []*partition) error {
	aside := make([][]error, len(parts)) // of each, why it or its files were set aside
	var shared lsm.SharedFiles
	done, err := atonce.Do(ctx, db.opts.atOnce, len(parts), func(i int) error {
		p := parts[i]
		found, err := p.Open(&db.storeManifest.state, &shared, db.bears)
		if p.db.bears(err) {
			found = append(found, err)
			err = p.SetAside(err, p.Parents)
		}
		aside[i] = found
		if err != nil {
			return fmt.Errorf("container %q, partition %d: %w", p.c.name, p.ID, err)
		}
		return nil
	})
	for i := range min(done+1, len(parts)) {
		for _, why := range aside[i] {
			parts[i].tellAside(why)
		}
	}
	return err
}
