package main

import (
	"context"
	"errors"
	"io/fs"
	"path"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/segment"
)

// layout is what the manifests of a store name.
type layout struct {
	state      manifest.Store
	generation uint64
	containers []*containerLayout // in the order of the manifest
	problems   []finding
}

// containerLayout is a container and its physical partitions in key-space
// order.
type containerLayout struct {
	manifest.Container
	partitions []*partitionLayout
}

// partitionLayout is a physical partition. Its files are empty if the manifest
// cannot be read.
type partitionLayout struct {
	id         uint32
	rng        partmap.Range
	dir        string
	generation uint64
	files      manifest.Files
	runs       [][]*segmentLayout // newest first
	problems   []finding
}

// segmentLayout is a reference to a segment file and what the file says.
type segmentLayout struct {
	name         string
	ref          manifest.File
	inode        uint64              // the same for all names of a file
	props        *segment.Properties // nil: the file cannot be read
	dictionaries []dictionaryLayout
	problem      *finding
	reader       *segment.Reader // nil unless it was asked for
}

type dictionaryLayout struct {
	hash  uint64
	bytes int
}

// depth says how much of a layout is read.
type depth int

const (
	manifestsOnly depth = iota // no segment files
	properties                 // what each file says of itself
	readers                    // the files stay open, to be released
)

// readLayout reads the manifests and as much below them as depth says, of the
// partitions that pick wants.
func (f *files) readLayout(ctx context.Context, d depth, pick picker) (*layout, error) {
	for range maxAttempts {
		l, err := f.readStructure(ctx)
		if err != nil {
			return nil, err
		}
		if err = f.readPartitions(ctx, l, d, pick); err == nil {
			return l, nil
		}
		l.release()
		if err != errReplaced {
			return nil, err
		}
	}
	return nil, errRestless
}

// readStructure reads the store manifest only.
func (f *files) readStructure(ctx context.Context) (*layout, error) {
	state, generation, err := f.loadStore(ctx)
	if err != nil {
		return nil, err
	}
	l := &layout{state: state, generation: generation}
	report := func(format string, args ...any) {
		l.problems = append(l.problems, f.finding(manifest.Name(generation), -1, format, args...))
	}
	entries := make(map[uint32][]partmap.Entry)
	for _, p := range state.Partitions {
		lo, loErr := partmap.EPKFromBytes(p.Min)
		hi, hiErr := partmap.EPKFromBytes(p.Max)
		if err := errors.Join(loErr, hiErr); err != nil {
			report("partition %d: bad boundary: %v", p.ID, err)
			continue
		}
		entries[p.Container] = append(entries[p.Container], partmap.Entry{ID: partmap.PartitionID(p.ID), Range: partmap.Range{Min: lo, Max: hi}})
	}
	for _, c := range state.Containers {
		view := &containerLayout{Container: c}
		l.containers = append(l.containers, view)
		list := entries[c.ID]
		delete(entries, c.ID)
		if table, err := partmap.NewTable(list); err != nil {
			report("container %q: %v", c.Name, err)
		} else {
			for i := range list {
				list[i] = table.Entry(i)
			}
		}
		for _, e := range list {
			id := uint32(e.ID)
			view.partitions = append(view.partitions, &partitionLayout{id: id, rng: e.Range, dir: manifest.PartitionDir(id)})
		}
	}
	for container, list := range entries {
		report("%d partitions of container %d, which does not exist", len(list), container)
	}
	return l, nil
}

// readPartitions reads below the store manifest; errReplaced if that is not
// the newest any more and something is gone.
func (f *files) readPartitions(ctx context.Context, l *layout, d depth, pick picker) error {
	for _, c := range l.containers {
		for _, p := range c.partitions {
			if !pick.wants(c, p) {
				continue
			}
			if err := f.readPartition(ctx, l, p, d); err != nil {
				return err
			}
		}
	}
	return nil
}

// readPartition reads the manifest of a partition and its segment files. What
// is wrong with them is in the layout, and not an error.
func (f *files) readPartition(ctx context.Context, l *layout, p *partitionLayout, d depth) error {
	dir := manifest.NewDir(f.fs, p.dir, manifest.PartitionKind)
	for range maxAttempts {
		m, err := loadNewest[manifest.Files](ctx, dir)
		if ctx.Err() != nil || errors.Is(err, errRestless) || unreadable(err) {
			return err
		}
		p.release()
		p.problems, p.files, p.runs = nil, m, nil
		if err != nil {
			if goneErr := f.gone(ctx, l, p); goneErr != nil {
				return goneErr
			}
			p.problems = append(p.problems, f.findingOf(p.dir, err))
			return nil
		}
		p.generation = dir.Generation()
		if m.StoreID != l.state.StoreID || m.Partition != p.id {
			p.problems = append(p.problems, f.finding(path.Join(p.dir, manifest.Name(p.generation)), -1,
				"manifest of partition %d of store %x in the place of partition %d of store %x", m.Partition, m.StoreID, p.id, l.state.StoreID))
		}
		if d == manifestsOnly {
			return nil
		}
		missing, err := f.readRuns(ctx, l, p, d)
		if err != nil {
			return err
		}
		if !missing {
			return nil
		}
		if goneErr := f.gone(ctx, l, p); goneErr != nil || !replaced(dir, p.generation) {
			return goneErr
		}
	}
	return errRestless
}

// unreadable reports whether an error says that a file cannot be read by this
// program, which tells nothing about the file.
func unreadable(err error) bool {
	return errors.Is(err, engine.ErrTooNew) || errors.Is(err, engine.ErrResource) || errors.Is(err, fs.ErrPermission)
}

// gone returns errReplaced if the store has dropped a partition since its
// manifest was read: the partition's own manifest, and what that names, go
// without a newer one.
func (f *files) gone(ctx context.Context, l *layout, p *partitionLayout) error {
	if !replaced(f.storeManifests(), l.generation) {
		return nil
	}
	state, _, err := f.loadStore(ctx)
	if err == nil && !lists(&state, p.id) {
		err = errReplaced
	}
	return err
}

// readRuns opens the segment files of a partition. missing says that one is
// not as the manifest wants it.
func (f *files) readRuns(ctx context.Context, l *layout, p *partitionLayout, d depth) (missing bool, err error) {
	for _, r := range p.files.Runs {
		run := make([]*segmentLayout, 0, len(r.Files))
		for _, ref := range r.Files {
			if err := ctx.Err(); err != nil {
				return false, err
			}
			s := &segmentLayout{name: path.Join(p.dir, manifest.SegmentName(ref.Number)), ref: ref}
			run = append(run, s)
			err := f.openSegment(s, l, d)
			if unreadable(err) {
				p.runs = append(p.runs, run)
				return false, err
			}
			if err != nil {
				found := f.findingOf(s.name, err)
				s.problem, missing = &found, true
			}
		}
		p.runs = append(p.runs, run)
	}
	return missing, nil
}

// release closes the files that are open.
func (p *partitionLayout) release() {
	for s := range p.segments() {
		if s.reader != nil {
			s.reader.Release()
			s.reader = nil
		}
	}
}

func (l *layout) release() {
	for _, c := range l.containers {
		for _, p := range c.partitions {
			p.release()
		}
	}
}

// segments yields the segments of a partition.
func (p *partitionLayout) segments() func(yield func(*segmentLayout) bool) {
	return func(yield func(*segmentLayout) bool) {
		for _, run := range p.runs {
			for _, s := range run {
				if !yield(s) {
					return
				}
			}
		}
	}
}

// damage returns what is wrong with a layout.
func (l *layout) damage() []finding {
	all := append([]finding(nil), l.problems...)
	for _, c := range l.containers {
		for _, p := range c.partitions {
			all = append(all, p.problems...)
			for s := range p.segments() {
				if s.problem != nil {
					all = append(all, *s.problem)
				}
			}
		}
	}
	return all
}
