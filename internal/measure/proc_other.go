//go:build !linux

package measure

// readMemory has no source on this system.
func readMemory() (Memory, bool) { return Memory{}, false }

// readIO has no source on this system.
func readIO() string { return "" }

// readDevice has no source on this system.
func readDevice(string) string { return "" }

// readMemoryLimit has no source on this system.
func readMemoryLimit() int64 { return 0 }
