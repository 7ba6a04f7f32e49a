package main

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cleavestore/cleave/engine"
)

// TestOutsideStores: no backup, profile or cluster gets into a store.
func TestOutsideStores(t *testing.T) {
	dir := t.TempDir()
	db, err := engine.Open(t.Context(), dir, nil)
	must(t, err)
	must(t, db.Close())
	e := &environment{stdout: io.Discard, stderr: io.Discard}
	for what, run := range map[string]func(name string) error{
		"profile": func(name string) error { _, err := startProfile(name); return err },
		"backup":  func(name string) error { return (&backupCommand{Dir: t.TempDir(), Target: name}).Run(t.Context(), e) },
		"init": func(name string) error {
			return (&initCommand{Dir: name, Addresses: []string{"127.0.0.1:7101"}, Containers: []string{"items:/k:1"}, Name: "cluster"}).Run(e)
		},
		"bench": func(name string) error {
			return (&benchCommand{Dir: name, Partitions: 1, Clients: 1, Time: time.Second, Repeat: 1}).Run(t.Context(), e)
		},
		"demo": func(name string) error {
			return (&demoCommand{Dir: name, Partitions: 1, Writers: 1}).Run(t.Context(), e)
		},
	} {
		name := filepath.Join(dir, what)
		if err := run(name); err == nil || !strings.Contains(err.Error(), name+" would lie in the store "+dir) {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := os.Lstat(name); !os.IsNotExist(err) {
			t.Errorf("%s: %v, want %v", name, err, fs.ErrNotExist)
		}
	}
}
