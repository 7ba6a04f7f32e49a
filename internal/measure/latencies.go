package measure

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// longestLatency is what anything that takes longer counts as.
const longestLatency = time.Minute

// Latencies is a histogram of durations from a nanosecond to a minute, with
// three digits. The zero value holds none. It is for one goroutine.
type Latencies struct {
	h      *hdrhistogram.Histogram // nil before the first
	coarse bool                    // two digits will do
}

// Record adds a duration.
func (l *Latencies) Record(d time.Duration) {
	// The only error is a value out of range, which min and max rule out.
	_ = l.histogram().RecordValue(int64(min(max(d, 1), longestLatency)))
}

func (l *Latencies) histogram() *hdrhistogram.Histogram {
	if l.h == nil {
		digits := 3
		if l.coarse {
			digits = 2
		}
		l.h = hdrhistogram.New(1, int64(longestLatency), digits)
	}
	return l.h
}

// prepare takes the memory, so that no Record is late for it.
func (l *Latencies) prepare() { l.histogram().Reset() }

// Add adds what another histogram holds.
func (l *Latencies) Add(other *Latencies) {
	if other.Count() > 0 {
		l.coarse = other.coarse
		l.histogram().Merge(other.h)
	}
}

// Reset forgets everything; the memory is kept.
func (l *Latencies) Reset() {
	if l.Count() > 0 {
		l.h.Reset()
	}
}

// Count is the number of durations.
func (l *Latencies) Count() int64 {
	if l.h == nil {
		return 0
	}
	return l.h.TotalCount()
}

// Micros returns a percentile in microseconds, 0 if there are no durations.
func (l *Latencies) Micros(percentile float64) float64 {
	if l.Count() == 0 {
		return 0
	}
	return float64(l.h.ValueAtPercentile(percentile)) / 1e3
}

// Histogram returns the durations in nanoseconds, nil if there never were any.
// It is the memory of l.
func (l *Latencies) Histogram() *hdrhistogram.Histogram { return l.h }

// Memory is what the histogram takes, in bytes.
func (l *Latencies) Memory() int64 {
	if l.h == nil {
		return 0
	}
	return int64(l.h.ByteSize())
}
