//go:build !race

package vfs

import (
	"math"
	"syscall"

	"github.com/edsrzf/mmap-go"
)

// mapFile maps the bytes of the file, read-only and shared.
func (f *osFile) mapFile() (*Mapping, error) {
	info, err := f.file.Stat()
	if err != nil {
		return nil, err
	}
	size := info.Size()
	if size > math.MaxInt {
		return nil, syscall.ENOMEM
	}
	if size == 0 {
		return &Mapping{}, nil // the system maps no empty range
	}
	mapped, err := mmap.MapRegion(f.file, int(size), mmap.RDONLY, 0, 0)
	if err != nil {
		return nil, err
	}
	return &Mapping{Data: mapped, unmap: func() error { return f.err("unmap", -1, mapped.Unmap()) }}, nil
}
