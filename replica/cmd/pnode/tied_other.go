//go:build !linux

package main

import "syscall"

// tied returns nothing: only Linux ends a process with its parent.
func tied() *syscall.SysProcAttr { return nil }
