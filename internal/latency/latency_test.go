package latency

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cleavestore/cleave/metrics"
)

// TestBuckets: every duration lies in the bucket that ends at or behind it, above the edge
// before, and no bucket is wider than an eighth of what it counts.
func TestBuckets(t *testing.T) {
	for i := 1; i < buckets; i++ {
		if edge(i) <= edge(i-1) {
			t.Fatalf("edge %d is %d, the one before %d", i, edge(i), edge(i-1))
		}
		if width := edge(i) - edge(i-1); i >= perOctave && width*perOctave > edge(i-1) {
			t.Errorf("bucket %d: %d wide from %d on", i, width, edge(i-1))
		}
		if bucketOf(edge(i)) != i || bucketOf(edge(i-1)+1) != i {
			t.Errorf("bucket %d does not have its edges", i)
		}
	}
	if last := edge(buckets - 1); last < time.Hour || bucketOf(1<<62) != buckets-1 || bucketOf(0) != 0 {
		t.Errorf("the last edge is %v", last)
	}
	for _, bound := range metrics.Bounds() {
		if edge(bucketOf(bound)) != bound {
			t.Errorf("bound %d is no edge", bound)
		}
	}
}

// TestQuantiles compares with the sorted durations.
func TestQuantiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var r Recorder
	var all []time.Duration
	var sum time.Duration
	for range 10_000 {
		d := time.Duration(rng.ExpFloat64() * float64(time.Millisecond))
		all, sum = append(all, d), sum+d
		r.Record(d, 1)
	}
	slices.Sort(all)
	h := r.Snapshot()
	if h.Count != 10_000 || h.Sum != sum || h.Max != all[len(all)-1] || h.Mean() != sum/10_000 {
		t.Errorf("count %d, sum %v, max %v", h.Count, h.Sum, h.Max)
	}
	for _, q := range []float64{0, 0.5, 0.9, 0.99, 0.999, 1} {
		want := all[max(0, int(q*10_000+0.5)-1)]
		if got := h.Quantile(q); got < want || got > want+want/perOctave+1 {
			t.Errorf("quantile %v: %v, want %v", q, got, want)
		}
	}
	bounds := metrics.Bounds()
	for i, n := range h.Cumulative(bounds) {
		if want, _ := slices.BinarySearch(all, bounds[i]+1); n != uint64(want) {
			t.Errorf("up to %v: %d, want %d", bounds[i], n, want)
		}
	}
	var empty Recorder
	if h := empty.Snapshot(); h.Count != 0 || h.Quantile(0.5) != 0 || h.Mean() != 0 || h.Cumulative(bounds)[3] != 0 {
		t.Errorf("an empty one: %+v", h)
	}
}

// TestCalls: the calls that are timed stand for those that are not; with slow calls all
// are timed, and the slow ones counted.
func TestCalls(t *testing.T) {
	var c Calls
	c.Init(0)
	rng := rand.New(rand.NewPCG(3, 4))
	const n = 1 << 18
	for range n {
		if c.Timed(Read, rng.Uint32()) && c.Ended(Read, time.Hour) {
			t.Fatal("a call is slow where none can be")
		}
	}
	if h := c.Times(Read).Snapshot(); h.Count < n*95/100 || h.Count > n*105/100 || h.Count%32 != 0 {
		t.Errorf("%d of %d reads", h.Count, n)
	}
	for _, kind := range []Call{Write, Batch, Transaction} {
		if !c.Timed(kind, ^uint32(0)) {
			t.Errorf("%s is not timed", kind)
		}
	}
	var slow Calls
	slow.Init(time.Millisecond)
	for _, kind := range AllCalls {
		if !slow.Timed(kind, ^uint32(0)) || slow.Ended(kind, time.Millisecond) || !slow.Ended(kind, time.Millisecond+1) {
			t.Errorf("%s: slow calls", kind)
		}
		if slow.Slows(kind) != 1 || slow.Times(kind).Snapshot().Count != 2 {
			t.Errorf("%s: %d slow", kind, slow.Slows(kind))
		}
	}
}

// TestRecordAllocates nothing.
func TestRecordAllocates(t *testing.T) {
	var c Calls
	c.Init(0)
	if n := testing.AllocsPerRun(100, func() { c.Ended(Write, time.Microsecond) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkRecord counts durations from all processors.
func BenchmarkRecord(b *testing.B) {
	var r Recorder
	b.RunParallel(func(pb *testing.PB) {
		for d := time.Duration(0); pb.Next(); d++ {
			r.Record(d%4096, 1)
		}
	})
}
