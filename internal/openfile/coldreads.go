package openfile

import (
	"sync/atomic"
	"time"
)

// ColdReads bounds and counts the reads of bytes that may have to come from the device.
// Files may share one.
type ColdReads struct {
	places        chan struct{}
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
	err := f.ReadAt(b, off)
	<-cold.places
	cold.reads.Add(1)
	cold.waited.Add(int64(time.Since(start)))
	return err
}
