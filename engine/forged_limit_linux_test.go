package engine

import (
	"syscall"
	"testing"
)

// limitMemory bounds the address space of the process.
func limitMemory(t *testing.T) {
	if raceEnabled {
		return // the detector takes all that there is
	}
	const most = 8 << 30
	must(t, syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: most, Max: most}))
}
