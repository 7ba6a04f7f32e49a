package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/harness"
)

// TestKilledRun: what a run left behind that was killed, its throughput and its
// checkpoints, is taken back by the next command.
func TestKilledRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	s := newEngineSession(t)
	s.do(t, cli.ExitOK, "load", "--db", dir, "--docs", "200", "--generator", "small", "--durability", "buffered")
	within := func(do func(db harness.Store, c harness.Container) error) {
		t.Helper()
		db, err := harness.OpenStore(t.Context(), dir, harness.StoreOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		c, err := db.Container("docs")
		if err == nil {
			err = do(db, c)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	killed := func() {
		t.Helper()
		within(func(db harness.Store, c harness.Container) error {
			m := harness.RunMark{V: harness.RunMarkVersion, Container: "docs", Before: 5000, During: 400, Checkpoints: true}
			return errors.Join(m.Begin(t.Context(), dir, db), os.Mkdir(filepath.Join(harness.CheckpointDir(dir), harness.NewestCheckpoint), 0o700))
		})
	}
	gone := func(name string) {
		t.Helper()
		if _, err := os.Lstat(name); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left: %v", name, err)
		}
	}
	provisioned := func(want float64) {
		t.Helper()
		within(func(db harness.Store, c harness.Container) error {
			if is := c.Def().Throughput; is != want {
				t.Errorf("%v RU/s, want %v", is, want)
			}
			return nil
		})
	}
	run := []string{"run", "--db", dir, "--durability", "buffered", "--workload", "read", "--closed", "--ops", "50", "--warmup", "0s",
		"--checkpoint-every", "1h", "--throughput", "1k"}
	for _, args := range [][]string{
		run,
		{"load", "--db", dir, "--docs", "200", "--generator", "small", "--durability", "buffered"},
	} {
		killed()
		s.do(t, cli.ExitOK, args...)
		wants(t, s.errOut.String(), `killed: container "docs" has its throughput from before again`, "killed: "+harness.CheckpointDir(dir)+" is removed")
		provisioned(5000)
		gone(harness.CheckpointDir(dir))
		gone(filepath.Join(dir, harness.RunMarkName))
	}
	// What somebody has set since stays.
	killed()
	within(func(db harness.Store, c harness.Container) error { return c.SetThroughput(context.Background(), 700) })
	s.do(t, cli.ExitOK, run...)
	provisioned(700)
	// A file that another program has put into the directory of the checkpoints stays too.
	killed()
	theirs := filepath.Join(harness.CheckpointDir(dir), "theirs")
	if err := os.WriteFile(theirs, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.do(t, cli.ExitOK, "load", "--db", dir, "--docs", "200", "--generator", "small", "--durability", "buffered")
	if _, err := os.Stat(theirs); err != nil {
		t.Error(err)
	}
	gone(filepath.Join(harness.CheckpointDir(dir), harness.NewestCheckpoint))
	gone(filepath.Join(dir, harness.RunMarkName))
}

// TestCheckpointsOutside: the checkpoints of a run lie beside its store, also if the store is the working directory, or
// is named by a symbolic link.
func TestCheckpointsOutside(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	names := []string{"."}
	if link := filepath.Join(t.TempDir(), "link"); os.Symlink(dir, link) == nil {
		names = append(names, link)
	}
	for _, name := range names {
		if got, want := harness.CheckpointDir(name), dir+".checkpoint"; got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
