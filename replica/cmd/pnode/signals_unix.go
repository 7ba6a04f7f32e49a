//go:build unix

package main

import (
	"syscall"
	"time"
)

// The signals that stop a process and have it go on.
const (
	sigStop = syscall.SIGSTOP
	sigCont = syscall.SIGCONT
)

// ownUsage returns what this process has used of processors.
func ownUsage() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
