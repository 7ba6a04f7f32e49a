// Package alarm wakes a goroutine after a time that is short beside what the
// timers of the Go runtime are exact to.
//
// A runtime timer is looked at when its processor (a P of the scheduler) chooses
// what to run next; one with nothing to run sleeps in whole milliseconds. On
// Linux an Alarm is therefore a timerfd, which the scheduler treats like a
// connection: no processor is held while it is waited for, and an idle one is
// woken within some 20 µs. But a processor with enough to run does not look at
// connections, for up to 10 ms. So a runtime timer is set beside it, and
// whichever the scheduler sees first wakes the goroutine. Elsewhere the runtime
// timer is all there is.
package alarm

import "time"

// An Alarm wakes the goroutine that waits for it. One goroutine waits; another
// one may set it meanwhile, but only one at a time.
type Alarm interface {
	// Set has Wait return after d, whatever was set before.
	Set(d time.Duration)
	// Wait returns when what was set is over; without a Set it waits for one. It
	// may return once more for what was over before, so whoever must not be early
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
