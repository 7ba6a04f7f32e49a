//go:build unix

package vfs

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// openFlags: no link is followed, and a fifo that takes the place of a file
// does not block the open.
const openFlags = unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC

// inUse are the errors of a removal that may succeed later: of names that
// something is mounted on, and on network file systems.
var inUse = []error{unix.EBUSY}

// classify returns err with the errno that package fault knows it by.
func classify(err error) error { return err }

const describeNeedsFile = false

// describe turns what the os package knows of a file into Info.
func describe(info os.FileInfo, _ *os.File) (Info, error) {
	result := Info{Size: info.Size(), Dir: info.IsDir()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		result.Links, result.ID = int(st.Nlink), st.Ino
	}
	return result, nil
}

// syncDir makes the names in an open directory durable.
func syncDir(dir *os.File) error { return dir.Sync() }

// linkAt gives a file in one directory a name in another one.
func linkAt(from *os.File, name string, to *os.File, newName string) error {
	return control(from, func(source int) error {
		return control(to, func(target int) error { return unix.Linkat(source, name, target, newName, 0) })
	})
}

// lockFile takes an exclusive lock that closing f gives back; held says that
// another open file has it.
func lockFile(f *os.File) (held bool, err error) {
	err = control(f, func(fd int) error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) })
	if err == unix.EWOULDBLOCK {
		return true, nil
	}
	return false, err
}

// control calls fn with the descriptor of f, which stays open meanwhile, again
// whenever a signal interrupts it.
func control(f *os.File, fn func(fd int) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var result error
	err = conn.Control(func(fd uintptr) {
		for {
			if result = fn(int(fd)); result != unix.EINTR {
				return
			}
		}
	})
	if err != nil {
		return os.ErrClosed // the one reason there is
	}
	return result
}

// adviseMemory tells how page-aligned mapped memory will be read.
func adviseMemory(b []byte, advice Advice) {
	var flag int
	switch advice {
	case Random:
		flag = unix.MADV_RANDOM
	case Sequential:
		flag = unix.MADV_SEQUENTIAL
	case WillNeed:
		flag = unix.MADV_WILLNEED
	case DontNeed:
		flag = unix.MADV_DONTNEED
	default:
		return
	}
	_ = unix.Madvise(b, flag)
}

// linkRefusals are the errors of a link that call for a copy, beside those that
// say that it is not permitted or not known.
var linkRefusals = []error{syscall.EMLINK, syscall.EXDEV}
