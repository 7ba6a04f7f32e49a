//go:build !linux

package main

// readMemory has no source on this system.
func readMemory() (memory, bool) { return memory{}, false }
