package measure

import (
	"path"
	"strconv"
	"strings"
)

// MemoryLimit returns how many bytes of memory this process may use, what the
// system caches of files for it included: those of the machine, or of the control
// group that the process is in. 0: unknown.
func MemoryLimit() int64 { return readMemoryLimit() }

// limitFiles returns the files that may say how much memory a process may use, of
// control groups of both versions, for the text of /proc/self/cgroup. The groups
// that contain a group limit it too.
func limitFiles(groups string) (names []string) {
	for line := range strings.Lines(groups) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) < 3 {
			continue
		}
		root, name := "/sys/fs/cgroup", "memory.max"
		if fields[1] == "memory" {
			root, name = "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
		} else if fields[1] != "" {
			continue
		}
		for dir := path.Clean("/" + fields[2]); ; dir = path.Dir(dir) {
			names = append(names, path.Join(root, dir, name))
			if dir == "/" {
				break
			}
		}
	}
	return names
}

// parseLimit reads such a file; false: it names no limit.
func parseLimit(text string) (int64, bool) {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	return n, err == nil && n > 0
}

// parseTotalMemory reads the form of /proc/meminfo; 0: it does not tell.
func parseTotalMemory(text string) int64 {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			number, _, _ := strings.Cut(strings.TrimSpace(value), " ")
			kib, _ := strconv.ParseInt(number, 10, 64)
			return kib << 10
		}
	}
	return 0
}
