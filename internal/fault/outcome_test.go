package fault

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
)

// TestOutcomeIsNoFullDisk: what may have been written is never reported as a full disk.
func TestOutcomeIsNoFullDisk(t *testing.T) {
	for _, sentinel := range []error{ErrOutcomeUnknown, ErrFailed} {
		err := fmt.Errorf("log: %w", Outcome(sentinel, IO("write", "a/b", 42, syscall.ENOSPC)))
		var ioErr *IOError
		if !errors.Is(err, sentinel) || errors.Is(err, ErrDiskFull) || !errors.Is(err, syscall.ENOSPC) ||
			!errors.As(err, &ioErr) || ioErr.Offset != 42 {
			t.Errorf("%v", err)
		}
		again := Outcome(ErrFailed, err)
		if !errors.Is(again, ErrFailed) || !errors.Is(again, sentinel) || errors.Is(again, ErrDiskFull) {
			t.Errorf("%v", again)
		}
		if err := Outcome(sentinel, IO("sync", "a/b", -1, syscall.EIO)); !errors.Is(err, ErrIO) {
			t.Errorf("%v", err)
		}
	}
}
