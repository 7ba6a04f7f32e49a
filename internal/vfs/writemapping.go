package vfs

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/cleavestore/cleave/internal/fault"
)

// WriteMapping writes to a file through memory, which costs no system call.
// What WriteAt wrote is in the kernel's cache of the file as if File.WriteAt had
// written it: the end of the process does not lose it, ReadAt sees it, File.Sync
// makes it durable. Reading the file ahead makes it fast: else each page is
// brought in when it is first touched.
//
// Its methods must not be called at the same time.
type WriteMapping struct {
	name     string
	data     []byte
	released int64 // up to here
	// In a file system that has no memory to map write writes in place of a copy to data,
	// and unmap is told of the end.
	write func(p []byte, off int64) error
	unmap func()
}

// WriteAt writes p at off. A failing device, one without space for what is
// overwritten, and a file that shrank, are errors that match ErrFault; some of p may be
// written then.
func (m *WriteMapping) WriteAt(p []byte, off int64) error {
	if m.write != nil {
		return fault.IO("write mapped", m.name, off, m.write(p, off))
	}
	if off < 0 || off > int64(len(m.data)) || len(p) > len(m.data)-int(off) {
		return fault.IO("write mapped", m.name, off, fmt.Errorf("%d bytes in a mapping of %d: %w", len(p), len(m.data), syscall.EINVAL))
	}
	if at, ok := copyGuarded(m.data[off:], p); !ok {
		return fault.IO("write mapped", m.name, off+at, ErrFault)
	}
	return nil
}

// copyGuarded copies src, memory of the process, to dst, part of a mapping that
// has room for it. It returns false, and about where in dst, if that raised a memory
// fault.
func copyGuarded(dst, src []byte) (at int64, ok bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			at, ok = faultOfCopy(r, dst)
		}
	}()
	copy(dst, src)
	return 0, true
}

// faultOfCopy returns where in dst a copy to it failed that panicked with r. Some
// systems do not tell the address: an emulated arm64 says 0, which the Go runtime
// takes for a nil pointer. Nothing but the copy ran, of two slices that were
// there, so that only the mapping can have failed: somewhere from its start on.
func faultOfCopy(r any, dst []byte) (at int64, ok bool) {
	if at, known := FaultOffset(r, dst); known {
		return at, false
	}
	_, is := r.(runtime.Error)
	if addressed, has := r.(interface{ Addr() uintptr }); !is || has && addressed.Addr() != 0 {
		panic(r)
	}
	return 0, false
}

// Release says that nothing will be written below off any more. It lets go of
// those pages, dirty as they are: a sync would have to take each of them from
// every processor that runs the process.
func (m *WriteMapping) Release(off int64) {
	off = min(off, int64(len(m.data)))
	if off -= off % int64(os.Getpagesize()); off <= m.released {
		return
	}
	adviseMemory(m.data[m.released:off], DontNeed)
	m.released = off
}

// Unmap gives the memory back; what was written stays written. The mapping must
// not be used afterwards.
func (m *WriteMapping) Unmap() error {
	data := m.data
	m.data = nil
	if m.unmap != nil {
		m.unmap()
		m.unmap = nil
	}
	if data == nil {
		return nil
	}
	return fault.IO("unmap", m.name, -1, classify(unmapWritten(data)))
}
