package measure

import "os"

// readMemory returns what the kernel says of this process.
func readMemory() (Memory, bool) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return Memory{}, false
	}
	return parseMemory(string(text))
}

// readIO returns what the kernel says of the input and output of this process.
func readIO() string {
	text, _ := os.ReadFile("/proc/self/io")
	return string(text)
}
