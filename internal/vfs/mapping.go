package vfs

import (
	"errors"
	"os"
	"runtime"
	"unsafe"
)

// ErrFault is the cause of an error that a memory fault in a mapping became.
var ErrFault = errors.New("memory fault in the mapping: the file shrank or its device failed")

// FaultOffset returns where in data, a mapping, the memory fault happened that
// was recovered as r; false if r is something else.
func FaultOffset(r any, data []byte) (int64, bool) {
	e, ok := r.(interface {
		runtime.Error
		Addr() uintptr
	})
	if !ok || len(data) == 0 {
		return 0, false
	}
	off := e.Addr() - uintptr(unsafe.Pointer(unsafe.SliceData(data)))
	return int64(off), off < uintptr(len(data))
}

// Mapping is a file mapped for reading; Data is as long as the file was when
// it was mapped. The bytes must not be written, and neither they nor slices of
// them may be used after Unmap. If the file shrinks while it is mapped, or the
// device fails, touching Data raises a memory fault: readers guard themselves
// (debug.SetPanicOnFault). Under the build tag race, and for Mem, Data is a copy
// on the heap.
//
// Reading Data, Advise and Cached may run in parallel; Unmap must be the last use.
type Mapping struct {
	Data  []byte
	unmap func() error // nil: Data is on the heap

	unmapped func() // of who counts mappings; nil: nobody does
}

// Advise tells how Data[off:off+n] will be read; n 0 is the rest. It is a hint:
// errors are not reported.
func (m *Mapping) Advise(off, n int64, advice Advice) {
	size := int64(len(m.Data))
	if m.unmap == nil || off < 0 || n < 0 || off >= size {
		return
	}
	if n == 0 || n > size-off {
		n = size - off
	}
	// The system wants whole pages: the first is rounded down, the last up.
	first := off - off%int64(os.Getpagesize())
	adviseMemory(m.Data[first:off+n], advice)
}

// Cached reports whether all of Data[off:off+n], 256 KiB at most, is in memory
// as the system tells it; false where it does not, and for a copy on the heap.
func (m *Mapping) Cached(off, n int64) bool {
	size := int64(len(m.Data))
	if m.unmap == nil || off < 0 || n <= 0 || n > maxCached || off > size-n {
		return false
	}
	first := off - off%int64(os.Getpagesize())
	return cached(m.Data[first : off+n])
}

const maxCached = 256 << 10 // bytes that Cached is asked of at once

// Unmap gives the memory back. A second call does nothing.
func (m *Mapping) Unmap() error {
	data, unmap := m.Data, m.unmap
	m.Data, m.unmap = nil, nil
	if m.unmapped != nil {
		m.unmapped()
		m.unmapped = nil
	}
	if unmap == nil {
		// Who reads on finds garbage, where a real mapping raises a fault.
		for i := range data {
			data[i] = 0xDB
		}
		return nil
	}
	return unmap()
}
