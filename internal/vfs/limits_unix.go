//go:build unix

package vfs

import (
	"math"

	"golang.org/x/sys/unix"
)

// Limits returns how many files this process may have open at the same time, and how many
// mappings; math.MaxInt where there is no limit, or none that the system tells.
func Limits() (files, mappings int) {
	files = math.MaxInt
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil && uint64(limit.Cur) < math.MaxInt {
		files = int(limit.Cur)
	}
	return files, maxMappings()
}
