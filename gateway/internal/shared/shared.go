// Package shared is the throughput of a database: one meter for all of its containers that have
// no throughput of their own. So it is divided by what they ask for: one alone gets all of it. A
// request is admitted before it is carried out, and charged when it has been answered.
package shared

import (
	"time"

	"github.com/cleavestore/cleave/internal/meter"
)

// Clock gives the time of pools.
type Clock struct {
	now   func() time.Time
	begun time.Time
}

// NewClock returns a clock that begins now.
func NewClock(now func() time.Time) Clock { return Clock{now, now()} }

func (c Clock) uptime() time.Duration { return c.now().Sub(c.begun) }

// Pool is the throughput of a database. The nil Pool admits everything. It is safe for
// concurrent use.
type Pool struct {
	clock Clock
	meter *meter.Meter
}

// New returns a pool of so many RU/s, which goes on with what was consumed of the one before;
// nil: there was none.
func New(c Clock, perSecond float64, before *Pool) *Pool {
	if before != nil {
		return &Pool{c, before.meter.At(perSecond, true, c.uptime())}
	}
	return &Pool{c, meter.New(perSecond, true, c.uptime(), perSecond/10)}
}

// Admit returns 0 if a request is admitted, or else how long until the next one is.
func (p *Pool) Admit() time.Duration {
	if p == nil {
		return 0
	}
	return p.meter.Wait(p.clock.uptime())
}

// Charge charges a request that was admitted, in RU.
func (p *Pool) Charge(units float64) {
	if p != nil {
		p.meter.Charge(p.clock.uptime(), units)
	}
}
