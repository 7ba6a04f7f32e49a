package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/cleavestore/cleave/engine"
)

// TestOutsideStores: neither the results nor the stores of a run get into a store that is there. The same command with a place outside
// of it goes on to its measurements. A page that cannot take the results ends the command before them.
func TestOutsideStores(t *testing.T) {
	db := filepath.Join(t.TempDir(), "db")
	opened, err := engine.Open(t.Context(), db, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := opened.Close(); err != nil {
		t.Fatal(err)
	}
	inside, outside := filepath.Join(db, "new"), t.TempDir()
	for _, tc := range []struct {
		name, out, dir string
		status         int
	}{
		{"results in a store", inside, outside, 2}, {"results over a store", db, outside, 2}, {"stores in a store", outside, inside, 2},
		{"outside", filepath.Join(outside, "out"), outside, 0},
	} {
		args := []string{"--docs", "1000", "--repeats", "1", "--stores", "cleave", "--workloads", "load", "--out", tc.out, "--dir", tc.dir}
		if got := execute(t.Context(), args); got != tc.status {
			t.Errorf("%s: status %d, want %d", tc.name, got, tc.status)
		}
		if _, err := os.Lstat(inside); !os.IsNotExist(err) {
			t.Errorf("%s: %s was made: %v", tc.name, inside, err)
		}
	}
	page := filepath.Join(outside, "page.md")
	if err := os.WriteFile(page, []byte("# No parts\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		page   string
		status int
	}{{inside, 2}, {page, 1}, {page + "x", 1}} {
		out := filepath.Join(outside, "page")
		if got := execute(t.Context(), []string{"--docs", "1000", "--page", tc.page, "--out", out, "--dir", outside}); got != tc.status {
			t.Errorf("page %s: status %d, want %d", tc.page, got, tc.status)
		}
		if _, err := os.Lstat(out); !os.IsNotExist(err) {
			t.Errorf("page %s: the run has begun: %v", tc.page, err)
		}
	}
	if _, err := os.Stat(filepath.Join(outside, "out", "full.json")); err != nil {
		t.Error(err)
	}
}
