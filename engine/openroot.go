package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/manifest"
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
	names, err := db.env.FS.List(".")
	if err != nil {
		return err
	}
	if hasManifest(names) {
		var m manifest.Files
		if !slices.Contains(names, manifest.PartitionsDir) && manifest.NewDir(db.env.FS, ".", manifest.PartitionKind).Load(&m) == nil {
			return fmt.Errorf("%w: it is the directory of partition %d of one", ErrNotStore, m.Partition)
		}
		return nil
	}
	refusal := db.foreign(names)
	if refusal == nil {
		return nil
	}
	if err := db.checkOrphans(); err != nil {
		// Another process may have made the store since the first listing.
		if names, listErr := db.env.FS.List("."); listErr == nil && hasManifest(names) {
			return nil
		}
		return err
	}
	return refusal
}

func hasManifest(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		_, ok := manifest.ParseName(name)
		return ok
	})
}

// foreign returns an error if a directory without a manifest must not become a store.
func (db *DB) foreign(names []string) error {
	for _, name := range names {
		switch {
		case name == manifest.LockName, name == manifest.ReserveName, name == manifest.LogDir, name == manifest.PartitionsDir:
		case strings.HasSuffix(name, manifest.TempSuffix), name == "lost+found":
		default:
			return fmt.Errorf("%w: it has no manifest, and a file %q", ErrNotStore, name)
		}
	}
	if db.opts.ReadOnly {
		return fmt.Errorf("%w: it has no manifest", ErrNotStore)
	}
	return nil
}

// checkOrphans refuses a directory without a manifest that has log or partition
// files: it is a store that has lost its manifest.
func (db *DB) checkOrphans() error {
	for _, dir := range []string{manifest.LogDir, manifest.PartitionsDir} {
		names, err := db.env.FS.List(dir)
		if err != nil && !errors.Is(err, fault.ErrMissing) {
			return err
		}
		if len(names) > 0 {
			return fault.IO("open", db.env.FS.Path(manifest.Name(1)), -1, fmt.Errorf("the manifest is gone, %s/%s is there: %w", dir, names[0], os.ErrNotExist))
		}
	}
	return nil
}

// makeStore makes the directories and the first manifest of a store.
func (db *DB) makeStore() error {
	if err := db.checkOrphans(); err != nil {
		return err
	}
	for _, dir := range []string{manifest.LogDir, manifest.PartitionsDir} {
		if err := vfs.MkdirSync(db.env.FS, dir); err != nil {
			return err
		}
	}
	state := manifest.Store{Head: manifest.Head{StoreID: newStoreID(db.opts.random), Clean: true, NextContainer: 1, NextPartition: 1}}
	if err := db.storeManifest.dir.Store(&state); err != nil {
		return err
	}
	db.storeManifest.state = state
	return nil
}
