package measure

import (
	"context"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavestore/cleave/internal/workload"
)

// Loop is a closed loop of operations: each worker begins the next one when
// the one before is done.
type Loop struct {
	Workload  workload.Workload
	Documents Documents
	Store     Store
	Workers   int
	Seed      uint64
	Warmup    time.Duration // 0: none
	Duration  time.Duration // 0: no limit
	Limit     int64         // operations; 0: no limit
	// Memory, if not nil, is sampled all the while.
	Memory *Memory
	// Before and After, if not nil, are called around what is measured, warm-up
	// excluded.
	Before, After func() error
	// Watch, if not nil, is called now and then, and at the end of each phase.
	Watch func(Progress)
}

// Progress tells how far a Loop is.
type Progress struct {
	WarmUp     bool // else what is measured
	Done       bool // the phase is over
	Now        time.Time
	Elapsed    time.Duration // since the phase began
	Part       float64       // of the phase, 0 to 1
	Operations int64         // begun in it
}

// Outcome is what a Loop measured.
type Outcome struct {
	Tallies     [workload.NumOps]Tally
	Elapsed     time.Duration
	Interrupted bool          // ctx ended first
	Err         error         // the first of an operation
	Documents   int64         // up to which all exist, inserted ones included
	Client      time.Duration // to choose, make, time and count an operation
	CPU         time.Duration // of the process
	Allocations uint64
	Collections uint32 // of garbage
	Memory      int64  // bytes that the latencies take
}

// All returns the tallies of all operations together.
func (o *Outcome) All() (all Tally) {
	for op := range o.Tallies {
		all.Add(&o.Tallies[op])
	}
	return all
}

// Measured reports whether there are operations to tell of.
func (o *Outcome) Measured() bool {
	for op := range o.Tallies {
		if t := &o.Tallies[op]; t.Successes()+t.Errors > 0 {
			return true
		}
	}
	return false
}

// SampleEvery is how often memory and progress are looked at.
const SampleEvery = 200 * time.Millisecond

// WhileWaiting calls fn and, until it returns, tick every SampleEvery, and once
// at the end.
func WhileWaiting(fn func() error, tick func(now time.Time)) error {
	done := make(chan error, 1)
	go func() { done <- fn() }()
	ticker := time.NewTicker(SampleEvery)
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

// Run warms up and measures. A cancelled ctx ends it early, with what was
// measured so far; calls that have begun are not cancelled. The error is one
// of Before or After; those of operations are in the outcome.
func (l *Loop) Run(ctx context.Context) (*Outcome, error) {
	o := &Outcome{Client: l.clientCost()}
	front := newFrontier(l.Documents.Count())
	workers := make([]*worker, l.Workers)
	for i := range workers {
		workers[i] = l.newWorker(i, l.Store, front)
	}
	if l.Warmup > 0 {
		o.Interrupted = l.phase(ctx, true, workers, l.Warmup, 0)
		for _, w := range workers {
			for op := range w.tallies {
				w.tallies[op].Reset()
			}
			w.started.Store(0)
		}
	}
	if l.Before != nil {
		if err := l.Before(); err != nil {
			return nil, err
		}
	}
	var m0, m1 runtime.MemStats
	runtime.ReadMemStats(&m0)
	cpu0, start := CPUTime(), time.Now()
	if !o.Interrupted {
		o.Interrupted = l.phase(ctx, false, workers, l.Duration, l.Limit)
	}
	o.Elapsed, o.CPU = time.Since(start), CPUTime()-cpu0
	runtime.ReadMemStats(&m1)
	o.Allocations, o.Collections = m1.Mallocs-m0.Mallocs, m1.NumGC-m0.NumGC
	if l.After != nil {
		if err := l.After(); err != nil {
			return nil, err
		}
	}
	for _, w := range workers {
		for op := range w.tallies {
			t := &w.tallies[op]
			o.Tallies[op].Add(t)
			o.Memory += t.Memory()
		}
		if o.Err == nil {
			o.Err = w.firstErr
		}
	}
	o.Documents = front.done.Load()
	return o, nil
}

// phase lets the workers work for a time or a number of operations, and
// reports whether it was interrupted. What is under way is finished.
func (l *Loop) phase(ctx context.Context, warmUp bool, workers []*worker, d time.Duration, limit int64) bool {
	var stop atomic.Bool
	start := time.Now()
	calls := context.WithoutCancel(ctx)
	progress := Progress{WarmUp: warmUp}
	_ = WhileWaiting(func() error {
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
		if l.Memory != nil {
			l.Memory.Sample()
		}
		progress.Now, progress.Elapsed, progress.Part, progress.Operations = now, now.Sub(start), 0, 0
		for _, w := range workers {
			progress.Operations += w.started.Load()
		}
		if d > 0 {
			progress.Part = float64(progress.Elapsed) / float64(d)
		}
		if limit > 0 {
			progress.Part = max(progress.Part, float64(progress.Operations)/float64(limit))
		}
		if l.Watch != nil {
			l.Watch(progress)
		}
	})
	if l.Watch != nil {
		progress.Done = true
		l.Watch(progress)
	}
	return ctx.Err() != nil
}

// clientCost measures, on one goroutine and without a store, what it takes to
// choose, make, time and count an operation: the best of some rounds, as
// whatever else the machine does only adds to it.
func (l *Loop) clientCost() time.Duration {
	w := l.newWorker(l.Workers, nothing{}, newFrontier(l.Documents.Count()))
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
