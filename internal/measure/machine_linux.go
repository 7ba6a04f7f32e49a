package measure

import (
	"bytes"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// cpuName returns the model of the first processor, "" if unknown.
func cpuName() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range bytes.Lines(text) {
		if name, value, ok := strings.Cut(string(line), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.Join(strings.Fields(value), " ")
		}
	}
	return ""
}

var fileSystems = map[int64]string{
	unix.EXT4_SUPER_MAGIC:      "ext4",
	unix.XFS_SUPER_MAGIC:       "xfs",
	unix.BTRFS_SUPER_MAGIC:     "btrfs",
	unix.F2FS_SUPER_MAGIC:      "f2fs",
	unix.TMPFS_MAGIC:           "tmpfs (memory)",
	unix.OVERLAYFS_SUPER_MAGIC: "overlayfs",
	unix.NFS_SUPER_MAGIC:       "nfs",
	0x2fc12fc1:                 "zfs",
}

// fileSystem returns the kind of file system that a directory is in, "" if
// unknown.
func fileSystem(dir string) string {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return ""
	}
	return fileSystems[int64(s.Type)]
}
