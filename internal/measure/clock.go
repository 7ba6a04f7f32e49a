package measure

import (
	"context"
	"sync/atomic"
	"time"
)

// Clock says how an open loop waits for the moments at which operations are
// due. It is for one loop at a time.
type Clock struct {
	spins     bool
	spinBelow time.Duration // a shorter wait is spent looking at the time
	lag       time.Duration // how late it wakes; half of the times it is later
	newAlarm  func() alarm
}

// alarm wakes the goroutine that waits for it. It may be set by another one; at
// most one goroutine does so at a time.
type alarm interface {
	set(d time.Duration) // in place of what was set before
	wait()               // until what was set is over
	close() error
}

// cheapSpin is a wait that costs less than to sleep and to be woken.
const cheapSpin = 5 * time.Microsecond

// NewClock returns a clock that sleeps, or one that spins, which is later by
// far less and takes a core.
func NewClock(spin bool) *Clock {
	if spin {
		return &Clock{spins: true, spinBelow: cheapSpin, newAlarm: newSpinner}
	}
	return &Clock{spinBelow: cheapSpin, newAlarm: newAlarm}
}

// Spins reports whether the clock takes a core.
func (c *Clock) Spins() bool { return c.spins }

// Lag is how late the clock wakes, as Calibrate found it.
func (c *Clock) Lag() time.Duration { return c.lag }

// calibrationRate is in operations a second.
const calibrationRate = 2000

// Calibrate measures for d, without a store, how late the clock wakes.
func (c *Clock) Calibrate(ctx context.Context, d time.Duration) {
	var lags Latencies
	c.lag = 0
	s := newSchedule(c, calibrationRate, int64(d.Seconds()*calibrationRate))
	defer context.AfterFunc(ctx, s.halt)()
	w := s.newWatch()
	defer w.close()
	for {
		t, ok := s.take(w)
		if !ok {
			break
		}
		lags.Record(t.lag)
	}
	c.lag = time.Duration(lags.Micros(50) * 1e3)
}

// timer is an alarm of the Go runtime, which may be late by a millisecond.
type timer struct{ t *time.Timer }

func newTimer() alarm {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return timer{t}
}

func (t timer) set(d time.Duration) { t.t.Reset(d) }
func (t timer) wait()               { <-t.t.C }
func (t timer) close() error        { t.t.Stop(); return nil }

// spinner wakes before its time and looks at the time until it is over.
type spinner struct {
	alarm
	at atomic.Int64 // since spinnerStart
}

// wakesBefore is more than a timer is late by.
const wakesBefore = 1500 * time.Microsecond

var spinnerStart = time.Now()

func newSpinner() alarm { return &spinner{alarm: newTimer()} }

func (s *spinner) set(d time.Duration) {
	s.at.Store(int64(time.Since(spinnerStart) + d))
	s.alarm.set(d - wakesBefore)
}

func (s *spinner) wait() {
	s.alarm.wait()
	for int64(time.Since(spinnerStart)) < s.at.Load() {
	}
}
