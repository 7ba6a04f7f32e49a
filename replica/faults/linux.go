//go:build linux

package faults

import (
	"os"
	"syscall"
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
