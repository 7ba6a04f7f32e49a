//go:build race

package vfs

import (
	"io"
	"math"
	"syscall"
)

// mapFile copies the bytes of the file to the heap, where the race detector
// sees them.
func (f *osFile) mapFile() (*Mapping, error) {
	info, err := f.file.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() > math.MaxInt {
		return nil, syscall.ENOMEM
	}
	data := make([]byte, info.Size())
	n, err := f.file.ReadAt(data, 0)
	if err == io.EOF {
		err = nil
	}
	return &Mapping{Data: data[:n]}, err
}
