package vfs

import (
	"errors"
	"io"
	"testing"
)

// TestSyncWhereNobodyWrites: a file system that has no sync has nothing to be synced.
func TestSyncWhereNobodyWrites(t *testing.T) {
	fsys, err := OpenRoot("/proc")
	check(t, err)
	defer fsys.(io.Closer).Close()
	f, err := fsys.Open("version")
	check(t, err)
	defer f.Close()
	if err := f.Sync(); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}

// TestSyncOfReaderIsMade: a file that is open for reading, in a file system that can be
// written, is synced.
func TestSyncOfReaderIsMade(t *testing.T) {
	fsys, err := OpenRoot(t.TempDir())
	check(t, err)
	defer fsys.(io.Closer).Close()
	put1(t, fsys, "a", "written")
	f, err := fsys.Open("a")
	check(t, err)
	defer f.Close()
	check(t, f.Sync())
}
