package vfs

import (
	"errors"
	"testing"
)

// TestSyncWhereNobodyWrites: a file system that has no sync has nothing to be synced.
func TestSyncWhereNobodyWrites(t *testing.T) {
	fsys, err := OpenRoot("/proc")
	check(t, err)
	f, err := fsys.Open("version")
	check(t, err)
	defer f.Close()
	if err := f.Sync(); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}
