package fault

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"
)

func TestIOMatchesOneSentinel(t *testing.T) {
	all := []error{ErrIO, ErrDiskFull, ErrResource, ErrMissing}
	f := func(cause, want error) {
		t.Helper()
		err := fmt.Errorf("outer: %w", IO("write", "a/b", 42, &fs.PathError{Op: "write", Path: "a/b", Err: cause}))
		for _, sentinel := range all {
			if got := errors.Is(err, sentinel); got != (sentinel == want) {
				t.Errorf("%v: Is(%v) = %v", cause, sentinel, got)
			}
		}
		if !errors.Is(err, cause) {
			t.Errorf("%v: the cause is lost", cause)
		}
		var ioErr *IOError
		if !errors.As(err, &ioErr) || ioErr.File != "a/b" || ioErr.Offset != 42 {
			t.Errorf("%v: %+v", cause, ioErr)
		}
	}
	f(syscall.ENOSPC, ErrDiskFull)
	f(syscall.EDQUOT, ErrDiskFull)
	f(syscall.EFBIG, ErrDiskFull)
	f(syscall.EMFILE, ErrResource)
	f(syscall.ENOMEM, ErrResource)
	f(fs.ErrNotExist, ErrMissing)
	f(syscall.ENOENT, ErrMissing)
	f(syscall.EIO, ErrIO)
}

func TestIOKeepsTheFirstReport(t *testing.T) {
	if IO("read", "x", 0, nil) != nil {
		t.Error("nil became an error")
	}
	inner := IO("read", "inner", 7, syscall.EIO)
	if got := IO("open", "outer", 0, inner); got != inner {
		t.Errorf("wrapped again: %v", got)
	}
	damage := Corrupt("inner", 7, "bad")
	if got := IO("open", "outer", 0, damage); got != damage {
		t.Errorf("corruption became an I/O error: %v", got)
	}
}

func TestCorruptNamesFileAndOffset(t *testing.T) {
	cause := errors.New("cause")
	err := fmt.Errorf("open: %w", Corrupt("p/1/2.seg", 4096, "group: %w", cause))
	if !errors.Is(err, ErrCorrupt) || !errors.Is(err, cause) || errors.Is(err, ErrIO) {
		t.Errorf("matches the wrong sentinels: %v", err)
	}
	var corruption *CorruptionError
	if !errors.As(err, &corruption) || corruption.File != "p/1/2.seg" || corruption.Offset != 4096 {
		t.Fatalf("%+v", corruption)
	}
	for _, part := range []string{"p/1/2.seg", "4096", "group: cause"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q lacks %q", err, part)
		}
	}
}
