package measure

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

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

// readDevice returns what the kernel says of the block device of the file system of dir.
func readDevice(dir string) string {
	var s unix.Stat_t
	if unix.Stat(dir, &s) != nil {
		return ""
	}
	text, _ := os.ReadFile(fmt.Sprintf("/sys/dev/block/%d:%d/stat", unix.Major(s.Dev), unix.Minor(s.Dev)))
	return string(text)
}

// readMemoryLimit asks the kernel, and the control groups of this process.
func readMemoryLimit() int64 {
	text, _ := os.ReadFile("/proc/meminfo")
	limit := parseTotalMemory(string(text))
	groups, _ := os.ReadFile("/proc/self/cgroup")
	for _, name := range limitFiles(string(groups)) {
		text, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		if n, ok := parseLimit(string(text)); ok && (limit == 0 || n < limit) {
			limit = n
		}
	}
	return limit
}
