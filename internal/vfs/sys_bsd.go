//go:build darwin || freebsd

package vfs

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// syncFile makes bytes and length durable. On macOS the os package asks the
// device to flush its cache too.
func syncFile(f *os.File) error { return f.Sync() }

// syncRead does not sync: the error might be told to nobody else.
func syncRead(*os.File) error { return errors.ErrUnsupported }

func askJournal(*os.File) error { return nil }

func allocate(*os.File, int64) error { return errors.ErrUnsupported }

func cached([]byte) bool { return false } // it is not asked

func nextData(_ *os.File, off, _ int64) int64 { return off }

func adviseFile(*os.File, int64, int64, Advice) {}

func writeBack(*os.File, int64, int64) error { return nil }

func freeBytes(dir *os.File) (uint64, error) {
	var st unix.Statfs_t
	if err := control(dir, func(fd int) error { return unix.Fstatfs(fd, &st) }); err != nil {
		return 0, err
	}
	return uint64(max(st.Bavail, 0)) * uint64(st.Bsize), nil
}
