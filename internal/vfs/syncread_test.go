package vfs

import (
	"errors"
	"syscall"
	"testing"

	"github.com/cleavestore/cleave/internal/fault"
)

// TestSyncOfReader syncs through a file that is open for reading what another one wrote.
func TestSyncOfReader(t *testing.T) {
	everywhere(t, func(t *testing.T, fsys FS) {
		f := create(t, fsys, "a", "written")
		defer f.Close()
		reader, err := fsys.Open("a")
		check(t, err)
		if err := reader.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) {
			t.Error(err)
		}
		if m, ok := fsys.(*Mem); ok {
			check(t, m.SyncDir("."))
			wantContent(t, m.Crash(CrashOptions{}), "a", "written")
		}
		check(t, reader.Close())
	})
}

// TestLossIsToldToAll: of the changes that a failed sync lost each file that was open is told,
// once, and none that is opened later.
func TestLossIsToldToAll(t *testing.T) {
	m := NewMem()
	faulty := NewFaulty(m)
	writer := create(t, m, "a", "lost")
	reader, err := faulty.Open("a")
	check(t, err)
	faulty.FailAt(faulty.Calls()+1, syscall.EIO, false)
	refused(t, m, "a", reader.Sync(), fault.ErrIO)
	check(t, reader.Sync())
	refused(t, m, "a", writer.Sync(), fault.ErrIO)
	check(t, writer.Sync())
	later, err := m.Open("a")
	check(t, err)
	check(t, later.Sync())
}
