//go:build unix

package measure

import (
	"time"

	"golang.org/x/sys/unix"
)

// CPUTime returns the processor time that this process used, 0 if unknown.
func CPUTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
