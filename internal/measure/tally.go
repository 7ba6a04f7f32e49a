package measure

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// longestLatency is what anything that takes longer counts as.
const longestLatency = time.Minute

// Tally counts operations of one kind. The zero value has counted none. It is
// for one goroutine.
type Tally struct {
	Busy   time.Duration // the sum of the latencies
	Errors int64         // operations that failed; they have no latency
	Bytes  int64         // of documents read or written

	latencies *hdrhistogram.Histogram // of successes; nil before the first
}

// Record counts an operation that succeeded.
func (t *Tally) Record(d time.Duration) {
	t.Busy += d
	if t.latencies == nil {
		t.latencies = hdrhistogram.New(1, int64(longestLatency), 3)
	}
	// The only error is a value out of range, which min and max rule out.
	_ = t.latencies.RecordValue(int64(min(max(d, 1), longestLatency)))
}

// Add adds what another tally counted.
func (t *Tally) Add(other *Tally) {
	t.Busy += other.Busy
	t.Errors += other.Errors
	t.Bytes += other.Bytes
	if other.latencies == nil {
		return
	}
	if t.latencies == nil {
		t.latencies = hdrhistogram.New(1, int64(longestLatency), 3)
	}
	t.latencies.Merge(other.latencies)
}

// Reset forgets what was counted.
func (t *Tally) Reset() {
	if t.latencies != nil {
		t.latencies.Reset()
	}
	t.Busy, t.Errors, t.Bytes = 0, 0, 0
}

// Successes is the number of operations without error.
func (t *Tally) Successes() int64 {
	if t.latencies == nil {
		return 0
	}
	return t.latencies.TotalCount()
}

// Micros returns a percentile of the latencies in microseconds, 0 if there are
// none.
func (t *Tally) Micros(percentile float64) float64 {
	if t.latencies == nil {
		return 0
	}
	return float64(t.latencies.ValueAtPercentile(percentile)) / 1e3
}

// Memory is what the tally takes, in bytes.
func (t *Tally) Memory() int64 {
	if t.latencies == nil {
		return 0
	}
	return int64(t.latencies.ByteSize())
}
