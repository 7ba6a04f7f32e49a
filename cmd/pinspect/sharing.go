package main

import (
	"context"
	"errors"
	"path"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/manifest"
)

// sharing says which segment files partitions have for themselves, and which
// they share: after a split both children have a name for each file of their
// parent, until it is written anew.
type sharing struct {
	own, shared map[engine.PartitionID]int64 // bytes of the files that a partition has a name for
	held        map[uint64]*heldFile
}

// heldFile is a segment file with the partitions that have a name for it.
type heldFile struct {
	bytes  int64
	owners []engine.PartitionID
}

// readSharing looks up the files of all partitions. Those that a writer removes
// meanwhile count nothing.
func (f *files) readSharing(ctx context.Context) (*sharing, error) {
	l, err := f.readLayout(ctx, manifestsOnly, nil)
	if err != nil {
		return nil, err
	}
	s := &sharing{own: make(map[engine.PartitionID]int64), shared: make(map[engine.PartitionID]int64), held: make(map[uint64]*heldFile)}
	for _, c := range l.containers {
		for _, p := range c.partitions {
			if err := s.add(ctx, f, p); err != nil {
				return nil, err
			}
		}
	}
	for _, h := range s.held {
		for _, id := range h.owners {
			if len(h.owners) > 1 {
				s.shared[id] += h.bytes
			} else {
				s.own[id] += h.bytes
			}
		}
	}
	return s, nil
}

func (s *sharing) add(ctx context.Context, f *files, p *partitionLayout) error {
	seen := make(map[uint64]bool) // numbers: a partition may refer to a file twice
	for _, r := range p.files.Runs {
		for _, ref := range r.Files {
			if err := ctx.Err(); err != nil {
				return err
			}
			if seen[ref.Number] {
				continue
			}
			seen[ref.Number] = true
			info, err := f.fs.Stat(path.Join(p.dir, manifest.SegmentName(ref.Number)))
			if errors.Is(err, engine.ErrMissing) {
				continue
			}
			if err != nil {
				return err
			}
			h := s.held[info.ID]
			if h == nil {
				h = &heldFile{bytes: info.Size}
				s.held[info.ID] = h
			}
			h.owners = append(h.owners, engine.PartitionID(p.id))
		}
	}
	return nil
}

// total describes the files of some partitions, each counted once.
func (s *sharing) total(ids map[engine.PartitionID]bool) string {
	var bytes, files, shared, sharedFiles int64
	for _, h := range s.held {
		for _, id := range h.owners {
			if !ids[id] {
				continue
			}
			bytes += h.bytes
			files++
			if len(h.owners) > 1 {
				shared += h.bytes
				sharedFiles++
			}
			break
		}
	}
	text := cli.Bytes(bytes) + " on disk in " + cli.Plural(files, "file", "files")
	if sharedFiles > 0 {
		text += ", of which " + cli.Bytes(shared) + " in " + cli.Plural(sharedFiles, "file", "files") + " that several partitions share, counted once"
	}
	return text
}
