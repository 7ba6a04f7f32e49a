//go:build !unix

package main

import (
	"syscall"
	"time"
)

// There are no signals that stop a process and have it go on: sending one of these fails.
const (
	sigStop = syscall.Signal(1<<30 + iota)
	sigCont
)

// ownUsage returns 0: what this process has used of processors is not known.
func ownUsage() time.Duration { return 0 }
