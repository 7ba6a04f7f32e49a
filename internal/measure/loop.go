package measure

import (
	"context"
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/cleavestore/cleave/internal/workload"
)

// Loop is a loop of operations. Without a Rate it is closed: each worker begins
// the next operation when the one before is done. With a Rate it is open: each
// operation is due at a moment that does not depend on those before it, and a
// free worker begins it then, or late if there is none.
type Loop struct {
	Workload  workload.Workload
	Documents Documents
	Store     Store
	Workers   int
	Seed      uint64
	Rate      float64       // operations a second; 0: closed loop
	Clock     *Clock        // of an open loop
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
	// Interval, if not nil, is called about every second with what was counted
	// since the last time, and at the end of each phase.
	Interval func(Interval)
	// Expiring says that documents may expire: one that is not found is no failure.
	Expiring bool
	// Places says that operations are counted by their place in the key space.
	Places bool
	// Trace, if not nil, keeps every operation.
	Trace *Trace

	places []int64 // indexes of the documents in key-space order, for moving keys
}

// Progress tells how far a Loop is.
type Progress struct {
	WarmUp     bool // else what is measured
	Done       bool // the phase is over
	Now        time.Time
	Elapsed    time.Duration // since the phase began
	Part       float64       // of the phase, 0 to 1
	Operations int64         // begun in it
	Behind     int64         // due and not begun, in an open loop
}

// Interval is a part of a phase.
type Interval struct {
	Progress
	Start   time.Duration // since the phase began; it ends at Progress.Elapsed
	Tallies *Tallies      // until the function returns
}

// Seconds is how long the interval is.
func (i *Interval) Seconds() float64 { return (i.Elapsed - i.Start).Seconds() }

// Outcome is what a Loop measured.
type Outcome struct {
	Tallies     Tallies
	Elapsed     time.Duration
	Interrupted bool          // ctx ended first
	Err         error         // the first of an operation
	Documents   int64         // up to which all exist, inserted ones included
	Client      time.Duration // to choose, make, time and count an operation
	CPU         time.Duration // of the process
	Allocations uint64
	Collections uint32 // of garbage
	Memory      int64  // bytes that the latencies take
	Pacing      Pacing // of an open loop
}

// All returns the tallies of all operations together.
func (o *Outcome) All() (all Tally) { return o.Tallies.All() }

// Measured reports whether there are operations to tell of.
func (o *Outcome) Measured() bool {
	all := o.All()
	return all.Ended() > 0
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

// SeriesEvery is the time between two intervals.
const SeriesEvery = time.Second

// Run warms up and measures. A cancelled ctx ends it early, with what was
// measured so far; calls that have begun are not cancelled. The error is one
// of Before or After; those of operations are in the outcome.
func (l *Loop) Run(ctx context.Context) (*Outcome, error) {
	if l.Workload.Keys.Moving() {
		l.places = keySpaceOrder(l.Documents)
	}
	o := &Outcome{Client: l.clientCost()}
	front := newFrontier(l.Documents.Count())
	mix, open := l.Workload.Mix, l.Rate > 0
	counts := newCollector(l.Workers, mix, open, l.Places)
	workers := make([]*worker, l.Workers)
	if l.Trace != nil {
		l.Trace.begin(l.Workers)
	}
	for i := range workers {
		workers[i] = l.newWorker(i, l.Store, front, counts.counters)
		if l.Trace != nil {
			workers[i].trace = &l.Trace.lists[i]
		}
	}
	if l.Warmup > 0 {
		p := phase{Loop: l, workers: workers, counts: counts, warmUp: true, duration: l.Warmup}
		o.Interrupted = p.run(ctx)
		counts.total.Reset()
		for _, w := range workers {
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
	cpu0 := CPUTime()
	p := phase{Loop: l, workers: workers, counts: counts, duration: l.Duration, limit: l.Limit}
	if !o.Interrupted {
		o.Interrupted = p.run(ctx)
	}
	o.Elapsed, o.CPU = p.finished.Sub(p.start), CPUTime()-cpu0
	runtime.ReadMemStats(&m1)
	o.Allocations, o.Collections = m1.Mallocs-m0.Mallocs, m1.NumGC-m0.NumGC
	if s := p.schedule; s != nil {
		o.Pacing = Pacing{Rate: l.Rate, Lag: l.Clock.Lag(), Spins: l.Clock.Spins()}
		if !o.Interrupted {
			// The last operation is due before its interval is over.
			o.Elapsed = max(o.Elapsed, time.Duration(float64(s.limit)*s.interval))
			o.Pacing.Missed = s.limit - s.next.Load()
		}
	}
	if l.After != nil {
		if err := l.After(); err != nil {
			return nil, err
		}
	}
	o.Tallies, o.Memory, o.Documents = counts.total, counts.memory()+8*int64(len(l.places)), front.done.Load()
	for _, w := range workers {
		if o.Err == nil {
			o.Err = w.firstErr
		}
	}
	return o, nil
}

// clientCost measures, on one goroutine and without a store, what it takes to
// choose, make, time and count an operation: the best of some rounds, as
// whatever else the machine does only adds to it.
func (l *Loop) clientCost() time.Duration {
	w := l.newWorker(l.Workers, nothing{}, newFrontier(l.Documents.Count()), newCounters(1, l.Workload.Mix, false, l.Places))
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
