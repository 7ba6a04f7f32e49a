package layout

import (
	"context"
	"errors"
	"path"
	"strings"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/manifest"
)

// Space is the size of a store on disk by kind of file, in bytes.
type Space struct {
	Segments  int64 `json:"segments"`
	Log       int64 `json:"log"`
	Manifests int64 `json:"manifests"`
	Other     int64 `json:"other"`
	Total     int64 `json:"total"`
}

// DiskSpace adds up the files below a directory. Those that vanish meanwhile
// count nothing.
func (f *Files) DiskSpace(ctx context.Context) (Space, error) {
	var s Space
	if err := f.addDirectory(ctx, ".", 0, &s, make(map[uint64]bool)); err != nil {
		return s, err
	}
	s.Total = s.Segments + s.Log + s.Manifests + s.Other
	return s, nil
}

// maxDepth bounds how deep addDirectory looks; a store is three levels deep.
const maxDepth = 4

// seen holds the inodes that were counted: partitions share files.
func (f *Files) addDirectory(ctx context.Context, dir string, level int, s *Space, seen map[uint64]bool) error {
	names, err := f.FS.List(dir)
	if errors.Is(err, engine.ErrMissing) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, base := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		name := path.Join(dir, base)
		info, err := f.FS.Stat(name)
		if errors.Is(err, engine.ErrMissing) {
			continue
		}
		if err != nil {
			return err
		}
		if info.Dir {
			if level < maxDepth {
				if err := f.addDirectory(ctx, name, level+1, s, seen); err != nil {
					return err
				}
			}
			continue
		}
		if info.Links > 1 && seen[info.ID] {
			continue
		}
		seen[info.ID] = true
		_, isManifest := manifest.ParseName(base)
		_, isSegment := manifest.ParseSegmentName(base)
		switch {
		case isManifest:
			s.Manifests += info.Size
		case isSegment && strings.HasPrefix(dir, manifest.PartitionsDir+"/"):
			s.Segments += info.Size
		case dir == manifest.LogDir:
			s.Log += info.Size
		default:
			s.Other += info.Size
		}
	}
	return nil
}

// Obsolete adds up the files that manifests list as replaced. Those that have other names
// too, or are gone, take no space for it.
func (f *Files) Obsolete(l *Store) (sum int64) {
	for _, c := range l.Containers {
		for _, p := range c.Partitions {
			for _, number := range p.Files.Obsolete {
				info, err := f.FS.Stat(path.Join(p.Dir, manifest.SegmentName(number)))
				if err == nil && info.Links == 1 {
					sum += info.Size
				}
			}
		}
	}
	return sum
}
