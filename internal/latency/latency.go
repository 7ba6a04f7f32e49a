// Package latency counts how long calls took, in histograms of fixed size.
//
// Buckets are log-linear: eight in each power of two, so a bucket is at most an eighth
// wider than it is long. They reach from a nanosecond to 73 minutes; what takes longer is
// counted in the last one.
//
// Invariants:
//
//  1. Record takes no lock, allocates nothing and never waits.
//  2. No count ever falls. The count of a Snapshot is the sum of its buckets.
//  3. A bucket counts the durations above the edge before it, up to its own edge, which is
//     included. Each bound of metrics.Bounds is an edge.
package latency

import (
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/cleavestore/cleave/metrics"
)

const (
	perOctave = 8
	octaves   = 39 // above the linear part, which is the first eight nanoseconds
	buckets   = perOctave * (octaves + 1)
)

// Recorder counts durations. The zero Recorder is empty. It is safe for concurrent use.
type Recorder struct {
	counts [buckets]atomic.Uint64
	sum    atomic.Int64 // nanoseconds
	most   atomic.Int64 // nanoseconds
}

// Record counts a duration that stands for so many calls.
func (r *Recorder) Record(d time.Duration, calls uint64) {
	d = max(d, 0)
	r.counts[bucketOf(d)].Add(calls)
	r.sum.Add(int64(d) * int64(calls))
	for most := r.most.Load(); int64(d) > most && !r.most.CompareAndSwap(most, int64(d)); {
		most = r.most.Load()
	}
}

// Snapshot returns what was counted until now.
func (r *Recorder) Snapshot() metrics.Histogram {
	h := metrics.Histogram{Sum: time.Duration(r.sum.Load()), Max: time.Duration(r.most.Load())}
	for i := range r.counts {
		if n := r.counts[i].Load(); n > 0 {
			h.Count += n
			h.Buckets = append(h.Buckets, metrics.Bucket{UpTo: edge(i), Count: n})
		}
	}
	return h
}

// bucketOf returns the bucket of a duration, which is not negative.
func bucketOf(d time.Duration) int {
	n := uint64(max(d, 1) - 1)
	if n < perOctave {
		return int(n)
	}
	shift := bits.Len64(n) - 4 // n >> shift is between 8 and 15
	return min(shift*perOctave+int(n>>shift), buckets-1)
}

// edge returns the longest duration that a bucket counts.
func edge(bucket int) time.Duration {
	if bucket < perOctave {
		return time.Duration(bucket + 1)
	}
	shift := bucket/perOctave - 1
	return time.Duration(bucket%perOctave+perOctave+1) << shift
}
