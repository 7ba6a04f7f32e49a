package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cleavestore/cleave/internal/cli"
)

// programEnv makes the program of the tests be pinspect.
const programEnv = "CLEAVE_TEST_PINSPECT"

func TestMain(m *testing.M) {
	if os.Getenv(programEnv) != "" {
		main()
	}
	os.Exit(m.Run())
}

// watched is a context that calls a hook each time that somebody asks whether
// it has ended.
type watched struct {
	context.Context
	look func()
}

func (w *watched) Err() error {
	w.look()
	return w.Context.Err()
}

// pinspectWith runs a command line with a context of its own.
func pinspectWith(ctx context.Context, args ...string) result {
	var out, errs bytes.Buffer
	status := execute(ctx, args, &environment{stdout: &out, stderr: &errs})
	return result{status, out.String(), errs.String()}
}

// fileCommands are the commands that make a file.
func fileCommands(dir, file string) [][]string {
	return [][]string{
		{"backup", dir, "-o", file},
		{"export", dir, "cities", "-o", file},
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	check(t, err)
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// TestNewFileInterrupted interrupts commands that make a file at each place
// where they look for it: no file is left.
func TestNewFileInterrupted(t *testing.T) {
	s := newSample(t)
	for i, name := range []string{"backup", "export"} {
		t.Run(name, func(t *testing.T) {
			for at := int64(1); ; at++ {
				dir := t.TempDir()
				file := filepath.Join(dir, "new")
				ctx, cancel := context.WithCancel(t.Context())
				var looks atomic.Int64
				r := pinspectWith(&watched{ctx, func() {
					if looks.Add(1) == at {
						cancel()
					}
				}}, fileCommands(s.dir, file)[i]...)
				cancel()
				if r.status == cli.ExitOK {
					if at < 3 || len(names(t, dir)) != 1 {
						t.Errorf("interrupted %d times, and then left %v", at-1, names(t, dir))
					}
					return
				}
				if left := names(t, dir); r.status != cli.ExitInterrupted || len(left) != 0 {
					t.Fatalf("interrupted at look %d: status %d, %s%s, left %v", at, r.status, r.stdout, r.stderr, left)
				}
			}
		})
	}
}

// TestNewFileTaken puts a directory, or a file, where the file is to have its
// name, while it is written: the command fails and what is there stays.
func TestNewFileTaken(t *testing.T) {
	s := newSample(t)
	for i, name := range []string{"backup", "export"} {
		for what, take := range map[string]func(name string) error{
			"directory": func(name string) error { return os.Mkdir(name, 0o700) },
			"file":      func(name string) error { return os.WriteFile(name, []byte("theirs"), 0o600) },
		} {
			t.Run(name+" over a "+what, func(t *testing.T) {
				dir := t.TempDir()
				file := filepath.Join(dir, "new")
				var once sync.Once
				r := pinspectWith(&watched{t.Context(), func() {
					if _, err := os.Stat(file + ".part"); err == nil {
						once.Do(func() { check(t, take(file)) })
					}
				}}, fileCommands(s.dir, file)[i]...)
				if left := names(t, dir); r.status != cli.ExitUsage || r.stdout != "" || !strings.Contains(r.stderr, "appeared") || len(left) != 1 {
					t.Errorf("status %d, %s%s, left %v", r.status, r.stdout, r.stderr, left)
				}
				if text, err := os.ReadFile(file); err == nil && string(text) != "theirs" {
					t.Errorf("the file of another has now %d bytes", len(text))
				}
			})
		}
		t.Run(name+" into a directory", func(t *testing.T) {
			dir := t.TempDir()
			if r := pinspect(t, fileCommands(s.dir, dir)[i]...); r.status != cli.ExitUsage || !strings.Contains(r.stderr, "exists") || len(names(t, dir)) != 0 {
				t.Errorf("status %d, %s", r.status, r.stderr)
			}
		})
	}
}

// TestNewFileInStore: no command puts its file into a store, at whatever depth.
func TestNewFileInStore(t *testing.T) {
	s := newSample(t)
	before := names(t, s.dir)
	for _, file := range []string{filepath.Join(s.dir, "new"), filepath.Join(s.dir, "wal", "new")} {
		for _, args := range append(fileCommands(s.dir, file), []string{"backup", s.dir, "--readable", "-o", file}, []string{"map", s.dir, "--svg", file},
			[]string{"import", filepath.Join(s.dir, "none"), "--db", s.dir, "--container", "cities", "--rejects", file}) {
			var most []string // that were there at a moment
			r := pinspectWith(&watched{t.Context(), func() {
				if now := names(t, filepath.Dir(file)); len(now) > len(most) {
					most = now
				}
			}}, args...)
			if r.status != cli.ExitUsage || !strings.Contains(r.stderr, "would lie in the store") {
				t.Errorf("%v: status %d, %s", args, r.status, r.stderr)
			}
			if after := names(t, filepath.Dir(file)); len(most) > len(after) {
				t.Errorf("%v: meanwhile the store had %v, now %v", args, most, after)
			}
		}
	}
	if after := names(t, s.dir); !slices.Equal(after, before) {
		t.Errorf("the store has %v, before %v", after, before)
	}
}

// TestNewFileTooLarge lets commands that make a file run out of space at some
// sizes: they say so once, with the status for it, and leave no file.
func TestNewFileTooLarge(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // knows no such limit
	}
	s := newSample(t)
	self, err := os.Executable()
	check(t, err)
	for i, name := range []string{"backup", "export"} {
		for _, blocks := range []string{"0", "1", "8", "40"} {
			t.Run(name+" of "+blocks+" blocks", func(t *testing.T) {
				dir := t.TempDir()
				file := filepath.Join(dir, "new")
				cmd := exec.Command("sh", append([]string{"-c", `ulimit -f "$0" && exec "$@"`, blocks, self}, fileCommands(s.dir, file)[i]...)...)
				cmd.Env = append(os.Environ(), programEnv+"=yes")
				var out, errs bytes.Buffer
				cmd.Stdout, cmd.Stderr = &out, &errs
				err := cmd.Run()
				if cmd.ProcessState == nil {
					t.Fatal(err)
				}
				if status, left := cmd.ProcessState.ExitCode(), names(t, dir); status != exitCannotOpen || out.Len() > 0 || strings.Count(errs.String(), "file too large") != 1 || len(left) != 0 {
					t.Errorf("status %d, %s%s, left %v", status, &out, &errs, left)
				}
			})
		}
	}
}

var errNoSpace = errors.New("no space left")

// full is a writer that takes some bytes and no more.
type full struct{ left int }

func (f *full) Write(p []byte) (int, error) {
	n := min(f.left, len(p))
	f.left -= n
	if n < len(p) {
		return n, errNoSpace
	}
	return n, nil
}

// TestOutputFull lets standard output of every command run full: it says so
// once, with the status for it.
func TestOutputFull(t *testing.T) {
	s := newSample(t)
	commands := append(everyCommand(s.dir), []string{"backup", s.dir, "-o", "-"}, []string{"map", s.dir, "--svg", "-"})
	for _, args := range commands {
		all := len(pinspectWith(t.Context(), args...).stdout)
		for _, room := range []int{0, all / 2} {
			if all == 0 {
				break // there is nothing to write
			}
			var errs bytes.Buffer
			status := execute(t.Context(), args, &environment{stdout: &full{room}, stderr: &errs})
			if status != exitCannotOpen || strings.Count(errs.String(), errNoSpace.Error()) != 1 || strings.Contains(errs.String(), "verify") {
				t.Errorf("pinspect %v with room for %d bytes: status %d, %s", args, room, status, &errs)
			}
		}
	}
	r := pinspect(t, "map", s.dir, "--svg", filepath.Join(t.TempDir(), "none", "map.svg"))
	if r.status != exitCannotOpen || !strings.Contains(r.stderr, "--svg") {
		t.Errorf("map --svg into nowhere: status %d, %s", r.status, r.stderr)
	}
}

// TestNewFileOfADirectory: what ends as the name of a directory does names no file, and none
// is made in it.
func TestNewFileOfADirectory(t *testing.T) {
	s := newSample(t)
	dir := t.TempDir()
	for _, file := range []string{dir + string(filepath.Separator), ""} {
		for _, args := range fileCommands(s.dir, file) {
			if r := pinspect(t, args...); r.status != cli.ExitUsage || !strings.Contains(r.stderr, "names no file") || len(names(t, dir)) != 0 {
				t.Errorf("%s into %q: status %d, %s, left %v", args[0], file, r.status, r.stderr, names(t, dir))
			}
		}
	}
}
