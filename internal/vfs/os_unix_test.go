//go:build unix

package vfs

import (
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cleavestore/cleave/internal/fault"
)

// TestFifoRefused: opening a fifo must neither succeed nor wait for its other
// end.
func TestFifoRefused(t *testing.T) {
	dir := t.TempDir()
	fsys, err := OpenRoot(dir)
	check(t, err)
	check(t, syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	_, openErr := fsys.Open("fifo")
	_, writeErr := fsys.OpenWrite("fifo")
	_, lockErr := fsys.Lock("fifo", "")
	for _, err := range []error{openErr, writeErr, lockErr} {
		refused(t, fsys, "fifo", err, errKind)
	}
	info, err := fsys.Stat("fifo")
	if err != nil || info.Dir {
		t.Errorf("%+v, %v", info, err)
	}
}

// TestFileSizeLimit lowers the limit of the process; writes past it fail as a
// full disk does, and what was allocated in vain is given back.
func TestFileSizeLimit(t *testing.T) {
	const limit = 1 << 20
	if os.Getenv("VFS_LIMITED") == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestFileSizeLimit$", "-test.v")
		cmd.Env = append(os.Environ(), "VFS_LIMITED=1")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "PASS: TestFileSizeLimit") {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	fsys, err := OpenRoot(t.TempDir())
	check(t, err)
	check(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: limit, Max: limit}))
	f := create(t, fsys, "a", "kept")
	defer f.Close()
	refused(t, fsys, "a", f.Allocate(limit+1), fault.ErrDiskFull)
	wantContent(t, fsys, "a", "kept")
	_, err = f.WriteAt([]byte("x"), math.MaxInt64/2)
	refused(t, fsys, "a", err, fault.ErrDiskFull)
	check(t, f.Allocate(limit))
}

// TestLockOfAnotherProcess: the lock excludes another process and ends with it.
func TestLockOfAnotherProcess(t *testing.T) {
	if dir := os.Getenv("VFS_LOCK_DIR"); dir != "" {
		fsys, err := OpenRoot(dir)
		check(t, err)
		if _, err = fsys.Lock("LOCK", "child"); errors.Is(err, fault.ErrLocked) && strings.Contains(err.Error(), "parent") {
			os.Exit(3)
		}
		check(t, err)
		os.Exit(4) // without Close
	}
	dir := t.TempDir()
	fsys, err := OpenRoot(dir)
	check(t, err)
	child := func() int {
		cmd := exec.Command(os.Args[0], "-test.run=^TestLockOfAnotherProcess$")
		cmd.Env = append(os.Environ(), "VFS_LOCK_DIR="+dir)
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			t.Fatalf("%v\n%s", err, out)
		}
		return exit.ExitCode()
	}
	held, err := fsys.Lock("LOCK", "parent")
	check(t, err)
	if code := child(); code != 3 {
		t.Errorf("the child was not refused: exit %d", code)
	}
	check(t, held.Close())
	if code := child(); code != 4 {
		t.Errorf("the child did not get the lock: exit %d", code)
	}
	held, err = fsys.Lock("LOCK", "parent")
	check(t, err)
	check(t, held.Close())
}
