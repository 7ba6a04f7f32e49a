package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/engine"
)

// TestOutsideStores: neither a backup nor a profile gets into a store.
func TestOutsideStores(t *testing.T) {
	dir := t.TempDir()
	db, err := engine.Open(t.Context(), dir, nil)
	must(t, err)
	must(t, db.Close())
	name := filepath.Join(dir, "new")
	_, profile := startProfile(name)
	for what, err := range map[string]error{
		"a profile": profile,
		"a backup":  (&backupCommand{Dir: t.TempDir(), Target: name}).Run(t.Context(), &environment{}),
	} {
		if err == nil || !strings.Contains(err.Error(), "would lie in the store "+dir) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err = os.Lstat(name); !os.IsNotExist(err) {
		t.Errorf("%s: %v, want %v", name, err, fs.ErrNotExist)
	}
}
