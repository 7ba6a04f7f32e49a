package gateway

import (
	"net/http"
	"time"

	"github.com/cleavestore/cleave/internal/meter"
)

// The throughput of a database is one meter for all of its containers that have no throughput of
// their own. So it is divided by what they ask for: one alone gets all of it. A request is
// admitted before it is carried out, and charged when it has been answered.

// meterOf returns the meter of the throughput of a database; nil: it has none, or none is
// enforced. It goes on with what was consumed by one of another rate.
func (c *catalog) meterOf(r *databaseRecord, of *meter.Meter) *meter.Meter {
	if r.Offer == nil || !c.throttle {
		return nil
	}
	rate, now := float64(r.Offer.Throughput), c.uptime()
	if of != nil {
		return of.At(rate, true, now)
	}
	return meter.New(rate, true, now, rate/10)
}

// uptime is the time of meters.
func (c *catalog) uptime() time.Duration { return c.clock().Sub(c.opened) }

// admit returns the refusal of a request on items of a container that shares the throughput of
// its database, if that is consumed.
func (c *call) admit(k *container) *failure {
	m := k.db.shared
	if m == nil || k.record.Offer != nil {
		return nil
	}
	if wait := m.Admit(c.catalog.uptime()); wait > 0 {
		bad := failf(http.StatusTooManyRequests, "request rate is too large: the containers of database %q share %v RU/s; retry after %v", k.db.record.Name, m.Rate(), wait).withSub(subRequestRateLimit)
		bad.retry = wait
		return bad
	}
	c.meter = m
	return nil
}

// settle charges the throughput that the request was admitted to.
func (c *call) settle() {
	if c.meter != nil {
		c.meter.Charge(c.catalog.uptime(), c.charge)
	}
}
