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

// DeviceWritten returns how many bytes the block device of the file system of dir has
// written since the system knows it, for all programs; -1 if unknown: the system does not
// tell, or the file system has no single device of its own, as btrfs, ZFS and tmpfs.
//
// What Linux says of a process alone (write_bytes in /proc/self/io) is no measure of that. It
// counts a page when the page becomes dirty, and a large page whole: with large pages of
// 2 MiB a synced write of 500 bytes counts as 2 MiB, though the device writes some KiB.
func DeviceWritten(dir string) int64 { return parseDevice(readDevice(dir)) }

// sectorBytes is the unit of the statistics of devices, whatever the sectors of the device.
const sectorBytes = 512

// parseDevice returns the bytes written in the form of /sys/dev/block/X:Y/stat: numbers, of
// which the seventh counts written sectors.
func parseDevice(text string) int64 {
	fields := strings.Fields(text)
	if len(fields) < 7 {
		return -1
	}
	n, err := strconv.ParseInt(fields[6], 10, 64)
	if err != nil || n < 0 {
		return -1
	}
	return n * sectorBytes
}

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
