// Package drain foresees when flushes give memory back, and compactions the runs that they
// merge, so that writers can be paced to what is drained and need not stop when their memory
// is used up, or a partition has as many runs as it may have.
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
// Compactions give back runs, and may be nested: the outer one rests while a newer one, which is
// smaller, gets on. Writers that leave no time to the outer ones would have to pay for all of
// them at last. So each compaction has to end before the runs in front of its inputs are as large
// as they are, and could be inputs of the next one (Meter.PaceRuns):
//
//	[runs in front, merged in nested ones] [inputs of the outer compaction] [older]
//	 └─ grow to the size of the inputs ──►  └─ read to their end meanwhile
//
// Each byte that flushes write then costs the time that is left until the outer one ends,
// divided by the bytes that may still come, and in addition the time that nested compactions
// take for it.
//
// Invariants:
//
//  1. A Job counts from Begin to End. What it gives back is not counted on before its
//     estimated end, nor while it is paused.
//  2. Without a job under way and without memory that waits for one there is no pace.
//
// Everything is safe for concurrent use.
package drain

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Meter knows the jobs of one kind under way, flushes or compactions, and how long earlier
// ones took. The zero Meter is ready for use.
type Meter struct {
	mu     sync.Mutex
	jobs   []*Job
	count  atomic.Int32 // of jobs
	learnt bool
	write  float64 // nanoseconds for each byte that is read, up to the last version
	finish float64 // nanoseconds from there to the end

	asked atomic.Int64  // when recent was found
	pace  atomic.Uint64 // see Recent, the bits of a float64
}

// Job is a flush or compaction under way. A nil Job is not measured.
type Job struct {
	meter *Meter
	bytes int64 // that it reads
	gives int64 // what its end gives back: bytes of a flush, runs of a compaction
	// behind is how many bytes lie behind a compaction: those that it reads, and older ones.
	behind int64
	begun  time.Time
	rests  time.Time // since when it is paused; zero: it is not
	// part of the versions that are written, of whole, and when it last grew, in
	// nanoseconds since begun.
	part, grew atomic.Int64
}

const (
	whole     = 1 << 20
	enoughFor = whole / 16 // part from which on it alone is the measure of what is left
	smooth    = 4          // of so many jobs each counts

	// Before the first job has ended: 200 MB/s, and a sync.
	firstWrite  = 5.0
	firstFinish = float64(20 * time.Millisecond)
)

// Begin says that a job begins, which reads so many bytes and whose end gives so much back.
func (m *Meter) Begin(bytes, gives int64) *Job {
	j := &Job{meter: m, bytes: max(bytes, 1), gives: gives, begun: time.Now()}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.jobs = append(m.jobs, j)
	m.count.Store(int32(len(m.jobs)))
	return j
}

// Wrote says that n versions of so many are written.
func (j *Job) Wrote(n, of int64) {
	if j != nil && of > 0 {
		j.part.Store(int64(float64(n) / float64(of) * whole))
		j.grew.Store(int64(time.Since(j.begun)))
	}
}

// Idle says that no job is under way. It takes no lock.
func (m *Meter) Idle() bool { return m.count.Load() == 0 }

// Pause says that the job rests while one is under way that is nested in it.
func (j *Job) Pause() { j.rest(time.Now()) }

// Resume says that the job goes on.
func (j *Job) Resume() { j.rest(time.Time{}) }

func (j *Job) rest(since time.Time) {
	if j == nil {
		return
	}
	j.meter.mu.Lock()
	defer j.meter.mu.Unlock()
	if !j.rests.IsZero() {
		j.begun = j.begun.Add(time.Since(j.rests))
	}
	j.rests = since
}

// Rest returns how many bytes the job has still to read.
func (j *Job) Rest() int64 { return int64(float64(j.bytes) * float64(whole-j.part.Load()) / whole) }

// End says that the job has given back what it gives, or has failed. Of several calls the
// first counts.
func (j *Job) End(failed bool) {
	m := j.meter
	m.mu.Lock()
	defer m.mu.Unlock()
	at := slices.Index(m.jobs, j)
	if at < 0 {
		return
	}
	m.jobs = slices.Delete(m.jobs, at, at+1)
	m.count.Store(int32(len(m.jobs)))
	if failed || j.part.Load() < enoughFor {
		return
	}
	grew := j.grew.Load()
	write := float64(grew) / float64(j.bytes) * whole / float64(j.part.Load())
	finish := float64(int64(time.Since(j.begun)) - grew)
	if !m.learnt {
		m.learnt, m.write, m.finish = true, write, finish
	}
	m.write += (write - m.write) / smooth
	m.finish += (finish - m.finish) / smooth
}

// costs returns what jobs take, as far as it is known.
func (m *Meter) costs() (write, finish float64) {
	if !m.learnt {
		return firstWrite, firstFinish
	}
	return m.write, m.finish
}

// left estimates how many nanoseconds the job still takes.
func (j *Job) left(now time.Time, write, finish float64) float64 {
	part, grew := j.part.Load(), j.grew.Load()
	if !j.rests.IsZero() {
		now = j.rests
	}
	quiet := float64(int64(now.Sub(j.begun)) - grew)
	// What it has done so far counts the more the more that is. A job that is slower than those
	// before it shows that early.
	shown := float64(grew) * float64(whole-part) / float64(max(part, enoughFor))
	if part < enoughFor {
		shown = max(shown, write*float64(j.bytes)*float64(whole-part)/whole)
	}
	return max(shown+finish-quiet, quiet)
}

// Pace returns how many nanoseconds each byte, or run, that writers make now must take, if
// those that are free are to last until the jobs under way end, and waiting bytes wait for
// flushes that have not begun. 0: any pace is right.
func (m *Meter) Pace(free, waiting int64) float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	type end struct {
		left  float64
		gives int64
	}
	ends := make([]end, 0, 4)
	now := time.Now()
	write, finish := m.costs()
	for _, j := range m.jobs {
		if !j.rests.IsZero() {
			continue
		}
		ends = append(ends, end{j.left(now, write, finish), j.gives})
		waiting -= j.gives
	}
	slices.SortFunc(ends, func(a, b end) int { return cmp.Compare(a.left, b.left) })
	last, ahead, pace := 0.0, float64(max(free, 1)), 0.0
	for _, e := range ends {
		last = e.left
		pace = max(pace, last/ahead)
		ahead += float64(e.gives)
	}
	if waiting > 0 {
		pace = max(pace, (last+write*float64(waiting)+finish)/ahead)
	}
	return pace
}

// recent is how long a pace counts that Recent has returned.
const recent = time.Millisecond

// Recent returns what pace returns, which takes a lock, and calls it at most once in a
// millisecond. now is a time in nanoseconds since any start.
func (m *Meter) Recent(now int64, pace func() float64) float64 {
	asked := m.asked.Load()
	if (asked == 0 || now-asked >= int64(recent)) && m.asked.CompareAndSwap(asked, now) {
		m.pace.Store(math.Float64bits(pace()))
	}
	return math.Float64frombits(m.pace.Load())
}
