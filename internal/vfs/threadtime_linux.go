package vfs

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadTime is how long this thread has had a processor. It does not count the time for
// which it was not scheduled, or waited for the device.
func threadTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
