package engine

import (
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/cleavestore/cleave/internal/atonce"
	"github.com/cleavestore/cleave/internal/cowmap"
	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/partmap"
)

// openPartitions builds containers and partitions and opens their files.
func (db *DB) openPartitions(ctx context.Context, state *manifest.Store) error {
	entries := make(map[uint32][]partmap.Entry)
	parents := make(map[PartitionID][]PartitionID)
	for i := range state.Partitions {
		m := &state.Partitions[i]
		lo, err := partmap.EPKFromBytes(m.Min)
		if err != nil {
			return fmt.Errorf("partition %d: lower boundary: %w", m.ID, err)
		}
		hi, err := partmap.EPKFromBytes(m.Max)
		if err != nil {
			return fmt.Errorf("partition %d: upper boundary: %w", m.ID, err)
		}
		for _, id := range m.Parents {
			parents[PartitionID(m.ID)] = append(parents[PartitionID(m.ID)], PartitionID(id))
		}
		entries[m.Container] = append(entries[m.Container], partmap.Entry{ID: PartitionID(m.ID), Range: partmap.Range{Min: lo, Max: hi}})
	}
	containers := make(map[string]*Container, len(state.Containers))
	db.containers.Store(cowmap.New(containers))
	var all []*partition
	for i := range state.Containers {
		c, err := db.newContainer(&state.Containers[i], entries[state.Containers[i].ID])
		if err != nil && !errors.Is(err, ErrTooNew) {
			err = fault.Corrupt(db.env.FS.Path(manifest.Name(db.storeManifest.dir.Generation())), 0, "%w", err)
		}
		if err != nil {
			return err
		}
		containers[c.name] = c
		for _, p := range c.routing.Load().parts {
			p.parents = parents[p.ID]
			all = append(all, p)
		}
	}
	if err := db.openAll(ctx, all); err != nil {
		return err
	}
	db.env.AdoptSeed(trees(all))
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
		found, err := p.open(&shared)
		if p.db.bears(err) {
			found = append(found, err)
			err = p.SetAside(err, p.parents)
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

// open loads the manifest of a partition and opens its files. aside are the reasons
// why files were set aside.
func (p *partition) open(shared *lsm.SharedFiles) (aside []error, err error) {
	names, err := p.db.env.FS.List(p.Dir)
	if err != nil {
		return nil, err
	}
	p.Env.NamesTaken(names)
	var m manifest.Files
	if err = p.Install.Dir.LoadListed(names, &m); err != nil {
		return nil, err
	}
	if err = p.db.storeManifest.state.CheckFiles(uint32(p.ID), &m); err != nil {
		return nil, fault.Corrupt(p.db.env.FS.Path(path.Join(p.Dir, manifest.Name(p.Install.Dir.Generation()))), 0, "%w", err)
	}
	p.leftovers = m.Leftovers(names)
	p.Install.FlushedSeq.Store(m.FlushedSeq)
	p.Visible.Store(m.FlushedSeq)
	p.mu.lastSeq = m.FlushedSeq
	p.Install.Applied = m.Applied.OrZero()
	p.mu.applied = p.Install.Applied
	p.c.entryTime.Raise(p.mu.applied.Time)
	p.Inherits.Store(&m.Inherits)
	p.ChangeFloor.Store(m.ChangeFloor)
	p.mu.mixed = len(m.Inherits) > 0
	// New files get numbers from m.Floor on. If the process ends before a manifest
	// names a new file, the next open knows by the number that it is left over.
	p.Env.NumberTaken(max(m.Floor, 1) - 1)
	aside, err = p.OpenRuns(&m, shared, p.db.bears)
	p.foundStamp(p.Version.Load().NewestStamp())
	return aside, err
}
