package engine

import (
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
			db.env.Reclaim.Remove("remove a replaced partition", 0, func() error { return removeTree(db.env.FS, dir) })
		} else if err != nil {
			db.opts.Logger.Warn("cannot remove a dropped partition", "directory", dir, "error", err)
		}
	}
	for _, p := range db.partitions() {
		if err := p.Sweep(p.leftovers); err != nil {
			return err
		}
		p.leftovers = nil
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
