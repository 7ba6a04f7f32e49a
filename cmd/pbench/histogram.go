package main

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Latencies are kept from a nanosecond to a minute with three digits. What
// takes longer than a minute counts as a minute.
const longestLatency = time.Minute

// tally counts operations of one kind on one goroutine.
type tally struct {
	latencies *hdrhistogram.Histogram // of successes; nil before the first
	busy      time.Duration           // their sum
	errors    int64
	bytes     int64 // of documents read or written
}

func (t *tally) record(d time.Duration) {
	t.busy += d
	if t.latencies == nil {
		t.latencies = hdrhistogram.New(1, int64(longestLatency), 3)
	}
	// The only error is a value out of range, which min and max rule out.
	_ = t.latencies.RecordValue(int64(min(max(d, 1), longestLatency)))
}

// add adds what another tally counted.
func (t *tally) add(other *tally) {
	t.busy += other.busy
	t.errors += other.errors
	t.bytes += other.bytes
	if other.latencies == nil {
		return
	}
	if t.latencies == nil {
		t.latencies = hdrhistogram.New(1, int64(longestLatency), 3)
	}
	t.latencies.Merge(other.latencies)
}

// reset forgets what was counted.
func (t *tally) reset() {
	if t.latencies != nil {
		t.latencies.Reset()
	}
	t.busy, t.errors, t.bytes = 0, 0, 0
}

// successes is the number of operations without error.
func (t *tally) successes() int64 {
	if t.latencies == nil {
		return 0
	}
	return t.latencies.TotalCount()
}

// micros returns a percentile in microseconds, 0 if there is none.
func (t *tally) micros(percentile float64) float64 {
	if t.latencies == nil {
		return 0
	}
	return float64(t.latencies.ValueAtPercentile(percentile)) / 1e3
}
