package engine

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/segment"
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
	opened := make(sharedFiles)
	for i := range state.Containers {
		c, err := db.newContainer(&state.Containers[i], entries[state.Containers[i].ID])
		if err != nil && !errors.Is(err, ErrTooNew) {
			err = fault.Corrupt(db.fs.Path(manifest.Name(db.structure.dir.Generation())), 0, "%w", err)
		}
		if err != nil {
			return err
		}
		containers[c.name] = c
		for _, p := range c.routing.Load().parts {
			if err := ctx.Err(); err != nil {
				return err
			}
			p.parents = parents[p.id]
			err := p.open(opened)
			if db.bears(err) {
				err = p.setAside(err)
			}
			if err != nil {
				return fmt.Errorf("container %q, partition %d: %w", c.name, p.id, err)
			}
		}
	}
	return nil
}

// open loads the manifest of a partition and opens its files.
func (p *partition) open(opened sharedFiles) error {
	var m manifest.Files
	if err := p.install.dir.Load(&m); err != nil {
		return err
	}
	if err := p.db.structure.state.CheckFiles(uint32(p.id), &m); err != nil {
		return fault.Corrupt(p.db.fs.Path(path.Join(p.dir, manifest.Name(p.install.dir.Generation()))), 0, "%w", err)
	}
	p.left = m
	p.install.flushedSeq.Store(m.FlushedSeq)
	p.visible.Store(m.FlushedSeq)
	p.mu.lastSeq = m.FlushedSeq
	p.install.applied = appliedFrom(m.Applied)
	p.mu.applied = p.install.applied
	p.c.raiseEntryTime(p.mu.applied.time)
	p.inherits.Store(&m.Inherits)
	p.changeFloor.Store(m.ChangeFloor)
	p.mu.mixed = len(m.Inherits) > 0
	if err := p.noteNames(); err != nil {
		return err
	}
	// A file of this run must not look like one that an older manifest named: it
	// is known by its number to be left over if this run ends before its commit.
	p.db.nextFile.Store(max(p.db.nextFile.Load(), max(m.Floor, 1)-1))
	v := *p.version.Load()
	for i := range m.Runs {
		r := &run{shadowed: m.Runs[i].Shadowed, expiring: expiringFrom(m.Runs[i].Expiring), keptAbove: m.ChangeFloor}
		v.runs = append(v.runs, r)
		p.version.Store(&v) // so that abandon closes what was opened
		for _, ref := range m.Runs[i].Files {
			f, err := p.openFile(ref, opened)
			if p.db.bears(err) {
				f, err = p.asideFile(ref, path.Join(p.dir, manifest.SegmentName(ref.Number)), err)
			}
			if err != nil {
				return err
			}
			r.files = append(r.files, f)
			p.db.nextFile.Store(max(p.db.nextFile.Load(), ref.Number))
			if f.Broken() == nil {
				p.foundStamp(f.Properties().MaxModified)
			}
		}
	}
	v.setRuns(v.runs)
	p.version.Store(&v)
	return nil
}

// noteNames makes sure that no file gets the number of one that is in the directory.
func (p *partition) noteNames() error {
	names, err := p.db.fs.List(p.dir)
	for _, name := range names {
		if number, ok := manifest.ParseSegmentName(strings.TrimSuffix(name, manifest.TempSuffix)); ok {
			p.db.nextFile.Store(max(p.db.nextFile.Load(), number))
		}
	}
	return err
}

// openFile opens a file reference and checks it against the file.
func (p *partition) openFile(ref manifest.File, opened sharedFiles) (*file, error) {
	lo, err := partmap.EPKFromBytes(ref.Min)
	if err != nil {
		return nil, err
	}
	hi, err := partmap.EPKFromBytes(ref.Max)
	if err != nil {
		return nil, err
	}
	name := path.Join(p.dir, manifest.SegmentName(ref.Number))
	info, err := p.db.fs.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.Size != ref.Size {
		return nil, fault.Corrupt(p.db.fs.Path(name), min(info.Size, ref.Size), "file has %d bytes, the manifest says %d", info.Size, ref.Size)
	}
	reader, err := opened.open(p.db, name, ref.Number, info)
	if err != nil {
		return nil, err
	}
	if reader.FooterCRC() != ref.FooterCRC {
		err := fault.Corrupt(p.db.fs.Path(name), info.Size-4, "footer checksum %08x, the manifest says %08x", reader.FooterCRC(), ref.FooterCRC)
		delete(opened, sharedFile{ref.Number, info.ID}) // it may be closed now
		reader.Release()
		return nil, err
	}
	f := &file{Reader: reader, ref: ref, min: lo, max: hi, name: name, path: p.db.fs.Path(name)}
	f.clipTo(p.c.levels())
	return f, nil
}

// sharedFiles are the files that an open has opened so far: partitions that
// share one share its reader.
type sharedFiles map[sharedFile]*segment.Reader

type sharedFile struct{ number, inode uint64 }

func (s sharedFiles) open(db *DB, name string, number uint64, info vfs.Info) (*segment.Reader, error) {
	key := sharedFile{number, info.ID}
	if r := s[key]; r != nil && info.Links > 1 {
		r.AddName(name)
		r.Acquire()
		return r, nil
	}
	r, err := segment.Open(db.fs, name, db.readerOptions())
	if err == nil {
		s[key] = r
	}
	return r, err
}

func (db *DB) readerOptions() segment.ReaderOptions {
	return segment.ReaderOptions{
		Mode: db.opts.ReadMode, EPK: appendEPK, Cold: db.cold, Hot: db.hot, Budget: db.files,
		Keep: db.opts.ReadOnly, // a writer may remove what it has merged
	}
}

// appendEPK computes the EPK of an encoded partition key for the segments.
func appendEPK(dst, pk []byte) []byte {
	epk := partmap.HashEncoded(pk)
	return append(dst, epk.Bytes()...)
}
