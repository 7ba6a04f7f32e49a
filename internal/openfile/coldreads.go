package openfile

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/cleavestore/cleave/internal/uring"
)

// ColdReads bounds and counts the reads of bytes that may have to come from the device.
// Files may share one.
type ColdReads struct {
	places        chan struct{}
	rings         uring.Rings
	reads, waited atomic.Int64
}

// NewColdReads returns a bound of n reads at the same time.
func NewColdReads(n int) *ColdReads { return &ColdReads{places: make(chan struct{}, n)} }

// Stats returns the number of reads, and how long they took altogether, the
// wait for a place included.
func (c *ColdReads) Stats() (reads int64, waited time.Duration) {
	return c.reads.Load(), time.Duration(c.waited.Load())
}

// ReadCold is ReadAt for bytes that may have to come from the device.
func (f *File) ReadCold(b []byte, off int64) error {
	cold := f.o.Cold
	if cold == nil {
		return f.ReadAt(b, off)
	}
	start := time.Now()
	cold.places <- struct{}{}
	// A single read leaves the other processors free, and comes back sooner by itself.
	// GOMAXPROCS takes a lock of the scheduler.
	err := f.read(b, off, len(cold.places) > 1 || runtime.GOMAXPROCS(0) == 1)
	<-cold.places
	cold.reads.Add(1)
	cold.waited.Add(int64(time.Since(start)))
	return err
}
