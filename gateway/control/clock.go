package control

import (
	"sync/atomic"
	"time"
)

// clock goes like the system's, ahead by what advance has added.
type clock struct {
	begun time.Time
	ahead atomic.Int64 // nanoseconds
}

// mostAhead bounds how far the clock can be ahead: times must fit into 64 bits of nanoseconds.
const mostAhead = 100 * 365 * 24 * time.Hour

func newClock() *clock { return &clock{begun: time.Now()} }

func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// elapsed is a clock that does not jump when the system's is set.
func (c *clock) elapsed() time.Duration {
	return time.Since(c.begun) + time.Duration(c.ahead.Load())
}

// advance has time pass. false: it would be too far ahead.
func (c *clock) advance(d time.Duration) bool {
	for {
		ahead := c.ahead.Load()
		if d < 0 || d > mostAhead || time.Duration(ahead)+d > mostAhead {
			return false
		}
		if c.ahead.CompareAndSwap(ahead, ahead+int64(d)) {
			return true
		}
	}
}
