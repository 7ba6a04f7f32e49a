package vfs

import (
	"slices"
	"testing"
)

// TestKeepNewest: of names only the newest survives, with what it needs; of bytes
// those that were synced.
func TestKeepNewest(t *testing.T) {
	m := NewMem()
	write := func(name string, sync bool) {
		f, err := m.Create(name)
		if err == nil {
			_, err = f.WriteAt([]byte("bytes"), 0)
		}
		if err == nil && sync {
			err = f.Sync()
		}
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	expect := func(what string, names ...string) *Mem {
		t.Helper()
		image := m.Crash(CrashOptions{Keep: KeepNewest})
		if got, err := image.List("."); err != nil || !slices.Equal(got, names) {
			t.Errorf("%s: %v, %v; want %v", what, got, err, names)
		}
		return image
	}
	expect("nothing")
	write("a", true)
	write("b", false)
	if b, err := expect("created", "b").ReadFile("b"); err != nil || len(b) != 0 {
		t.Errorf("bytes that were not synced: %q, %v", b, err)
	}
	if err := m.Rename("a", "c"); err != nil {
		t.Fatal(err)
	}
	if b, err := expect("renamed", "c").ReadFile("c"); err != nil || string(b) != "bytes" {
		t.Errorf("bytes that were synced: %q, %v", b, err)
	}
	if err := m.SyncDir("."); err != nil {
		t.Fatal(err)
	}
	expect("synced", "b", "c")
	if err := m.Remove("b"); err != nil {
		t.Fatal(err)
	}
	expect("removed", "c")
}
