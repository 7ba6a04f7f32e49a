package vfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/windows"
)

const openFlags = 0

// describeNeedsFile: the names and the number of a file need an open one.
const describeNeedsFile = true

// describe turns what the os package knows of a file into Info; f is not used
// for a directory.
func describe(info os.FileInfo, f *os.File) (Info, error) {
	result := Info{Size: info.Size(), Dir: info.IsDir(), Links: 1}
	if !info.Mode().IsRegular() {
		return result, nil
	}
	var details windows.ByHandleFileInformation
	err := control(f, func(h windows.Handle) error { return windows.GetFileInformationByHandle(h, &details) })
	result.Links = int(details.NumberOfLinks)
	result.ID = uint64(details.FileIndexHigh)<<32 | uint64(details.FileIndexLow)
	return result, err
}

func control(f *os.File, fn func(windows.Handle) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var result error
	if err := conn.Control(func(h uintptr) { result = fn(windows.Handle(h)) }); err != nil {
		return os.ErrClosed // the one reason there is
	}
	return result
}

// syncDir does nothing: the system keeps names in its journal and flushes no
// directory.
func syncDir(*os.File) error { return nil }

// linkAt goes by the paths of the directories, which cannot be moved while they are open.
func linkAt(from *os.File, name string, to *os.File, newName string) error {
	return os.Link(filepath.Join(from.Name(), name), filepath.Join(to.Name(), newName))
}

func syncFile(f *os.File) error { return f.Sync() }

// syncRead does not sync: that takes the right to write.
func syncRead(*os.File) error { return errors.ErrUnsupported }

func askJournal(*os.File) error { return nil }

func allocate(*os.File, int64) error { return errors.ErrUnsupported }

func cached([]byte) bool { return false } // it is not asked

func nextData(_ *os.File, off, _ int64) int64 { return off }

func adviseFile(*os.File, int64, int64, Advice) {}

func writeBack(*os.File, int64, int64) error { return nil }

func adviseMemory([]byte, Advice) {}

// lockFile locks one byte far behind any note, since a locked range cannot be
// read by others; held says that another open file has it.
func lockFile(f *os.File) (held bool, err error) {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err = control(f, func(h windows.Handle) error {
		return windows.LockFileEx(h, flags, 0, 1, 0, &windows.Overlapped{OffsetHigh: 1 << 30})
	})
	if err == windows.ERROR_LOCK_VIOLATION || err == windows.ERROR_IO_PENDING {
		return true, nil
	}
	return false, err
}

func freeBytes(dir *os.File) (uint64, error) {
	path, err := windows.UTF16PtrFromString(dir.Name())
	if err != nil {
		return 0, err
	}
	var free uint64
	return free, windows.GetDiskFreeSpaceEx(path, &free, nil, nil)
}

// classify returns err with the errno that package fault knows it by.
func classify(err error) error {
	for _, pair := range [...]struct{ system, errno syscall.Errno }{
		{windows.ERROR_DISK_FULL, syscall.ENOSPC},
		{windows.ERROR_HANDLE_DISK_FULL, syscall.ENOSPC},
		{windows.ERROR_DISK_QUOTA_EXCEEDED, syscall.EDQUOT},
		{windows.ERROR_TOO_MANY_OPEN_FILES, syscall.EMFILE},
		{windows.ERROR_NOT_ENOUGH_MEMORY, syscall.ENOMEM},
		{windows.ERROR_COMMITMENT_LIMIT, syscall.ENOMEM},
	} {
		if errors.Is(err, pair.system) {
			return fmt.Errorf("%w: %w", pair.errno, err)
		}
	}
	return err
}

// inUse are the errors of a removal that may succeed later.
var inUse = []error{
	windows.ERROR_ACCESS_DENIED, windows.ERROR_SHARING_VIOLATION, windows.ERROR_USER_MAPPED_FILE, windows.ERROR_DIR_NOT_EMPTY,
	windows.ERROR_DELETE_PENDING, syscall.EBUSY,
}

// linkRefusals are the errors of a link that call for a copy.
var linkRefusals = []error{
	windows.ERROR_INVALID_FUNCTION, windows.ERROR_NOT_SAME_DEVICE, windows.ERROR_TOO_MANY_LINKS,
	syscall.EMLINK, syscall.EXDEV,
}
