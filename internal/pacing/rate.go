package pacing

import (
	"math"
	"sync/atomic"
	"time"
)

// Rate keeps the work of several goroutines together to a number of bytes a second. A nil Rate
// has no limit. It is safe for concurrent use.
type Rate struct {
	perSecond float64
	within    *Rate     // nil: no other
	begun     time.Time // the following time is in nanoseconds since then
	paid      atomic.Int64
}

// mostTaken bounds for how long one goroutine takes the rate for itself.
const mostTaken = 100 * time.Millisecond

// NewRate makes a Rate of so many bytes a second, whose work counts in another one too, unless
// that is nil. 0: the other one.
func NewRate(perSecond int64, within *Rate) *Rate {
	if perSecond == 0 {
		return within
	}
	return &Rate{perSecond: float64(perSecond), within: within, begun: time.Now()}
}

// PerSecond returns the bytes a second that the rate allows, +Inf without a limit.
func (r *Rate) PerSecond() float64 {
	least := math.Inf(1)
	for q := r; q != nil; q = q.within {
		least = min(least, q.perSecond)
	}
	return least
}

// Take says that bytes are written, and returns how many of them have their time then: what a
// tenth of a second allows at most, so that others have a turn. What others took before comes first.
func (r *Rate) Take(bytes float64) (taken float64, until time.Time) {
	for q := r; q != nil; q = q.within {
		bytes = min(bytes, q.perSecond*mostTaken.Seconds())
	}
	for q := r; q != nil; q = q.within {
		if t := q.pay(bytes); t.After(until) {
			until = t
		}
	}
	return bytes, until
}

// pay returns until when the bytes have their time, behind those before them.
func (r *Rate) pay(bytes float64) time.Time {
	now := int64(time.Since(r.begun))
	cost := int64(bytes / r.perSecond * float64(time.Second))
	for {
		paid := r.paid.Load()
		until := max(paid, now) + cost
		if r.paid.CompareAndSwap(paid, until) {
			return r.begun.Add(time.Duration(until))
		}
	}
}
