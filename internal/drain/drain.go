// Package drain foresees when flushes give memory back, so that writers can be paced to
// what is drained and need not stop when their memory is used up.
//
// A flush gives its memory back all at once, at its end: a memtable of 32 MiB after a
// second. Writers that fill what is free within half of that time have to stop for the
// other half. If each byte costs them as much time as is left until the flush ends,
// divided by the bytes that are free, they arrive there together with the flush.
//
//	         flush begins          now                    flush ends
//	writers      |------------------|- - - - - - - - - - - - - |
//	                                 free bytes, spread over the time that is left
//
// The time that is left is estimated from what the flush has written so far, and from how
// long earlier flushes took between their last version and their end: to sync, to verify
// and to wait for readers. A flush that has shown no progress for some time, because the
// device has stalled, is taken to need as much time again. So the pace falls as a stall
// grows longer, and is never zero.
//
// Invariants:
//
//  1. A Flush counts from Begin to End. The memory that it gives back is not counted on
//     before its estimated end.
//  2. Without a flush under way and without memory that waits for one there is no pace.
//
// Everything is safe for concurrent use.
package drain

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Meter knows the flushes under way, and how long earlier ones took. The zero Meter is
// ready for use.
type Meter struct {
	mu      sync.Mutex
	flushes []*Flush
	learnt  bool
	write   float64 // nanoseconds for each byte of a memtable, up to the last version
	finish  float64 // nanoseconds from there to the end
}

// Flush is a flush under way. A nil Flush is not measured.
type Flush struct {
	meter *Meter
	bytes int64 // that its end gives back
	begun time.Time
	// part of the versions that are written, of whole, and when it last grew, in
	// nanoseconds since begun.
	part, grew atomic.Int64
}

const (
	whole     = 1 << 20
	enoughFor = whole / 16 // part from which on it is a measure of what is left
	smooth    = 4          // of so many flushes each counts

	// Before the first flush has ended: 200 MB/s, and a sync.
	firstWrite  = 5.0
	firstFinish = float64(20 * time.Millisecond)
)

// Begin says that a flush begins, whose end gives so many bytes back.
func (m *Meter) Begin(bytes int64) *Flush {
	f := &Flush{meter: m, bytes: max(bytes, 1), begun: time.Now()}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.flushes = append(m.flushes, f)
	return f
}

// Wrote says that n versions of so many are written.
func (f *Flush) Wrote(n, of int64) {
	if f != nil && of > 0 {
		f.part.Store(int64(float64(n) / float64(of) * whole))
		f.grew.Store(int64(time.Since(f.begun)))
	}
}

// End says that the flush has given its memory back, or has failed. Of several calls the
// first counts.
func (f *Flush) End(failed bool) {
	m := f.meter
	m.mu.Lock()
	defer m.mu.Unlock()
	at := slices.Index(m.flushes, f)
	if at < 0 {
		return
	}
	m.flushes = slices.Delete(m.flushes, at, at+1)
	if failed || f.part.Load() < enoughFor {
		return
	}
	grew := f.grew.Load()
	write := float64(grew) / float64(f.bytes) * whole / float64(f.part.Load())
	finish := float64(int64(time.Since(f.begun)) - grew)
	if !m.learnt {
		m.learnt, m.write, m.finish = true, write, finish
	}
	m.write += (write - m.write) / smooth
	m.finish += (finish - m.finish) / smooth
}

// costs returns what flushes take, as far as it is known.
func (m *Meter) costs() (write, finish float64) {
	if !m.learnt {
		return firstWrite, firstFinish
	}
	return m.write, m.finish
}

// left estimates how many nanoseconds the flush still takes.
func (f *Flush) left(now time.Time, write, finish float64) float64 {
	part, grew := f.part.Load(), f.grew.Load()
	quiet := float64(int64(now.Sub(f.begun)) - grew)
	left := finish
	if part >= enoughFor {
		left += float64(grew) * float64(whole-part) / float64(part)
	} else {
		left += write * float64(f.bytes) * float64(whole-part) / whole
	}
	return max(left-quiet, quiet)
}

// Pace returns how many nanoseconds each byte must take that writers write now, if free
// bytes are to last until the flushes under way end, and waiting bytes wait for flushes
// that have not begun. 0: any pace is right.
func (m *Meter) Pace(free, waiting int64) float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	type end struct {
		left  float64
		bytes int64
	}
	ends := make([]end, 0, 4)
	now := time.Now()
	write, finish := m.costs()
	for _, f := range m.flushes {
		ends = append(ends, end{f.left(now, write, finish), f.bytes})
		waiting -= f.bytes
	}
	slices.SortFunc(ends, func(a, b end) int { return cmp.Compare(a.left, b.left) })
	last, ahead, pace := 0.0, float64(max(free, 1)), 0.0
	for _, e := range ends {
		last = e.left
		pace = max(pace, last/ahead)
		ahead += float64(e.bytes)
	}
	if waiting > 0 {
		pace = max(pace, (last+write*float64(waiting)+finish)/ahead)
	}
	return pace
}
