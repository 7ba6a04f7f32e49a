package manifest

import (
	"fmt"
	"path"
	"strconv"
	"strings"
)

// Names below the directory of a store. Container names never become paths:
// directories and files are called by number.
const (
	LockName      = "LOCK"
	ReserveName   = "RESERVE" // space that an open on a full disk can take
	LogDir        = "wal"
	PartitionsDir = "p"
	BackupPrefix  = "backup-" // of the temporary file of a backup; digits of its id follow
	segmentSuffix = ".seg"
)

// PartitionDir returns the directory of a physical partition.
func PartitionDir(id uint32) string {
	return path.Join(PartitionsDir, fmt.Sprintf("%06d", id))
}

// ParsePartitionDir returns the partition whose directory has this base name.
func ParsePartitionDir(base string) (id uint32, ok bool) {
	n, err := strconv.ParseUint(base, 10, 32)
	if err != nil || path.Base(PartitionDir(uint32(n))) != base {
		return 0, false
	}
	return uint32(n), true
}

// SegmentName returns the base name of a segment file.
func SegmentName(number uint64) string {
	return fmt.Sprintf("%010d%s", number, segmentSuffix)
}

// ParseSegmentName returns the number of a segment file.
func ParseSegmentName(base string) (number uint64, ok bool) {
	digits, ok := strings.CutSuffix(base, segmentSuffix)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || n > MaxNumber || SegmentName(n) != base {
		return 0, false
	}
	return n, true
}

// IndexSuffix is behind the name of a segment file in that of its index, which is a
// temporary file until it becomes part of the segment file.
const IndexSuffix = ".index"

// IsTemp says whether a base name is that of a manifest, a segment file or its index that
// was never published.
func IsTemp(base string) bool {
	name, ok := strings.CutSuffix(base, TempSuffix)
	_, isManifest := ParseName(name)
	_, isSegment := ParseSegmentName(strings.TrimSuffix(name, IndexSuffix))
	return ok && (isManifest || isSegment)
}
