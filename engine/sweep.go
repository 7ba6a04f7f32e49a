package engine

import (
	"errors"
	"path"
	"strings"

	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/vfs"
)

// sweep removes what a crash left: temporary files and directories of
// partitions that the store manifest does not list. Other unknown files stay.
func (db *DB) sweep() error {
	bases, err := db.env.FS.List(manifest.PartitionsDir)
	if err != nil {
		return err
	}
	for _, base := range bases {
		id, ok := manifest.ParsePartitionDir(base)
		if !ok {
			continue
		}
		dir := manifest.PartitionDir(id)
		if db.storeManifest.state.Partition(id) != nil {
			continue
		}
		if err := removeTree(db.env.FS, dir); vfs.InUse(err) {
			db.remove("remove a replaced partition", 0, func() error { return removeTree(db.env.FS, dir) })
		} else if err != nil {
			db.opts.Logger.Warn("cannot remove a dropped partition", "directory", dir, "error", err)
		}
	}
	for _, p := range db.partitions() {
		if err := p.sweep(); err != nil {
			return err
		}
	}
	return db.sweepRoot()
}

// sweepRoot removes the temporary files beside the store manifest.
func (db *DB) sweepRoot() error {
	names, err := db.env.FS.List(".")
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasSuffix(name, manifest.TempSuffix) {
			if err := db.env.FS.Remove(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// leftoversOf returns the names of the files that a crash left in the directory of a
// partition: temporary files, and segment files that its manifest neither names nor asks
// to keep. Files that are made later have other numbers.
func leftoversOf(names []string, m *manifest.Files) (left []string) {
	for _, base := range names {
		number, isSegment := manifest.ParseSegmentName(base)
		if isSegment && m.Disposable(number) || strings.HasSuffix(base, manifest.TempSuffix) {
			left = append(left, base)
		}
	}
	return left
}

// sweep removes what a crash left in the directory of the partition. A temporary file
// may be gone already, since a manifest was written in its place. Segment files that are
// in use stay obsolete.
func (p *partition) sweep() error {
	for _, base := range p.leftovers {
		name := path.Join(p.Dir, base)
		number, isSegment := manifest.ParseSegmentName(base)
		err := p.db.env.FS.Remove(name)
		switch {
		case isSegment && vfs.InUse(err):
			p.Obsolete.Numbers = append(p.Obsolete.Numbers, number)
			p.db.remove("remove a merged file", 0, func() error { return p.RemoveObsolete(name, number) })
		case err != nil && !errors.Is(err, ErrMissing):
			return err
		}
	}
	p.leftovers = nil
	return nil
}
