//go:build !race

package script

import "syscall"

// limitMemory bounds the memory that the process may map for data: an allocation beyond it
// ends the process at once.
func limitMemory(bytes uint64) {
	// Without it the process looks at its memory all the same, every two milliseconds.
	_ = syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: bytes, Max: bytes})
}
