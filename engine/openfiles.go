package engine

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/memtable"
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
	db.containers.Store(&containerSet{settled: containers})
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
	db.adoptSeed(all)
	return nil
}

// adoptSeed takes the hash seed of the newest file for new memtables and files, so that
// a read hashes its key only once. Correctness does not rely on it: a file is read
// with its own seed. The memtables are still empty.
func (db *DB) adoptSeed(parts []*partition) {
	newest := uint64(0)
	for _, p := range parts {
		for _, r := range p.Version.Load().Runs {
			for _, f := range r.Files {
				if seed := f.Seed(); f.Ref.Number > newest && seed != (item.Seed{}) {
					newest, db.env.Seed = f.Ref.Number, seed
				}
			}
		}
	}
	if newest == 0 {
		return
	}
	for _, p := range parts {
		v := *p.Version.Load()
		v.Active = memtable.New(db.env.Pool, p.Span, 0, db.env.Seed)
		p.Version.Store(&v)
	}
}

// openAll opens partitions, several at a time. It ends as if it opened one after the
// other: it returns the first error in their order, and reports the partitions and
// files before it that were set aside.
func (db *DB) openAll(ctx context.Context, parts []*partition) error {
	aside := make([][]error, len(parts)) // of each, why it or its files were set aside
	shared := lsm.SharedFiles{Readers: make(map[lsm.SharedFile]*lsm.SharedReader)}
	done, err := atOnce(ctx, db.opts.atOnce, len(parts), func(i int) error {
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
	p.noteNames(names)
	var m manifest.Files
	if err := p.Install.Dir.LoadListed(names, &m); err != nil {
		return nil, err
	}
	if err := p.db.storeManifest.state.CheckFiles(uint32(p.ID), &m); err != nil {
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
	p.db.numberTaken(max(m.Floor, 1) - 1)
	v := *p.Version.Load()
	for i := range m.Runs {
		r := &lsm.Run{Overwritten: m.Runs[i].Shadowed, Expiring: lsm.ExpiringFrom(m.Runs[i].Expiring), KeptAbove: m.ChangeFloor}
		v.Runs = append(v.Runs, r)
		p.Version.Store(&v) // so that abandon closes what was opened
		for _, ref := range m.Runs[i].Files {
			f, err := p.OpenFile(ref, shared)
			if p.db.bears(err) {
				aside = append(aside, err)
				f, err = p.AsideFile(ref, path.Join(p.Dir, manifest.SegmentName(ref.Number)), err)
			}
			if err != nil {
				return aside, err
			}
			r.Files = append(r.Files, f)
			p.db.numberTaken(ref.Number)
			if f.Broken() == nil {
				p.foundStamp(f.Properties().MaxModified)
			}
		}
	}
	v.SetRuns(v.Runs)
	p.Version.Store(&v)
	return aside, nil
}

// noteNames makes sure that no new file gets the number of a file in the directory.
func (p *partition) noteNames(names []string) {
	for _, name := range names {
		if number, ok := manifest.ParseSegmentName(strings.TrimSuffix(name, manifest.TempSuffix)); ok {
			p.db.numberTaken(number)
		}
	}
}

// numberTaken makes sure that all new files get numbers above this one.
func (db *DB) numberTaken(number uint64) {
	for {
		old := db.env.NextFile.Load()
		if old >= number || db.env.NextFile.CompareAndSwap(old, number) {
			return
		}
	}
}
