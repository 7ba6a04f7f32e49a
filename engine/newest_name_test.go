package engine

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/cleavestore/cleave/internal/backup"
	"github.com/cleavestore/cleave/internal/storedir"
	"github.com/cleavestore/cleave/internal/vfs"
)

// nameFS calls a function after each name that is given to a file or taken away.
type nameFS struct {
	vfs.FS
	named func(name string)
}

func (f *nameFS) done(name string, err error) error {
	if err == nil {
		f.named(name)
	}
	return err
}

func (f *nameFS) Rename(from, to string) error { return f.done(to, f.FS.Rename(from, to)) }
func (f *nameFS) Remove(name string) error     { return f.done(name, f.FS.Remove(name)) }
func (f *nameFS) Link(from, to string) error   { return f.done(to, f.FS.Link(from, to)) }

// TestNewestNameSurvivesAlone cuts the power after each rename, removal and link
// of each story. Of all that is not synced by then that name alone survives: a
// manifest must not be durable before what it names, and nothing be removed before
// what takes its place is durable.
func TestNewestNameSurvivesAlone(t *testing.T) {
	few := []string{"flush", "merge", "drop", "split", "one flushed"} // with -short: each kind of commit
	for _, st := range stories {
		if (testing.Short() || raceEnabled) && !*fullFlag && !slices.Contains(few, st.name) {
			continue
		}
		t.Run(st.name, func(t *testing.T) {
			t.Parallel()
			survivors := newSurvivors(t)
			for k, done := 1, false; !done; k++ {
				mem := vfs.NewMem()
				names := &nameFS{FS: mem}
				faulty := vfs.NewFaulty(names)
				var image *vfs.Mem
				last, n := "", 0
				names.named = func(name string) {
					if n++; n == k {
						last, image = name, mem.Crash(vfs.CrashOptions{Keep: vfs.KeepNewest})
						faulty.StopAt(1, nil)
					}
				}
				s := st.play(t, faulty)
				if done = image == nil; done {
					if s.err != nil {
						t.Fatal(s.err)
					}
				} else if err := survivors.check(s, image, false); err != nil {
					t.Fatalf("name %d, %s, alone: %v", k, last, err)
				}
			}
		})
	}
}

// newestNames runs something on a file system of its own again and again and cuts
// the power after each name that it gives or takes away, which survives alone.
func newestNames(t *testing.T, run func(fsys vfs.FS) error, check func(image *vfs.Mem) error) {
	t.Helper()
	for k, done := 1, false; !done; k++ {
		mem := vfs.NewMem()
		n := 0
		done = true
		err := run(&nameFS{FS: mem, named: func(name string) {
			if n++; n != k {
				return
			}
			done = false
			if err := check(mem.Crash(vfs.CrashOptions{Keep: vfs.KeepNewest})); err != nil {
				t.Errorf("name %d, %s, alone: %v", k, name, err)
			}
		}})
		must(t, err)
	}
}

// TestNewestNameOfCheckpoint: a checkpoint that has a store manifest has all.
func TestNewestNameOfCheckpoint(t *testing.T) {
	ctx := context.Background()
	db, _ := openTwenty(t)
	newestNames(t, func(fsys vfs.FS) error {
		db.opts.checkpointRoot = func(string) (vfs.FS, error) { return fsys, nil }
		return second(db.Checkpoint(ctx, "copy"))
	}, func(image *vfs.Mem) error {
		if names, err := image.List("."); err != nil || !storedir.HasManifest(names) {
			return err
		}
		return holds(image, 20)
	})
}

// TestNewestNameOfRestore: a restored store that has its name has all.
func TestNewestNameOfRestore(t *testing.T) {
	_, _, streams, _ := someBackups(t)
	input := bytes.Join(streams, nil)
	newestNames(t, func(fsys vfs.FS) error {
		return backup.Restore(context.Background(), fsys, "copy", bytes.NewReader(input))
	}, func(image *vfs.Mem) error {
		names, err := image.List("copy")
		if errors.Is(err, ErrMissing) || err == nil && len(names) == 0 {
			return nil
		}
		return holds(below{image, "copy"}, 24)
	})
}
