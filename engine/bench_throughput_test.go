package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// throttled is a store on disk whose partitions have 1,000 RU/s each, with a
// document of 1 KB or less for each key.
type throttled struct {
	b    *testing.B
	c    *Container
	keys [][]PartitionKey // by partition
}

func newThrottled(b *testing.B, partitions int, noBurst bool) *throttled {
	b.Helper()
	ctx := context.Background()
	db, err := Open(ctx, b.TempDir(), &Options{Durability: Buffered})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	c, err := db.CreateContainer(ctx, "throttled", ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: partitions, NoBurst: noBurst})
	if err != nil {
		b.Fatal(err)
	}
	s := &throttled{b: b, c: c, keys: make([][]PartitionKey, partitions)}
	for i := range 1000 {
		key := fmt.Sprint("k", i)
		if _, err := c.Upsert(ctx, documentOf("a", key, 1<<10), nil); err != nil {
			b.Fatal(err)
		}
		epk := StringKey(key).EPK()
		place := c.routing.Load().table.Find(&epk)
		s.keys[place] = append(s.keys[place], StringKey(key))
	}
	if err := c.SetThroughput(ctx, float64(1000*partitions)); err != nil {
		b.Fatal(err)
	}
	return s
}

// calls are what became of operations.
type calls struct {
	units, refused atomic.Int64
	mu             sync.Mutex
	latencies      []time.Duration // of those admitted
}

func (c *calls) p99() time.Duration {
	slices.Sort(c.latencies)
	return c.latencies[len(c.latencies)*99/100]
}

// read reads keys in turn for a while: each as soon as the one before is done,
// or one every so often. Where it is throttled it waits as long as it is told.
func (s *throttled) read(span, every time.Duration, keys []PartitionKey, to *calls) {
	ctx := context.Background()
	start := time.Now()
	var took []time.Duration
	for i := 0; time.Since(start) < span; i++ {
		if every > 0 {
			time.Sleep(time.Until(start.Add(time.Duration(i) * every)))
		}
		begun := time.Now()
		it, err := s.c.Read(ctx, keys[i%len(keys)], "a")
		var wait *ThrottledError
		switch {
		case err == nil:
			to.units.Add(int64(it.Charge))
			took = append(took, time.Since(begun))
		case errors.As(err, &wait):
			to.refused.Add(1)
			time.Sleep(wait.RetryAfter)
		default:
			s.b.Error(err)
			return
		}
	}
	to.mu.Lock()
	to.latencies = append(to.latencies, took...)
	to.mu.Unlock()
}

// BenchmarkThrottle holds partitions to 1,000 RU/s, against the clock: with
// readers that want far more, with bursts after 20 s of rest, and with one hot
// key beside others.
func BenchmarkThrottle(b *testing.B) {
	const readers = 4
	hammer := func(s *throttled, span time.Duration, keys []PartitionKey) *calls {
		to := new(calls)
		var all sync.WaitGroup
		for range readers {
			all.Go(func() { s.read(span, 0, keys, to) })
		}
		all.Wait()
		return to
	}
	rate := func(c *calls, span time.Duration) float64 { return float64(c.units.Load()) / span.Seconds() }
	b.Run("no-burst", func(b *testing.B) {
		s := newThrottled(b, 1, true)
		for b.Loop() {
			const span = 20 * time.Second
			b.ReportMetric(rate(hammer(s, span, s.keys[0]), span), "RU/s")
		}
	})
	b.Run("burst", func(b *testing.B) {
		s := newThrottled(b, 1, false)
		for b.Loop() {
			const rest, span = 20 * time.Second, 9 * time.Second // the burst lasts 10 s
			time.Sleep(rest)
			b.ReportMetric(rate(hammer(s, span, s.keys[0]), span), "burst-RU/s")
			hammer(s, 2*time.Second, s.keys[0])
			b.ReportMetric(rate(hammer(s, span, s.keys[0]), span), "then-RU/s")
		}
	})
	b.Run("hot-key", func(b *testing.B) {
		s := newThrottled(b, 4, true)
		for b.Loop() {
			const span = 20 * time.Second
			var all sync.WaitGroup
			others := new(calls)
			for _, keys := range s.keys[1:] {
				all.Go(func() { s.read(span, 2*time.Millisecond, keys, others) })
			}
			hot := hammer(s, span, s.keys[0][:1])
			all.Wait()
			b.ReportMetric(rate(hot, span), "hot-RU/s")
			b.ReportMetric(float64(hot.refused.Load()), "hot-refused")
			b.ReportMetric(rate(others, span)/3, "other-RU/s")
			b.ReportMetric(float64(others.refused.Load()), "other-refused")
			b.ReportMetric(float64(others.p99().Microseconds()), "other-p99-µs")
			if top := s.c.Hot(1); len(top) == 0 || top[0].Key != s.keys[0][0] {
				b.Errorf("Hot: %+v", top)
			}
		}
	})
}

// BenchmarkHeat is what each operation does for Hot.
func BenchmarkHeat(b *testing.B) {
	s := newThrottled(b, 1, true)
	p := s.c.routing.Load().parts[0]
	keys := make([][]byte, len(s.keys[0]))
	for i, key := range s.keys[0] {
		keys[i] = key.Encoded()
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if i++; s.c.db.sampled() {
			p.Sample(keys[i%len(keys)], 1)
		}
	}
}
