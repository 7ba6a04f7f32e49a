package layout

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/segment"
)

// Store is what the manifests of a store name.
type Store struct {
	State      manifest.Store
	Generation uint64
	Containers []*Container // in the order of the manifest
	Problems   []Finding
}

// Container is a container and its physical partitions in key-space
// order.
type Container struct {
	manifest.Container
	Partitions []*Partition
}

// Partition is a physical partition. Its files are empty if the manifest
// cannot be read.
type Partition struct {
	ID         uint32
	Range      partmap.Range
	Dir        string
	Generation uint64
	Files      manifest.Files
	Runs       [][]*Segment // newest first
	Problems   []Finding
}

// Segment is a reference to a segment file and what the file says.
type Segment struct {
	Name         string
	Ref          manifest.File
	Inode        uint64              // the same for all names of a file
	Props        *segment.Properties // nil: the file cannot be read
	Dictionaries []Dictionary
	Problem      *Finding
	Reader       *segment.Reader // nil unless it was asked for
}

// Dictionary is one that a segment file names.
type Dictionary struct {
	Hash  uint64
	Bytes int
}

// Depth says how much of a layout is read.
type Depth int

// Depths.
const (
	ManifestsOnly Depth = iota // no segment files
	Properties                 // what each file says of itself
	Readers                    // the files stay open, to be released
)

// ReadLayout reads the manifests and as much below them as depth says, of the
// partitions that pick wants.
func (f *Files) ReadLayout(ctx context.Context, d Depth, pick Picker) (*Store, error) {
	for range MaxAttempts {
		l, err := f.ReadStructure(ctx)
		if err != nil {
			return nil, err
		}
		if err = f.readPartitions(ctx, l, d, pick); err == nil {
			return l, nil
		}
		l.Release()
		if err != ErrReplaced {
			return nil, err
		}
	}
	return nil, ErrRestless
}

// ReadStructure reads the store manifest only.
func (f *Files) ReadStructure(ctx context.Context) (*Store, error) {
	state, generation, err := f.LoadStore(ctx)
	if err != nil {
		return nil, err
	}
	l := &Store{State: state, Generation: generation}
	report := func(format string, args ...any) {
		l.Problems = append(l.Problems, f.Finding(manifest.Name(generation), -1, format, args...))
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
		view := &Container{Container: c}
		l.Containers = append(l.Containers, view)
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
			view.Partitions = append(view.Partitions, &Partition{ID: id, Range: e.Range, Dir: manifest.PartitionDir(id)})
		}
	}
	for container, list := range entries {
		report("%d partitions of container %d, which does not exist", len(list), container)
	}
	return l, nil
}

// readPartitions reads below the store manifest; ErrReplaced if that is not
// the newest any more and something is gone.
func (f *Files) readPartitions(ctx context.Context, l *Store, d Depth, pick Picker) error {
	for _, c := range l.Containers {
		for _, p := range c.Partitions {
			if !pick.Wants(c, p) {
				continue
			}
			if err := f.ReadPartition(ctx, l, p, d); err != nil {
				return err
			}
		}
	}
	return nil
}

// ReadPartition reads the manifest of a partition and its segment files. What
// is wrong with them is in the layout, and not an error.
func (f *Files) ReadPartition(ctx context.Context, l *Store, p *Partition, d Depth) error {
	dir := manifest.NewDir(f.FS, p.Dir, manifest.PartitionKind)
	for range MaxAttempts {
		m, err := LoadNewest[manifest.Files](ctx, dir)
		if ctx.Err() != nil || errors.Is(err, ErrRestless) || Unreadable(err) {
			return err
		}
		p.Release()
		p.Problems, p.Files, p.Runs = nil, m, nil
		if err != nil {
			if goneErr := f.Gone(ctx, l, p); goneErr != nil {
				return goneErr
			}
			p.Problems = append(p.Problems, f.FindingOf(p.Dir, err))
			return nil
		}
		p.Generation = dir.Generation()
		if m.StoreID != l.State.StoreID || m.Partition != p.ID {
			p.Problems = append(p.Problems, f.Finding(path.Join(p.Dir, manifest.Name(p.Generation)), -1,
				"manifest of partition %d of store %x in the place of partition %d of store %x", m.Partition, m.StoreID, p.ID, l.State.StoreID))
		}
		if d == ManifestsOnly {
			return nil
		}
		missing, err := f.readRuns(ctx, l, p, d)
		if err != nil {
			return err
		}
		if !missing {
			return nil
		}
		if goneErr := f.Gone(ctx, l, p); goneErr != nil || !Replaced(dir, p.Generation) {
			return goneErr
		}
	}
	return ErrRestless
}

// Unreadable reports whether an error says that a file cannot be read by this
// program, which tells nothing about the file.
func Unreadable(err error) bool {
	return errors.Is(err, engine.ErrTooNew) || errors.Is(err, engine.ErrResource) || errors.Is(err, fs.ErrPermission)
}

// Gone returns ErrReplaced if the store has dropped a partition since its
// manifest was read: the partition's own manifest, and what that names, go
// without a newer one.
func (f *Files) Gone(ctx context.Context, l *Store, p *Partition) error {
	if !Replaced(f.StoreManifests(), l.Generation) {
		return nil
	}
	state, _, err := f.LoadStore(ctx)
	if err == nil && !Lists(&state, p.ID) {
		err = ErrReplaced
	}
	return err
}

// Lists reports whether a store has a partition.
func Lists(state *manifest.Store, id uint32) bool {
	return slices.ContainsFunc(state.Partitions, func(m manifest.Partition) bool { return m.ID == id })
}

// readRuns opens the segment files of a partition. missing says that one is
// not as the manifest wants it.
func (f *Files) readRuns(ctx context.Context, l *Store, p *Partition, d Depth) (missing bool, err error) {
	for _, r := range p.Files.Runs {
		run := make([]*Segment, 0, len(r.Files))
		for _, ref := range r.Files {
			if err := ctx.Err(); err != nil {
				return false, err
			}
			s := &Segment{Name: path.Join(p.Dir, manifest.SegmentName(ref.Number)), Ref: ref}
			run = append(run, s)
			err := f.openSegment(s, l, d)
			if Unreadable(err) {
				p.Runs = append(p.Runs, run)
				return false, err
			}
			if err != nil {
				found := f.FindingOf(s.Name, err)
				s.Problem, missing = &found, true
			}
		}
		p.Runs = append(p.Runs, run)
	}
	return missing, nil
}

// Release closes the files that are open.
func (p *Partition) Release() {
	for s := range p.segments() {
		if s.Reader != nil {
			s.Reader.Release()
			s.Reader = nil
		}
	}
}

// Release closes the files that are open.
func (l *Store) Release() {
	for _, c := range l.Containers {
		for _, p := range c.Partitions {
			p.Release()
		}
	}
}

// segments yields the segments of a partition.
func (p *Partition) segments() func(yield func(*Segment) bool) {
	return func(yield func(*Segment) bool) {
		for _, run := range p.Runs {
			for _, s := range run {
				if !yield(s) {
					return
				}
			}
		}
	}
}

// Damage returns what is wrong with a layout.
func (l *Store) Damage() []Finding {
	all := append([]Finding(nil), l.Problems...)
	for _, c := range l.Containers {
		for _, p := range c.Partitions {
			all = append(all, p.Problems...)
			for s := range p.segments() {
				if s.Problem != nil {
					all = append(all, *s.Problem)
				}
			}
		}
	}
	return all
}
