package engine

import (
	"path"
	"slices"
	"strings"

	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/vfs"
)

// sweep removes what a crash left: temporary files and directories of
// partitions that the store manifest does not list. Other unknown files stay.
func (db *DB) sweep() error {
	bases, err := db.fs.List(manifest.PartitionsDir)
	if err != nil {
		return err
	}
	for _, base := range bases {
		id, ok := manifest.ParsePartitionDir(base)
		if !ok {
			continue
		}
		dir := manifest.PartitionDir(id)
		if db.structure.state.Partition(id) != nil {
			continue
		}
		if err := removeTree(db.fs, dir); vfs.InUse(err) {
			db.remove("remove a replaced partition", 0, func() error { return removeTree(db.fs, dir) })
		} else if err != nil {
			db.opts.Logger.Warn("cannot remove a dropped partition", "directory", dir, "error", err)
		}
	}
	for _, p := range db.partitions() {
		if p.lost != nil {
			continue // nobody knows what it needs
		}
		if err := db.sweepDirectory(p.dir, p); err != nil {
			return err
		}
		p.left = manifest.Files{}
	}
	return db.sweepDirectory(".", nil)
}

// sweepDirectory removes temporary files, and segment files that the partition
// which the directory is of does not name. Those in use stay obsolete.
func (db *DB) sweepDirectory(dir string, p *partition) error {
	names, err := db.fs.List(dir)
	if err != nil {
		return err
	}
	for _, base := range names {
		name := path.Join(dir, base)
		if strings.HasSuffix(base, manifest.TempSuffix) {
			if err := db.fs.Remove(name); err != nil {
				return err
			}
			continue
		}
		number, isSegment := manifest.ParseSegmentName(base)
		if !isSegment || p == nil || !p.left.Disposable(number) || slices.Contains(p.listed(), number) {
			continue
		}
		if err := db.fs.Remove(name); vfs.InUse(err) {
			p.obsolete.numbers = append(p.obsolete.numbers, number)
			db.remove("remove a merged file", 0, func() error { return p.removeObsolete(name, number) })
		} else if err != nil {
			return err
		}
	}
	return nil
}
