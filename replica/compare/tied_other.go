//go:build !linux

package main

import "syscall"

// tied returns nothing: only Linux ends a process with its parent.
func tied() *syscall.SysProcAttr { return nil }

// volatile knows nothing of other systems than Linux.
func volatile(string) string { return "" }
