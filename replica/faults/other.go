//go:build !linux

package faults

import "syscall"

// Other systems than Linux have no SIGSTOP in common: what uses these is not in their schedules.
const (
	sigStop = syscall.Signal(0)
	sigCont = syscall.Signal(0)
)

func tied() *syscall.SysProcAttr { return nil }

func (s *nodeSet) shrink(uint64) {}
func (s *nodeSet) unshrink()     {}
