package engine

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/cleavestore/cleave/internal/backup"
	"github.com/cleavestore/cleave/internal/vfs"
)

// ErrWrongParent: an incremental backup does not follow the one that it is
// applied to, or a backup is to follow one that is not of this store's past.
var ErrWrongParent = backup.ErrParent

// Restore makes a store in dir from the full backup that r holds and the
// incremental backups, if any, that follow it in r. Each must be the next after
// the one before; io.MultiReader joins several readers. The store is as it was at
// the sequence of the last backup, under the same identity, and opens like any
// store.
//
// Restore makes the store in the directory dir.restoring and renames it to dir at the
// end: dir does not exist, or is empty, until it is the whole store, on disk.
// Everything is verified while it is written. After an error, also of ctx, nothing
// is left but directories that dir is in and that did not exist.
// Errors: ErrExists if dir is not empty, or if dir.restoring exists (another
// restore is under way or was broken off: then it may be removed); *CorruptionError with
// the offset in r; ErrWrongParent; ErrTooNew; *IOError, ErrDiskFull.
func Restore(ctx context.Context, r io.Reader, dir string) error {
	if dir == "" || r == nil {
		return invalidf("Restore: no directory is named, or no reader is given")
	}
	full, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("restore into %s: %w", dir, err)
	}
	parent, err := vfs.CreateRoot(filepath.Dir(full))
	if err != nil {
		return fmt.Errorf("restore into %s: %w", dir, err)
	}
	if c, ok := parent.(io.Closer); ok {
		defer c.Close()
	}
	return backup.Restore(ctx, parent, filepath.Base(full), r)
}

// VerifyBackup reads r to its end, checks the backups in it as Restore does, and
// returns their descriptions. The first backup may be an incremental one.
func VerifyBackup(ctx context.Context, r io.Reader) ([]BackupInfo, error) {
	if r == nil {
		return nil, invalidf("VerifyBackup: no reader is given")
	}
	read, err := backup.Verify(ctx, r)
	var all []BackupInfo
	for i := range read {
		all = append(all, BackupInfo(read[i]))
	}
	return all, err
}
