package vfs

import (
	"errors"
	"os"
	"syscall"
	"testing"

	"github.com/cleavestore/cleave/internal/fault"
)

// afterRename calls then after each rename.
type afterRename struct {
	FS
	then func()
}

func (a afterRename) Rename(from, to string) error {
	defer a.then()
	return a.FS.Rename(from, to)
}

// TestNoDescriptorAfterRename: once a file has its name no descriptor is needed to make that
// durable, so that a lack of them leaves no outcome unknown.
func TestNoDescriptorAfterRename(t *testing.T) {
	m := NewMem()
	l := NewLimited(m, 1, 0)
	err := WriteFileAtomic(afterRename{l, func() { l.SetLimits(0, 0) }}, "t", "a", []byte("new"))
	check(t, err)
	wantContent(t, m.Crash(CrashOptions{}), "a", "new")
	if files, _ := l.Used(); files != 0 {
		t.Errorf("%d files are open", files)
	}
}

// TestNoDescriptorForRename: without a descriptor for the directory a file is not renamed.
func TestNoDescriptorForRename(t *testing.T) {
	m := NewMem()
	check(t, WriteFileAtomic(m, "t", "a", []byte("old")))
	f := NewFaulty(m)
	f.SetHook(func(c Call) error {
		if c.Op == OpOpenDir {
			return syscall.EMFILE
		}
		return nil
	})
	err := WriteFileAtomic(f, "t", "a", []byte("new"))
	if !errors.Is(err, fault.ErrResource) || errors.Is(err, fault.ErrOutcomeUnknown) {
		t.Error(err)
	}
	wantContent(t, m, "a", "old")
	wantNames(t, m, "a")
}

// TestOpenDir syncs a directory that was opened before its names changed, once it is closed
// no more.
func TestOpenDir(t *testing.T) {
	everywhere(t, func(t *testing.T, fsys FS) {
		check(t, fsys.Mkdir("d"))
		d, err := fsys.OpenDir("d")
		check(t, err)
		put1(t, fsys, "d/a", "")
		check(t, d.Sync())
		if m, ok := fsys.(*Mem); ok {
			check(t, m.SyncDir("."))
			wantNames(t, m.Crash(CrashOptions{}), "d/a")
		}
		check(t, d.Close())
		refused(t, fsys, "d", d.Close(), os.ErrClosed)
		_, err = fsys.OpenDir("d/a")
		refused(t, fsys, "d/a", err, errNotDir)
		_, err = fsys.OpenDir("gone")
		refused(t, fsys, "gone", err, fault.ErrMissing)
	})
}
