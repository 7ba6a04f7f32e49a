package measure

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// DiskBytes returns the length of all regular files in dir and below, but for
// those that have the base name except. Files with several names, of which the
// last elements agree, are counted once.
func DiskBytes(dir, except string) (n int64, err error) {
	seen := make(map[string][]fs.FileInfo)
	err = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || entry.Name() == except {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		alike := seen[entry.Name()]
		if slices.ContainsFunc(alike, func(other fs.FileInfo) bool { return os.SameFile(info, other) }) {
			return nil
		}
		seen[entry.Name()] = append(alike, info)
		n += info.Size()
		return nil
	})
	return n, err
}

// ReadBytes returns how many bytes this process has caused to be read from storage, -1 if
// unknown: what was not in memory.
func ReadBytes() int64 { return parseIO(readIO(), "read_bytes") }

// WrittenBytes returns how many bytes this process has caused to be written to
// storage, -1 if unknown: what it wrote to files, page by page when the pages
// became dirty, also what was deleted before it reached the device.
func WrittenBytes() int64 { return parseIO(readIO(), "write_bytes") }

// parseIO returns the number that a name has in the form of /proc/PID/io: lines "name: 1234".
func parseIO(text, want string) int64 {
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		if name == want && err == nil {
			return n
		}
	}
	return -1
}
