// Package meter limits the throughput of a physical partition, in request units (RU). It is
// the token bucket alone: the engine divides the throughput of a container over its
// partitions, refuses operations, and counts what they consumed.
package meter

import (
	"sync/atomic"
	"time"
)

const (
	evenOut   = 100 * time.Millisecond // as much unused rate may be spent at once
	burstSpan = 300 * time.Second      // as much unused rate is kept for bursts
	burstRate = 3000                   // RU/s: limit of a burst; a rate as high or higher has no bursts
)

// Meter is a token bucket. An operation is admitted while the balance is positive, and
// charged when its work is done. So the balance may fall below 0; then no operation is
// admitted until it is positive again. With bursts the bucket holds up to 300 s of the
// rate, but at most 3,000 RU/s leave it. The methods are safe for concurrent use and take
// no lock; now is the store's uptime.
type Meter struct {
	rate  float64 // RU/s
	bank  flow
	burst flow // limits bursts; rate 0: there are none
}

// New returns a meter with a balance in RU, usually 0; below 0 the partition owes them.
// rate is in RU/s.
func New(rate float64, bursts bool, now time.Duration, balance float64) *Meter {
	m := &Meter{rate: rate, bank: flow{rate: rate, depth: evenOut}}
	if bursts && rate < burstRate {
		m.bank.depth = burstSpan
		m.burst = flow{rate: burstRate, depth: evenOut}
		m.burst.zero.Store(int64(now))
	}
	m.bank.zero.Store(int64(now) - m.bank.span(balance))
	return m
}

// Wait returns how long until the next operation is admitted, 0 if one is now.
func (m *Meter) Wait(now time.Duration) time.Duration {
	wait := m.bank.wait(now)
	if m.burst.rate > 0 {
		wait = max(wait, m.burst.wait(now))
	}
	return wait
}

// Charge takes the cost of an operation from the bucket.
func (m *Meter) Charge(now time.Duration, ru float64) {
	m.bank.charge(now, ru)
	if m.burst.rate > 0 {
		m.burst.charge(now, ru)
	}
}

// Rate returns the rate in RU/s.
func (m *Meter) Rate() float64 { return m.rate }

// Balance returns the balance in RU; below 0 the partition owes them.
func (m *Meter) Balance(now time.Duration) float64 { return m.bank.balance(now) }

// At returns the meter with another rate, and with the balance of this one.
func (m *Meter) At(rate float64, bursts bool, now time.Duration) *Meter {
	return New(rate, bursts, now, m.Balance(now))
}

// Heirs divides the rates and balances of meters evenly among n others. It returns none if
// one of the meters is nil.
func Heirs(of []*Meter, n int, bursts bool, now time.Duration) (heirs []*Meter) {
	var rate, balance float64
	for _, m := range of {
		if m == nil {
			return nil
		}
		rate += m.rate
		balance += m.Balance(now)
	}
	for range n {
		heirs = append(heirs, New(rate/float64(n), bursts, now, balance/float64(n)))
	}
	return heirs
}

// flow is a rate with a limited credit. It keeps only the moment at which the credit is,
// or was, 0. The credit grows as time passes; a charge moves the moment forward.
type flow struct {
	rate  float64       // RU/s
	depth time.Duration // of rate: the most credit
	zero  atomic.Int64  // uptime at which the credit is 0, nanoseconds
}

// span returns the time, in nanoseconds, in which the rate gives so many RU.
func (f *flow) span(ru float64) int64 { return int64(ru / f.rate * float64(time.Second)) }

func (f *flow) wait(now time.Duration) time.Duration {
	return max(0, time.Duration(f.zero.Load())-now+1)
}

func (f *flow) charge(now time.Duration, ru float64) {
	for {
		zero := f.zero.Load()
		if f.zero.CompareAndSwap(zero, max(zero, int64(now-f.depth))+f.span(ru)) {
			return
		}
	}
}

// balance returns the credit in RU; below 0 it is a debt.
func (f *flow) balance(now time.Duration) float64 {
	return min(now-time.Duration(f.zero.Load()), f.depth).Seconds() * f.rate
}
