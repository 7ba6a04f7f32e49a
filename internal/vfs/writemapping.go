package vfs

import (
	"fmt"
	"os"
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
}

// WriteAt writes p at off. A failing device, and a file that shrank, are
// errors; some of p may be written then.
func (m *WriteMapping) WriteAt(p []byte, off int64) (err error) {
	if off < 0 || off > int64(len(m.data)) || len(p) > len(m.data)-int(off) {
		return fault.IO("write mapped", m.name, off, fmt.Errorf("%d bytes in a mapping of %d: %w", len(p), len(m.data), syscall.EINVAL))
	}
	before := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(before)
		if r := recover(); r != nil {
			at, ok := FaultOffset(r, m.data)
			if !ok {
				panic(r)
			}
			err = fault.IO("write mapped", m.name, at, ErrFault)
		}
	}()
	copy(m.data[off:], p)
	return nil
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
	return fault.IO("unmap", m.name, -1, classify(unmapWritten(data)))
}
