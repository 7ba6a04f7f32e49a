package vfs

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// syncFile makes bytes and length durable; fdatasync leaves out the times.
func syncFile(f *os.File) error { return control(f, unix.Fdatasync) }

// syncRead is syncFile of a file that is open for reading only. It takes no error away from
// those who write: each open file is told of all since it was opened. A file system that
// nobody writes has no such call.
func syncRead(f *os.File) error {
	err := syncFile(f)
	if err == unix.EINVAL {
		return errors.ErrUnsupported
	}
	return err
}

// askJournal fails if the journal of the file system has failed. ext4 waits in a sync for
// the transaction that has the changes of the file: if that has been committed in vain by
// then, for another caller, the sync answers nil. The abort is noticed when the next change of metadata begins,
// which new times are; those of f mean nothing. This one fails without a word, and
// makes the file system read-only for the second.
func askJournal(f *os.File) error {
	for range 2 {
		err := control(f, func(fd int) error {
			// futimens: x/sys has none that does without the name in /proc.
			_, _, errno := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(fd), 0, 0, 0, 0, 0)
			return errno
		})
		if err == unix.EROFS || err == unix.EIO {
			return err
		} // without the right to it, or without space, nothing is learned
	}
	return nil
}

// allocate makes f at least size bytes long and backs all of it by storage.
func allocate(f *os.File, size int64) error {
	err := control(f, func(fd int) error { return unix.Fallocate(fd, 0, 0, size) })
	if err == unix.EOPNOTSUPP || err == unix.ENOSYS {
		return errors.ErrUnsupported
	}
	return err
}

// nextData returns the offset of the first data at or after off, size if there
// is none. Space that was allocated and never written holds no data.
func nextData(f *os.File, off, size int64) int64 {
	next := off
	err := control(f, func(fd int) (err error) {
		next, err = unix.Seek(fd, off, unix.SEEK_DATA)
		return err
	})
	if err == unix.ENXIO {
		return size
	}
	if err != nil {
		return off
	}
	return next
}

func adviseFile(f *os.File, off, n int64, advice Advice) {
	var flag int
	switch advice {
	case Random:
		flag = unix.FADV_RANDOM
	case Sequential:
		flag = unix.FADV_SEQUENTIAL
	case WillNeed:
		flag = unix.FADV_WILLNEED
	case DontNeed:
		flag = unix.FADV_DONTNEED
	default:
		return
	}
	_ = control(f, func(fd int) error { return unix.Fadvise(fd, off, n, flag) })
}

// cached asks for the pages of b, the first of which it begins with.
func cached(b []byte) bool {
	const minPage = 4 << 10
	var pages [maxCached/minPage + 1]byte
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), uintptr(unsafe.Pointer(&pages)))
	if errno != 0 {
		return false
	}
	for _, in := range pages[:(len(b)+os.Getpagesize()-1)/os.Getpagesize()] {
		if in&1 == 0 {
			return false
		}
	}
	return true
}

func writeBack(f *os.File, off, n int64) error {
	err := control(f, func(fd int) error {
		if off > 0 { // a length of 0 is the whole file
			if err := unix.SyncFileRange(fd, 0, off, unix.SYNC_FILE_RANGE_WAIT_BEFORE); err != nil {
				return err
			}
		}
		return unix.SyncFileRange(fd, off, n, unix.SYNC_FILE_RANGE_WRITE)
	})
	if err == unix.ENOSYS || err == unix.EOPNOTSUPP || err == unix.EINVAL {
		return nil // not here
	}
	return err
}

func freeBytes(dir *os.File) (uint64, error) {
	var st unix.Statfs_t
	if err := control(dir, func(fd int) error { return unix.Fstatfs(fd, &st) }); err != nil {
		return 0, err
	}
	unit := st.Frsize
	if unit == 0 {
		unit = st.Bsize
	}
	return st.Bavail * uint64(unit), nil
}
