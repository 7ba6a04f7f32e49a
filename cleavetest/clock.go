package cleavetest

import (
	"sync"
	"time"
)

// clock is the clock of a store, beside one that does not jump.
type clock struct {
	mu     sync.Mutex
	begun  time.Time     // by the system's clock
	ahead  time.Duration // of the system's clock
	turned time.Duration // by Advance: by how much the clock that does not jump is ahead
	stands bool
	at     time.Time // where it stands
}

func (c *clock) start() { c.begun = time.Now() }

func (c *clock) stop(at time.Time) { c.stands, c.at = true, at.Round(0) }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stands {
		return c.at
	}
	return time.Now().Add(c.ahead)
}

func (c *clock) elapsed() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stands {
		return c.turned
	}
	return time.Since(c.begun) + c.turned
}

// Now returns the time by the clock of the store.
func (s *Store) Now() time.Time { return s.clock.now() }

// Advance has time pass: the clock goes forward by d, which is not negative.
func (s *Store) Advance(d time.Duration) {
	s.t.Helper()
	if d < 0 {
		s.t.Fatalf("cleavetest: Advance(%v): time does not go back; SetClock sets the clock back", d)
	}
	c := &s.clock
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turned += d
	c.ahead += d
	c.at = c.at.Add(d)
}

// SetClock sets the clock, as an operator does who finds it wrong: it jumps, forward or
// back, and no time passes.
func (s *Store) SetClock(now time.Time) {
	c := &s.clock
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at, c.ahead = now.Round(0), time.Until(now)
}
