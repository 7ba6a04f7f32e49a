//go:build linux

package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

const (
	sigStop = syscall.SIGSTOP
	sigCont = syscall.SIGCONT
)

// tied has a node end with this process.
func tied() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// smallSize is the size of the small file system.
const smallSize = "size=160m,mode=0700"

// shrink puts the directory of a node on a small file system, in memory, if this process may.
func (s *nodeSet) shrink(node uint64) {
	dir := s.nodeDir(node)
	moved := dir + ".moved"
	if os.Geteuid() != 0 || os.Rename(dir, moved) != nil {
		return
	}
	mounted := os.Mkdir(dir, 0o700) == nil && syscall.Mount("tmpfs", dir, "tmpfs", 0, smallSize) == nil
	if mounted && os.CopyFS(dir, os.DirFS(moved)) == nil {
		s.small = node
		return
	}
	if mounted {
		_ = syscall.Unmount(dir, 0)
	}
	_ = os.Remove(dir)
	_ = os.Rename(moved, dir)
}

func (s *nodeSet) unshrink() {
	if s.small != 0 {
		_ = syscall.Unmount(s.nodeDir(s.small), syscall.MNT_DETACH)
	}
}

func mayIsolate() bool { return os.Geteuid() == 0 }

// Isolate runs this program with other arguments in a network namespace and a mount namespace of its
// own, until it ends. When ctx ends it gets SIGINT. The namespaces, and those that it makes, end with it and
// its nodes, and those are killed if this process or it ends. Its temporary files are in dir. Errors:
// ErrNamespaces; those of the program.
func Isolate(ctx context.Context, dir string, args []string, stdout, stderr io.Writer) error {
	if err := Namespaces(); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	// The names of namespaces are in this directory, on which the process mounts one of its own.
	if err = os.MkdirAll(namespaceDir, 0o755); err != nil {
		return fmt.Errorf("%w: %w", ErrNamespaces, err)
	}
	cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", `mount -t tmpfs pfaults ` + namespaceDir + ` && exec "$0" "$@"`, self}, args...)...)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.Env = append(os.Environ(), isolated+"=1", "TMPDIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = time.Minute
	if err = cmd.Run(); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			err = fmt.Errorf("%w: %w", ErrNamespaces, err)
		}
	}
	return err
}
