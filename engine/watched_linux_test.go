package engine

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWatchDisk is TestWatch for descriptors and mappings of files on disk.
func TestWatchDisk(t *testing.T) {
	for _, mapped := range []bool{false, true} {
		dir := t.TempDir()
		db, err := Open(context.Background(), dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, "left")
		if err := os.WriteFile(name, []byte("something"), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := db.env.FS.Open("left")
		if err != nil {
			t.Fatal(err)
		}
		says := "descriptor of " + name
		end := f.Close
		if mapped {
			m, err := f.Map()
			if err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			if says, end = "mapping of "+name, m.Unmap; raceEnabled {
				says = "" // a copy on the heap
			}
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		if err := end(); err != nil {
			t.Error(err)
		}
		if left := watched.forget(dir); !strings.Contains(left, says) || (left == "") != (says == "") {
			t.Errorf("want %q: %q", says, left)
		}
	}
}
