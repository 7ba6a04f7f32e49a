package measure

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/cleavestore/cleave/internal/alarm"
)

// Clock says how an open loop waits for the moments at which operations are
// due. It is for one loop at a time.
type Clock struct {
	spins     bool
	spinBelow time.Duration // a shorter wait is spent looking at the time
	lag       time.Duration // how late it wakes; half of the times it is later
	newAlarm  func() alarm.Alarm
}

// cheapSpin is a wait that costs less than to sleep and to be woken.
const cheapSpin = 5 * time.Microsecond

// NewClock returns a clock that sleeps, or one that spins, which is later by
// far less and takes a core.
func NewClock(spin bool) *Clock {
	if spin {
		return &Clock{spins: true, spinBelow: cheapSpin, newAlarm: newSpinner}
	}
	return &Clock{spinBelow: cheapSpin, newAlarm: alarm.New}
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
	defer w.Close()
	for {
		t, ok := s.take(w)
		if !ok {
			break
		}
		lags.Record(t.lag)
	}
	c.lag = time.Duration(lags.Micros(50) * 1e3)
}

// spinner wakes before its time and looks at the time until it is over.
type spinner struct {
	alarm.Alarm
	at atomic.Int64 // since spinnerStart
}

// wakesBefore is more than a timer is late by.
const wakesBefore = 1500 * time.Microsecond

var spinnerStart = time.Now()

func newSpinner() alarm.Alarm { return &spinner{Alarm: alarm.NewTimer()} }

func (s *spinner) Set(d time.Duration) {
	s.at.Store(int64(time.Since(spinnerStart) + d))
	s.Alarm.Set(d - wakesBefore)
}

func (s *spinner) Wait() {
	s.Alarm.Wait()
	for int64(time.Since(spinnerStart)) < s.at.Load() {
	}
}
