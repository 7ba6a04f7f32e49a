package vfs

import (
	"math"
	"syscall"

	"github.com/edsrzf/mmap-go"
)

// MapWrite works where one cache serves mappings and calls alike. On Linux it
// does for every local file system.
func (f *osFile) MapWrite(size int64) (*WriteMapping, error) {
	if size < 1 || size > math.MaxInt {
		return nil, f.err("map", -1, syscall.EINVAL)
	}
	data, err := mmap.MapRegion(f.file, int(size), mmap.RDWR, 0, 0)
	if err != nil {
		return nil, f.err("map", -1, err)
	}
	return &WriteMapping{name: f.name, data: data}, nil
}

func unmapWritten(data []byte) error {
	m := mmap.MMap(data)
	return m.Unmap()
}
