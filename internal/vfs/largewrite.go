package vfs

import (
	"runtime"
	"sync/atomic"
	"time"
)

// A large write goes to the system whole, since the page cache then keeps each 2 MiB of it as a
// huge page, and readers map it as one. That is cheap while the system has huge pages at hand. A
// virtual machine may have given its free ones back to the host, which then hands
// out each 4 KiB of a new one by a fault: such a write takes ten times as long, all of it in the
// kernel, and one without preemption lets nobody else have the processor meanwhile. Smaller pages are
// reused before they are given back. So after one write that was dear, the next ones go in pieces.
const (
	largeWrite = 1 << 20          // least bytes of a large write
	writePiece = 512 << 10        // of a large write
	dearMiB    = time.Millisecond // of a processor; a write that takes more for each MiB is dear
	cautious   = 1 << 30          // bytes written in pieces before a whole write is tried again
)

// largeWrites knows whether large writes are cheap now.
type largeWrites struct {
	left atomic.Int64         // bytes to be written in pieces
	used func() time.Duration // of the processor, by this thread
}

// processLargeWrites is for all files: huge pages are of the machine.
var processLargeWrites = largeWrites{used: threadTime}

// write writes p, at least largeWrite bytes, at off by calls of writeAt.
func (l *largeWrites) write(p []byte, off int64, writeAt func([]byte, int64) (int, error)) (n int, err error) {
	if l.left.Load() <= 0 {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		before := l.used()
		n, err = writeAt(p, off)
		if took := l.used() - before; took > time.Duration(len(p))*dearMiB>>20 {
			l.left.Store(cautious)
		}
		return n, err
	}
	l.left.Add(-int64(len(p)))
	for n < len(p) && err == nil {
		var some int
		some, err = writeAt(p[n:min(n+writePiece, len(p))], off+int64(n))
		n += some
	}
	return n, err
}
