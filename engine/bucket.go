package engine

import (
	"sync/atomic"
	"time"
)

const (
	evenOut   = 100 * time.Millisecond // of a rate that may be unused and spent at once
	burstSpan = 300 * time.Second      // of a rate that is kept for bursts
	burstRate = 3000                   // RU/s: of bursts, and from which on there are none
)

// meter is the token bucket of a physical partition, and what it consumed. An
// operation is admitted while the bucket is positive and charged when its work
// is done, so the bucket may sink below 0; what is owed is waited for. With
// bursts the bucket holds what 300 s give, and what leaves it is held to 3,000
// RU/s. A bucket begins empty. Its methods are safe for concurrent use and take
// no lock; now is the store's uptime.
type meter struct {
	rate     float64 // RU/s
	bank     flow
	burst    flow         // rate 0: no bursts
	consumed atomic.Int64 // thousandths of RU
	refused  atomic.Int64 // operations
}

// newMeter returns a meter with a balance in RU, below 0 if it owes.
func newMeter(rate float64, bursts bool, now time.Duration, balance float64) *meter {
	m := &meter{rate: rate, bank: flow{rate: rate, depth: evenOut}}
	if bursts && rate < burstRate {
		m.bank.depth = burstSpan
		m.burst = flow{rate: burstRate, depth: evenOut}
		m.burst.zero.Store(int64(now))
	}
	m.bank.zero.Store(int64(now) - m.bank.span(balance))
	return m
}

// wait returns how long until the next operation is admitted, 0 if it is.
func (m *meter) wait(now time.Duration) time.Duration {
	wait := m.bank.wait(now)
	if m.burst.rate > 0 {
		wait = max(wait, m.burst.wait(now))
	}
	return wait
}

// charge takes what an operation cost out of the bucket.
func (m *meter) charge(now time.Duration, ru float64) {
	m.consumed.Add(int64(ru*1000 + 0.5))
	m.bank.charge(now, ru)
	if m.burst.rate > 0 {
		m.burst.charge(now, ru)
	}
}

// flow is a rate with some credit. All that it keeps is the moment at which the
// credit is, or was, 0: it grows with time, and a charge moves the moment on.
type flow struct {
	rate  float64       // RU/s
	depth time.Duration // of the credit
	zero  atomic.Int64  // nanoseconds
}

// span returns the time that gives so much, in nanoseconds.
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

// balance returns the credit in RU, below 0 what is owed.
func (f *flow) balance(now time.Duration) float64 {
	return min(now-time.Duration(f.zero.Load()), f.depth).Seconds() * f.rate
}
