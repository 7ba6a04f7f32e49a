package main

import "os"

// readMemory returns what the kernel says of this process.
func readMemory() (memory, bool) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return memory{}, false
	}
	return parseMemory(string(text))
}
