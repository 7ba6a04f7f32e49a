//go:build linux

package powercut

import (
	"os"
	"path/filepath"
	"testing"
)

// TestCut: a power cut leaves what was synced, and nothing else of the content of files.
func TestCut(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may mount a file system")
	}
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Skip("this system has no FUSE: ", err)
	}
	at := t.TempDir()
	d, err := Mount(t.TempDir(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	name := filepath.Join(at, "a")
	f, err := os.Create(name)
	must(err)
	_, err = f.WriteString("synced")
	must(err)
	must(f.Sync())
	_, err = f.WriteAt([]byte("SYN and more"), 0)
	must(err)
	must(f.Truncate(4))
	must(f.Close())
	must(os.Rename(name, filepath.Join(at, "b")))
	must(os.WriteFile(filepath.Join(at, "c"), []byte("never synced"), 0o600))
	if b, err := os.ReadFile(filepath.Join(at, "b")); string(b) != "SYN " || err != nil {
		t.Fatalf("before the cut: %q, %v", b, err)
	}
	_, files, err := d.Cut()
	must(err)
	if files != 2 {
		t.Errorf("%d files had unsynced content", files)
	}
	for base, want := range map[string]string{"b": "synced", "c": ""} {
		if b, err := os.ReadFile(filepath.Join(at, base)); string(b) != want || err != nil {
			t.Errorf("%s: %q, %v; want %q", base, b, err, want)
		}
	}
}
