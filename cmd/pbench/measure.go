package main

import (
	"context"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavestore/cleave/internal/workload"
	"github.com/cleavestore/cleave/partmap"
)

// benchmark is a closed loop of operations: each worker begins the next one
// when the one before is done.
type benchmark struct {
	workload workload.Workload
	docs     documents
	c        container
	workers  int
	seed     uint64
	warmup   time.Duration
	duration time.Duration // 0: no limit
	limit    int64         // operations; 0: no limit
}

// outcome is what a benchmark measured.
type outcome struct {
	tallies     [workload.NumOps]tally
	elapsed     time.Duration
	interrupted bool
	firstErr    error
	inserted    int64         // documents up to which all exist, if there were inserts
	client      time.Duration // what pbench itself takes for an operation
	cpu         time.Duration // of the process
	allocations uint64
	collections uint32
	histograms  int64 // bytes of memory that the latencies take
}

// measured reports whether there are operations to tell of.
func (o *outcome) measured() bool {
	for op := range o.tallies {
		if t := &o.tallies[op]; t.successes()+t.errors > 0 {
			return true
		}
	}
	return false
}

// sampleEvery is how often memory and progress are looked at.
const sampleEvery = 200 * time.Millisecond

// whileWaiting calls fn and, until it returns, tick now and then.
func whileWaiting(fn func() error, tick func(now time.Time)) error {
	done := make(chan error, 1)
	go func() { done <- fn() }()
	ticker := time.NewTicker(sampleEvery)
	defer ticker.Stop()
	for {
		select {
		case err := <-done:
			tick(time.Now())
			return err
		case now := <-ticker.C:
			tick(now)
		}
	}
}

func (b *benchmark) newWorker(id int, c container, front *frontier) *worker {
	return &worker{
		id: id, c: c, docs: b.docs, front: front,
		keys:   b.workload.Keys.NewChooser(b.docs.count(), b.seed, uint64(id)),
		picker: b.workload.Mix.NewPicker(b.seed, uint64(id)),
	}
}

// run warms up and measures. before and after are called around what is
// measured. A cancelled ctx ends it early, with what was measured so far.
func (b *benchmark) run(ctx context.Context, env *environment, mem *memory, before, after func() error) (*outcome, error) {
	o := &outcome{client: b.clientCost()}
	front := newFrontier(b.docs.count())
	workers := make([]*worker, b.workers)
	for i := range workers {
		workers[i] = b.newWorker(i, b.c, front)
	}
	if b.warmup > 0 {
		o.interrupted = b.phase(ctx, env, mem, "warm up", workers, b.warmup, 0)
		for _, w := range workers {
			for op := range w.tallies {
				w.tallies[op].reset()
			}
			w.started.Store(0)
		}
	}
	if err := before(); err != nil {
		return nil, err
	}
	var m0, m1 runtime.MemStats
	runtime.ReadMemStats(&m0)
	cpu0, start := cpuTime(), time.Now()
	if !o.interrupted {
		o.interrupted = b.phase(ctx, env, mem, "run", workers, b.duration, b.limit)
	}
	o.elapsed, o.cpu = time.Since(start), cpuTime()-cpu0
	runtime.ReadMemStats(&m1)
	o.allocations, o.collections = m1.Mallocs-m0.Mallocs, m1.NumGC-m0.NumGC
	if err := after(); err != nil {
		return nil, err
	}
	for _, w := range workers {
		for op := range w.tallies {
			t := &w.tallies[op]
			o.tallies[op].add(t)
			if t.latencies != nil {
				o.histograms += int64(t.latencies.ByteSize())
			}
		}
		if o.firstErr == nil {
			o.firstErr = w.firstErr
		}
	}
	o.inserted = front.done.Load()
	return o, nil
}

// phase lets the workers work for a time or a number of operations, and
// reports whether it was interrupted. What is under way is finished.
func (b *benchmark) phase(ctx context.Context, env *environment, mem *memory, label string, workers []*worker, d time.Duration, limit int64) bool {
	var stop atomic.Bool
	start := time.Now()
	bar := newProgress(env, label, start)
	defer bar.end()
	calls := context.WithoutCancel(ctx)
	_ = whileWaiting(func() error {
		var wg sync.WaitGroup
		for i, w := range workers {
			share := limit / int64(len(workers))
			if int64(i) < limit%int64(len(workers)) {
				share++
			}
			if limit == 0 || share > 0 {
				wg.Go(func() { w.run(calls, &stop, share) })
			}
		}
		finished := make(chan struct{})
		go func() { wg.Wait(); close(finished) }()
		var timeUp <-chan time.Time
		if d > 0 {
			timer := time.NewTimer(d)
			defer timer.Stop()
			timeUp = timer.C
		}
		select {
		case <-finished:
		case <-timeUp:
		case <-ctx.Done():
		}
		stop.Store(true)
		<-finished
		return nil
	}, func(now time.Time) {
		mem.sample()
		started := int64(0)
		for _, w := range workers {
			started += w.started.Load()
		}
		elapsed := now.Sub(start)
		part := 0.0
		if d > 0 {
			part = float64(elapsed) / float64(d)
		}
		if limit > 0 {
			part = max(part, float64(started)/float64(limit))
		}
		bar.show(now, part, func() string {
			return formatCount(started) + " operations  " + formatCount(int64(float64(started)/elapsed.Seconds())) + "/s"
		})
	})
	return ctx.Err() != nil
}

// clientCost measures, on one goroutine and without a store, what pbench takes
// to choose, make, time and count an operation: the best of some rounds, as
// whatever else the machine does only adds to it.
func (b *benchmark) clientCost() time.Duration {
	w := b.newWorker(b.workers, nothing{}, newFrontier(b.docs.count()))
	never := new(atomic.Bool)
	best := time.Duration(math.MaxInt64)
	for range 20 {
		const n = 1000
		start := time.Now()
		w.run(context.Background(), never, n)
		best = min(best, time.Since(start)/n)
	}
	return best
}

// nothing is a container that does nothing and contains what it is asked for.
type nothing struct{ container }

func (nothing) Upsert(context.Context, []byte) error { return nil }

func (nothing) Read(_ context.Context, _ partmap.Key, id string, buf []byte) ([]byte, error) {
	return append(append(append(buf, `{"id":"`...), id...), `"}`...), nil
}

func (nothing) Scan(context.Context, partmap.Key, string, int) (items, bytes int64, err error) {
	return 1, 0, nil
}
