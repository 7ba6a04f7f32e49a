package metrics

import (
	"math"
	"math/bits"
	"time"
)

// Histogram counts durations. Its counts only grow while a store is open.
type Histogram struct {
	Count   uint64        // of the durations; the sum of the buckets
	Sum     time.Duration // of the durations
	Max     time.Duration // the longest one since the store was opened
	Buckets []Bucket      // that count anything, in order
}

// Bucket counts the durations above the bucket before it, up to UpTo. A bucket is at most
// an eighth of its durations wide.
type Bucket struct {
	UpTo  time.Duration
	Count uint64
}

// Quantile returns a duration that a part q of the durations does not exceed, for instance
// half of them for 0.5. It is at most an eighth too long, and never longer than Max. It is
// 0 if nothing was counted.
func (h *Histogram) Quantile(q float64) time.Duration {
	rank := uint64(math.Ceil(max(0, min(1, q)) * float64(h.Count)))
	var below uint64
	for _, b := range h.Buckets {
		if below += b.Count; below >= max(rank, 1) {
			return min(b.UpTo, h.Max)
		}
	}
	return h.Max
}

// Mean returns the mean duration, 0 if nothing was counted.
func (h *Histogram) Mean() time.Duration {
	if h.Count == 0 {
		return 0
	}
	return h.Sum / time.Duration(h.Count)
}

// Cumulative returns, for each bound, how many durations do not exceed it. The bounds
// rise. The counts are exact for bounds out of Bounds; for others, durations count that
// are up to an eighth longer.
func (h *Histogram) Cumulative(bounds []time.Duration) []uint64 {
	counts := make([]uint64, len(bounds))
	var below uint64
	next := 0
	for i, bound := range bounds {
		for next < len(h.Buckets) && h.Buckets[next].above() < bound {
			below += h.Buckets[next].Count
			next++
		}
		counts[i] = below
	}
	return counts
}

// above returns the duration above which the bucket counts.
func (b Bucket) above() time.Duration {
	if b.UpTo <= 8 {
		return b.UpTo - 1
	}
	return b.UpTo - 1<<(bits.Len64(uint64(b.UpTo-1))-4)
}

// Bounds returns the bounds that exporters use, in seconds from half a microsecond to 26
// seconds: powers of two in nanoseconds, and one and a half times each.
func Bounds() []time.Duration {
	var bounds []time.Duration
	for power := 9; power <= 34; power++ {
		bounds = append(bounds, 1<<power, 3<<(power-1))
	}
	return bounds
}
