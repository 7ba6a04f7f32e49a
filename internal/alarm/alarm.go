// Package alarm wakes a goroutine after a time that is too short for the timers of the Go
// runtime.
//
// The scheduler checks its timers when one of its processors (a P) chooses what to run next.
// An idle P sleeps in whole milliseconds. So on Linux an Alarm is a timerfd, which the
// scheduler treats like a network connection: no P is held while a goroutine waits for it, and
// an idle P is woken within some 20 µs. But a P with enough work does not poll connections,
// for up to 10 ms. So a runtime timer is set as well, and whichever of the two the scheduler
// sees first wakes the goroutine. On other systems an Alarm is the runtime timer alone.
package alarm

import "time"

// An Alarm wakes the goroutine that waits for it. One goroutine waits; another
// one may set it meanwhile, but only one at a time.
type Alarm interface {
	// Set has Wait return after d, whatever was set before.
	Set(d time.Duration)
	// Wait returns when what was set is over; without a Set it waits for one. It
	// may return once more for what was over before, so a caller that must not be early
	// looks at the time.
	Wait()
	// Close gives back what the alarm holds. Nobody may wait for it.
	Close() error
}

// NewTimer returns an alarm that is a timer of the Go runtime: it may be late by
// a millisecond.
func NewTimer() Alarm {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return timer{t}
}

type timer struct{ t *time.Timer }

func (t timer) Set(d time.Duration) { t.t.Reset(d) }
func (t timer) Wait()               { <-t.t.C }
func (t timer) Close() error        { t.t.Stop(); return nil }
