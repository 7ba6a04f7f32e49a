package vfs

import (
	"bytes"
	"errors"
	"io/fs"
	"syscall"
	"testing"

	"github.com/cleavestore/cleave/internal/fault"
)

// TestLinkOrCopy provokes each refusal of a link that a copy takes the place
// of, and errors that it does not.
func TestLinkOrCopy(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcdef"), 3*copyBytes/16/2)
	for _, refusal := range []error{nil, syscall.EMLINK, syscall.EXDEV, syscall.EPERM, syscall.ENOTSUP, syscall.ENOSYS} {
		mem := NewMem()
		faulty := NewFaulty(mem)
		write(t, mem, "a", content)
		faulty.SetHook(func(c Call) error {
			if c.Op == OpLink {
				return refusal
			}
			return nil
		})
		copied, err := LinkOrCopy(faulty, "a", "b")
		if err != nil {
			t.Fatalf("%v: %v", refusal, err)
		}
		if want := int64(len(content)); refusal == nil && copied != 0 || refusal != nil && copied != want {
			t.Errorf("%v: %d bytes copied", refusal, copied)
		}
		if err := mem.SyncDir("."); err != nil {
			t.Fatal(err)
		}
		got, err := ReadFile(mem.Crash(CrashOptions{}), "b", 1<<30)
		if err != nil || !bytes.Equal(got, content) {
			t.Errorf("%v: %d bytes after a crash, %v", refusal, len(got), err)
		}
		a, _ := mem.Stat("a")
		b, _ := mem.Stat("b")
		if (a.ID == b.ID) != (refusal == nil) {
			t.Errorf("%v: inodes %d and %d", refusal, a.ID, b.ID)
		}
		if _, err := LinkOrCopy(faulty, "a", "b"); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%v: second time: %v", refusal, err)
		}
	}
	mem := NewMem()
	faulty := NewFaulty(mem)
	write(t, mem, "a", content)
	faulty.SetHook(func(c Call) error {
		switch c.Op {
		case OpLink:
			return syscall.EMLINK
		case OpWrite:
			return syscall.ENOSPC
		}
		return nil
	})
	if _, err := LinkOrCopy(faulty, "a", "b"); !errors.Is(err, fault.ErrDiskFull) {
		t.Errorf("full disk: %v", err)
	}
	if _, err := mem.Stat("b"); !errors.Is(err, fault.ErrMissing) {
		t.Errorf("a failed copy is left: %v", err)
	}
	faulty.SetHook(func(c Call) error {
		if c.Op == OpLink {
			return syscall.EIO
		}
		return nil
	})
	if _, err := LinkOrCopy(faulty, "a", "b"); !errors.Is(err, fault.ErrIO) {
		t.Errorf("another error: %v", err)
	}
}

// TestCopyOfUnreadable fails each read of a copy: what could not be read does not
// end it.
func TestCopyOfUnreadable(t *testing.T) {
	mem := NewMem()
	faulty := NewFaulty(mem)
	write(t, mem, "a", make([]byte, 2*copyBytes+1))
	for n := 1; n <= 3; n++ {
		reads := 0
		faulty.SetHook(func(c Call) error {
			switch c.Op {
			case OpLink:
				return syscall.EXDEV
			case OpRead:
				if reads++; reads == n {
					return syscall.EIO
				}
			}
			return nil
		})
		if _, err := LinkOrCopy(faulty, "a", "b"); !errors.Is(err, fault.ErrIO) {
			t.Errorf("read %d of %d: %v", n, reads, err)
		}
		if _, err := mem.Stat("b"); !errors.Is(err, fault.ErrMissing) {
			t.Errorf("read %d: a part of the file is left: %v", n, err)
		}
	}
}

func write(t *testing.T, fsys FS, name string, content []byte) {
	t.Helper()
	if err := writeSynced(fsys, name, content); err != nil {
		t.Fatal(err)
	}
}
