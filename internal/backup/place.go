package backup

import (
	"context"
	"io"
	"slices"

	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/partmap"
)

// Place is one place in the key space of a container, where a logical partition lies.
type Place struct {
	Container string // its name
	At        partmap.EPK
	// DefaultTTL, in milliseconds, is the default time to live that the container gets in the
	// store if it can be changed there (manifest.Container.MutableTTL); nil: that of the backup.
	DefaultTTL *int64
}

// RestorePlace is Restore, and writes only those segment files that may have items at one
// place of one container. The others are read, to verify the stream, and passed over. The
// store that it makes has all containers and physical partitions of the backup. What it shows
// at that place is what the backup has there; elsewhere versions and whole files are missing,
// and nothing says so. It is for reading that one place.
//
// The files are chosen stream by stream. The bounds with which partitions refer to a file
// only ever shrink (manifest.File), and a container gets another name only when a finished
// copy takes the place of its original. So a file that the last catalog refers to at the
// place is one that each catalog before it referred to there, in the container of that name
// or in an unfinished copy of it.
func RestorePlace(ctx context.Context, fsys vfs.FS, base string, r io.Reader, place Place) error {
	return restore(ctx, fsys, base, r, &place)
}

// files returns the numbers of the files that may have items of the place; nil stands for all
// of them.
func (p *Place) files(c *Catalog) map[uint64]bool {
	if p == nil {
		return nil
	}
	var named uint32
	for i := range c.Store.Containers {
		if m := &c.Store.Containers[i]; m.Name == p.Container {
			named = m.ID
		}
	}
	wanted := make(map[uint64]bool)
	for i := range c.Partitions {
		id := c.Store.Partitions[i].Container
		if m := c.Store.Container(id); id != named && (m == nil || m.CopyOf == 0 || m.CopyOf != named) {
			continue
		}
		for _, run := range c.Partitions[i].Runs {
			for j := range run.Files {
				if p.within(&run.Files[j]) {
					wanted[run.Files[j].Number] = true
				}
			}
		}
	}
	return wanted
}

// within says whether a file may have items at the place.
func (p *Place) within(f *manifest.File) bool {
	from, minErr := partmap.EPKFromBytes(f.Min)
	to, maxErr := partmap.EPKFromBytes(f.Max)
	return minErr != nil || maxErr != nil || partmap.Range{Min: from, Max: to}.Contains(&p.At)
}

// setTTL changes the default time to live of the container.
func (p *Place) setTTL(state *manifest.Store) {
	state.Containers = slices.Clone(state.Containers)
	for i := range state.Containers {
		if m := &state.Containers[i]; m.Name == p.Container && m.MutableTTL && p.DefaultTTL != nil {
			m.DefaultTTL = *p.DefaultTTL
		}
	}
}

// prune takes the files out of the manifests of partitions that were passed over.
func (p *Place) prune(partitions []manifest.Files, have map[uint64]bool) {
	for i := range partitions {
		m := &partitions[i]
		m.Runs = slices.Clone(m.Runs)
		for j := range m.Runs {
			m.Runs[j].Files = slices.DeleteFunc(slices.Clone(m.Runs[j].Files), func(f manifest.File) bool { return !have[f.Number] || !p.within(&f) })
		}
		m.Runs = slices.DeleteFunc(m.Runs, func(r manifest.Run) bool { return len(r.Files) == 0 })
	}
}
