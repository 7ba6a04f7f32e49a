//go:build !linux

package faults

import (
	"context"
	"io"
	"syscall"
)

// Other systems than Linux have no SIGSTOP in common: what uses these is not in their schedules.
const (
	sigStop = syscall.Signal(0)
	sigCont = syscall.Signal(0)
)

func tied() *syscall.SysProcAttr { return nil }

func (s *nodeSet) shrink(uint64) {}
func (s *nodeSet) unshrink()     {}

func mayIsolate() bool { return false }

// Isolate needs Linux: ErrNamespaces.
func Isolate(context.Context, string, []string, io.Writer, io.Writer) error { return Namespaces() }
