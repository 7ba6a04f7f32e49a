package lsm

import (
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/manifest"
)

// Expiring summarizes the items of a run that expire.
type Expiring struct {
	count       int64
	first, last int64 // time stamps
}

// note counts a version.
func (e *Expiring) note(v *item.Version) {
	if v.Expires == 0 || v.Deleted() {
		return
	}
	if e.count == 0 {
		e.first, e.last = v.Expires, v.Expires
	}
	e.count++
	e.first, e.last = min(e.first, v.Expires), max(e.last, v.Expires)
}

// join adds a share of another run's summary.
func (e *Expiring) join(of Expiring, share float64) {
	n := int64(float64(of.count) * share)
	if n == 0 {
		return
	}
	if e.count == 0 {
		e.first, e.last = of.first, of.last
	}
	e.count += n
	e.first, e.last = min(e.first, of.first), max(e.last, of.last)
}

// Expired estimates how many of the items have expired at a time. It assumes that
// they expire evenly between first and last.
func (e *Expiring) Expired(at int64) int64 {
	switch {
	case e.count == 0 || at < e.first:
		return 0
	case at >= e.last:
		return e.count
	}
	return int64(float64(e.count) * float64(at-e.first) / float64(e.last-e.first))
}

func (e *Expiring) manifest() *manifest.Expiring {
	if e.count == 0 {
		return nil
	}
	return &manifest.Expiring{Items: e.count, First: e.first, Last: e.last}
}

func ExpiringFrom(m *manifest.Expiring) Expiring {
	if m == nil {
		return Expiring{}
	}
	return Expiring{count: m.Items, first: m.First, last: m.Last}
}
