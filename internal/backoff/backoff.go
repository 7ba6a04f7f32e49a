// Package backoff says when to retry background work that has failed.
package backoff

import (
	"sync/atomic"
	"time"
)

const (
	first = 100 * time.Millisecond
	last  = 10 * time.Second
)

// Retry says when to retry one kind of work: 100 ms after it first failed, after twice as
// long each further time, after 10 s at most. The zero Retry lets it begin at once. One
// goroutine at a time calls Failed and Succeeded; any may call Left.
type Retry struct {
	wait time.Duration
	next atomic.Int64 // nanoseconds since the Unix epoch; 0: at once
}

// Failed notes that the work failed just now.
func (r *Retry) Failed() {
	r.wait = min(max(2*r.wait, first), last)
	r.next.Store(time.Now().Add(r.wait).UnixNano())
}

// Succeeded notes that the work succeeded: it may be done again at once.
func (r *Retry) Succeeded() {
	r.wait = 0
	r.next.Store(0)
}

// Left returns how long to wait before the work is tried again; at most 0: it may be tried
// now, also when the clock has been set back meanwhile.
func (r *Retry) Left() time.Duration {
	next := r.next.Load()
	if next == 0 {
		return 0
	}
	left := time.Until(time.Unix(0, next))
	if left > last {
		return 0
	}
	return left
}
