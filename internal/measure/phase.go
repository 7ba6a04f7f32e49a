package measure

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// phase is the warm-up of a Loop or what is measured. It lasts for a time, or a
// number of operations, or both.
type phase struct {
	*Loop
	workers  []*worker
	counts   *collector
	warmUp   bool
	duration time.Duration // 0: no limit
	limit    int64         // operations; 0: no limit

	schedule *schedule // of an open loop
	start    time.Time
	finished time.Time     // when the last worker was
	last     time.Duration // end of the last interval
}

// run lets the workers work, and reports whether it was interrupted. What is
// under way is finished.
func (p *phase) run(ctx context.Context) (interrupted bool) {
	var stop atomic.Bool
	p.start = time.Now()
	if p.Rate > 0 {
		p.schedule = newSchedule(p.Clock, p.Rate, math.MaxInt64)
		p.schedule.limit = p.offered()
	}
	progress := Progress{WarmUp: p.warmUp}
	_ = WhileWaiting(func() error {
		p.work(ctx, &stop)
		return nil
	}, func(now time.Time) {
		if p.Memory != nil {
			p.Memory.Sample()
		}
		p.look(&progress, now)
		if p.Watch != nil {
			p.Watch(progress)
		}
		if p.Interval != nil && progress.Elapsed-p.last > SeriesEvery-SampleEvery/2 {
			p.collect(progress)
		}
	})
	progress.Done = true
	p.collect(progress)
	if p.Watch != nil {
		p.Watch(progress)
	}
	return ctx.Err() != nil
}

// offered is how many operations an open loop has.
func (p *phase) offered() int64 {
	n := p.limit
	if n == 0 {
		n = math.MaxInt64
	}
	if p.duration > 0 {
		n = min(n, max(p.schedule.dueBy(p.duration), 1))
	}
	return n
}

// work is done when the workers are.
func (p *phase) work(ctx context.Context, stop *atomic.Bool) {
	var wg sync.WaitGroup
	calls := context.WithoutCancel(ctx)
	for i, w := range p.workers {
		share := p.limit / int64(len(p.workers))
		if int64(i) < p.limit%int64(len(p.workers)) {
			share++
		}
		if w.schedule = p.schedule; w.schedule != nil {
			share = 0 // the schedule has the limit
		} else if p.limit > 0 && share == 0 {
			continue
		}
		wg.Go(func() {
			if p.schedule != nil {
				w.watch = p.schedule.newWatch()
				defer w.watch.Close()
			}
			w.run(calls, stop, share)
		})
	}
	finished := make(chan struct{})
	go func() { wg.Wait(); close(finished) }()
	var timeUp <-chan time.Time
	if p.duration > 0 {
		timer := time.NewTimer(p.ends())
		defer timer.Stop()
		timeUp = timer.C
	}
	select {
	case <-finished:
	case <-timeUp:
	case <-ctx.Done():
	}
	stop.Store(true)
	if p.schedule != nil {
		p.schedule.halt()
	}
	<-finished
	p.finished = time.Now()
}

// ends is when the phase ends whatever is left. An open loop may finish what was
// due in time: else a stall at the end would not be seen.
func (p *phase) ends() time.Duration {
	if p.schedule != nil {
		return p.duration + p.duration/10
	}
	return p.duration
}

// look sees how far the phase is.
func (p *phase) look(progress *Progress, now time.Time) {
	progress.Now, progress.Elapsed, progress.Part, progress.Operations = now, now.Sub(p.start), 0, 0
	for _, w := range p.workers {
		progress.Operations += w.started.Load()
	}
	if p.schedule != nil {
		progress.Behind = p.schedule.behind()
	}
	if p.duration > 0 {
		progress.Part = float64(progress.Elapsed) / float64(p.duration)
	}
	if p.limit > 0 {
		progress.Part = max(progress.Part, float64(progress.Operations)/float64(p.limit))
	}
}

// collect ends an interval.
func (p *phase) collect(progress Progress) {
	p.counts.collect()
	if p.Interval != nil && progress.Elapsed > p.last {
		p.Interval(Interval{Progress: progress, Start: p.last, Tallies: &p.counts.interval})
	}
	p.last = progress.Elapsed
}
