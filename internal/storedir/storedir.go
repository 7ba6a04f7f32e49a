// Package storedir knows which files and directories a store has at its top, makes them,
// refuses directories that are no store, and removes what a crash has left.
//
// Invariants:
//
//  1. A directory becomes a store only if it has nothing in it but what a crash in the
//     middle of making a store leaves. A store that has lost its manifest is never made
//     anew.
//  2. Only files with names that this program gives are removed.
//  3. The reserve file takes at most an eighth of the free space. It is removed only while
//     the lock of the store is held.
//
// Functions are for one goroutine, which holds the lock of the store or makes a partition
// that no manifest names yet. There are no locks here.
package storedir

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/vfs"
)

// ErrNotStore is matched by the error for a directory that is no store.
var ErrNotStore = errors.New("not a cleave store")

// Check returns an error unless the directory is a store, or may become one. A store that
// is to be read only cannot become one.
func Check(fsys vfs.FS, readOnly bool) error {
	names, err := fsys.List(".")
	if err != nil {
		return err
	}
	if HasManifest(names) {
		var m manifest.Files
		if !slices.Contains(names, manifest.PartitionsDir) && manifest.NewDir(fsys, ".", manifest.PartitionKind).Load(&m) == nil {
			return fmt.Errorf("%w: it is the directory of partition %d of one", ErrNotStore, m.Partition)
		}
		return nil
	}
	refusal := foreign(names, readOnly)
	if refusal == nil {
		return nil
	}
	if err := checkOrphans(fsys); err != nil {
		// Another process may have made the store since the first listing.
		if names, listErr := fsys.List("."); listErr == nil && HasManifest(names) {
			return nil
		}
		return err
	}
	return refusal
}

// HasManifest says whether a directory with these names has the manifest of a store or of a
// partition.
func HasManifest(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		_, ok := manifest.ParseName(name)
		return ok
	})
}

// Fresh says whether an open makes a store in a directory: it has no more in it than a new file
// system or an open that was killed.
func Fresh(fsys vfs.FS) bool {
	names, err := fsys.List(".")
	return err == nil && !HasManifest(names) && Check(fsys, false) == nil
}

// foreign returns an error if a directory without a manifest must not become a store.
func foreign(names []string, readOnly bool) error {
	for _, name := range names {
		switch {
		case name == manifest.LockName, name == manifest.ReserveName, name == manifest.LogDir, name == manifest.PartitionsDir:
		case strings.HasSuffix(name, manifest.TempSuffix), name == "lost+found":
		default:
			return fmt.Errorf("%w: it has no manifest, and a file %q", ErrNotStore, name)
		}
	}
	if readOnly {
		return fmt.Errorf("%w: it has no manifest", ErrNotStore)
	}
	return nil
}

// checkOrphans refuses a directory without a manifest that has log or partition
// files: it is a store that has lost its manifest.
func checkOrphans(fsys vfs.FS) error {
	for _, dir := range []string{manifest.LogDir, manifest.PartitionsDir} {
		names, err := fsys.List(dir)
		if err != nil && !errors.Is(err, fault.ErrMissing) {
			return err
		}
		if len(names) > 0 {
			return fault.IO("open", fsys.Path(manifest.Name(1)), -1, fmt.Errorf("the manifest is gone, %s/%s is there: %w", dir, names[0], os.ErrNotExist))
		}
	}
	return nil
}

// Make makes the directories and the first manifest of a store, and returns what that
// says.
func Make(fsys vfs.FS, dir *manifest.Dir, id manifest.ID) (manifest.Store, error) {
	if err := checkOrphans(fsys); err != nil {
		return manifest.Store{}, err
	}
	for _, dir := range []string{manifest.LogDir, manifest.PartitionsDir} {
		if err := vfs.MkdirSync(fsys, dir); err != nil {
			return manifest.Store{}, err
		}
	}
	state := manifest.Store{Head: manifest.Head{StoreID: id, Clean: true, NextContainer: 1, NextPartition: 1}}
	return state, dir.Store(&state)
}

// MakePartition makes the directory of a new partition. It removes what an attempt that
// was never committed left there: such an attempt used the same id.
func MakePartition(fsys vfs.FS, dir string) error {
	err := fsys.Mkdir(dir)
	if errors.Is(err, fs.ErrExist) {
		if err = RemovePartition(fsys, dir); err != nil {
			return err
		}
		err = fsys.Mkdir(dir)
	}
	return err
}

// RemovePartition removes a partition directory: first the files with names that this
// program gives, then the directory.
func RemovePartition(fsys vfs.FS, dir string) error {
	names, err := fsys.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		_, isSegment := manifest.ParseSegmentName(name)
		_, isManifest := manifest.ParseName(name)
		if !isSegment && !isManifest && !manifest.IsTemp(name) {
			continue
		}
		if err := fsys.Remove(path.Join(dir, name)); err != nil {
			return err
		}
	}
	return fsys.Remove(dir)
}

// Sweep removes the directories of partitions that the store manifest does not list, and
// the temporary files beside that manifest. It calls failed with each directory and file that
// cannot be removed. Other unknown files stay, whatever their names end in.
func Sweep(fsys vfs.FS, listed func(id uint32) bool, failed func(name string, err error)) error {
	bases, err := fsys.List(manifest.PartitionsDir)
	if err != nil {
		return err
	}
	for _, base := range bases {
		id, ok := manifest.ParsePartitionDir(base)
		if !ok || listed(id) {
			continue
		}
		dir := manifest.PartitionDir(id)
		if removeErr := RemovePartition(fsys, dir); removeErr != nil {
			failed(dir, removeErr)
		}
	}
	names, err := fsys.List(".")
	if err != nil {
		return err
	}
	for _, name := range names {
		if !temporary(name) {
			continue
		}
		if info, err := fsys.Stat(name); err == nil && info.Dir {
			continue
		}
		if err := fsys.Remove(name); err != nil {
			failed(name, err)
		}
	}
	return nil
}

// temporary says whether this program gives the name to temporary files at the top of a
// store. Others that end alike are not its own.
func temporary(name string) bool {
	base, ok := strings.CutSuffix(name, manifest.TempSuffix)
	id, isBackup := strings.CutPrefix(base, manifest.BackupPrefix)
	if isBackup {
		_, err := hex.DecodeString(id)
		isBackup = err == nil && id != ""
	}
	return ok && (isBackup || base == manifest.ReserveName || manifest.IsTemp(name))
}
