package vfs

import (
	"bytes"
	"errors"
	"syscall"
	"testing"
)

// TestSyncReserved: it makes durable what Sync does.
func TestSyncReserved(t *testing.T) {
	everywhere(t, func(t *testing.T, fsys FS) {
		f := create(t, fsys, "a", "one")
		check(t, f.Allocate(10_000))
		_, err := f.WriteAt([]byte("two"), 5000)
		check(t, err)
		check(t, f.SyncReserved())
		check(t, f.Close())
		check(t, fsys.SyncDir("."))
		if m, ok := fsys.(*Mem); ok {
			data, err := m.Crash(CrashOptions{}).ReadFile("a")
			check(t, err)
			if len(data) != 10_000 || string(data[5000:5003]) != "two" {
				t.Errorf("%d bytes, %q", len(data), data[5000:5003])
			}
		}
	})
}

// TestAbortJournal: behind the failure of the journal a sync keeps what overwrote bytes
// that were on the disk, and nothing else, until somebody notices.
func TestAbortJournal(t *testing.T) {
	made := func() (*Mem, File) {
		m := NewMem()
		f := create(t, m, "a", "")
		check(t, f.Allocate(4*sectorBytes))
		_, err := f.WriteAt(bytes.Repeat([]byte{1}, sectorBytes), 0)
		check(t, err)
		check(t, f.Sync())
		check(t, m.SyncDir("."))
		_, err = f.WriteAt(bytes.Repeat([]byte{2}, 2*sectorBytes), 0)
		check(t, err)
		m.AbortJournal()
		return m, f
	}
	isReadOnly := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, syscall.EROFS) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for name, notice := range map[string]func(m *Mem, f File) error{
		"sync":     func(_ *Mem, f File) error { return f.SyncReserved() },
		"dir":      func(m *Mem, _ File) error { return m.SyncDir(".") },
		"truncate": func(_ *Mem, f File) error { return f.Truncate(1) },
		"create":   func(m *Mem, _ File) error { _, err := m.Create("b"); return err },
		"mkdir":    func(m *Mem, _ File) error { return m.Mkdir("b") },
		"rename":   func(m *Mem, _ File) error { return m.Rename("a", "b") },
		"link":     func(m *Mem, _ File) error { return m.Link("a", "b") },
		"remove":   func(m *Mem, _ File) error { return m.Remove("a") },
	} {
		m, f := made()
		check(t, f.Sync())
		check(t, f.Sync())
		isReadOnly(name, notice(m, f))
		_, err := f.WriteAt([]byte{3}, 0)
		isReadOnly(name+", write", err)
		isReadOnly(name+", sync", m.Kill().SyncDir("."))
		isReadOnly(name+", sync", f.Sync())
		data, err := m.Crash(CrashOptions{Keep: KeepAll}).ReadFile("a")
		check(t, err)
		want := append(bytes.Repeat([]byte{2}, sectorBytes), make([]byte, 3*sectorBytes)...)
		if !bytes.Equal(data, want) {
			t.Errorf("%s: %v", name, data)
		}
		check(t, m.Crash(CrashOptions{}).SyncDir("."))
	}
}
