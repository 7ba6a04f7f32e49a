package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/storedir"
	"github.com/cleavestore/cleave/internal/vfs"
)

// openRoot opens the directory, or makes it unless the store is ReadOnly. It refuses a
// directory that has files and is no store.
func (db *DB) openRoot() error {
	if db.opts.fs != nil {
		db.env.FS = db.opts.fs
	} else {
		var err error
		if db.opts.ReadOnly {
			if db.env.FS, err = vfs.OpenRoot(db.dir); errors.Is(err, fs.ErrNotExist) {
				err = fmt.Errorf("%w: %w", ErrNotStore, err)
			}
		} else {
			db.env.FS, err = vfs.CreateRoot(db.dir)
		}
		if err != nil {
			return err
		}
	}
	db.env.FS = vfs.Sparing(db.env.FS, db.files.Spare)
	return storedir.Check(db.env.FS, db.opts.ReadOnly)
}

// sweep removes what a crash left: temporary files and directories of
// partitions that the store manifest does not list. Other unknown files stay. A directory in use
// is removed late only if its number is used up: another partition may get one that is not.
func (db *DB) sweep() error {
	for _, p := range db.partitions() {
		p.SweepLeftovers()
	}
	listed := func(id uint32) bool { return db.storeManifest.state.Partition(id) != nil }
	return storedir.Sweep(db.env.FS, listed, func(name string, err error) {
		if id, ok := manifest.ParsePartitionDir(path.Base(name)); ok && vfs.InUse(err) && id < db.storeManifest.state.NextPartition {
			db.env.Reclaim.Remove("remove a replaced partition", 0, func() error { return storedir.RemovePartition(db.env.FS, name) })
		} else {
			db.opts.Logger.Warn("cannot remove what a crash has left", "name", name, "error", err)
		}
	})
}

// defaultReserve is enough for a log file, manifests and the first flush of deletes.
const defaultReserve = 512 << 10

// errReleased says that Open met a full disk and has removed the reserve file.
var errReleased = errors.New("the reserve file was removed")

// releaseReserve removes the reserve file, if there is one and the lock is held.
func (db *DB) releaseReserve() bool {
	if db.lock == nil || !storedir.ReleaseReserve(db.env.FS) {
		return false
	}
	db.unreserved.Store(true)
	db.opts.Logger.Warn("the disk is full: the space of the reserve file is used", "file", db.env.FS.Path(manifest.ReserveName))
	return true
}

// keepReserve makes the reserve file if need be, and notes whether there was no room for it. The lock is held.
func (db *DB) keepReserve() {
	if least := db.opts.reserveBytes; least > 0 {
		db.unreserved.Store(false)
		kept, err := storedir.KeepReserve(db.env.FS, least, db.storeManifest.dir.Bytes())
		if err != nil {
			db.opts.Logger.Warn("cannot make the reserve file", "error", err)
		} else if !kept {
			db.unreserved.Store(true)
		}
	}
}
