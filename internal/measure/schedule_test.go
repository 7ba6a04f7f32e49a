package measure

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavestore/cleave/internal/alarm"
	"github.com/cleavestore/cleave/internal/workload"
	"github.com/cleavestore/cleave/partmap"
)

// slow answers after a time that is the call's own, in the time of the test.
type slow struct {
	nothing
	calls atomic.Int64
	takes func(call int64) time.Duration
}

func (s *slow) wait() { time.Sleep(s.takes(s.calls.Add(1) - 1)) }

func (s *slow) Read(ctx context.Context, key partmap.Key, id string, buf []byte) ([]byte, error) {
	s.wait()
	return s.nothing.Read(ctx, key, id, buf)
}

func (s *slow) Upsert(context.Context, partmap.Key, string, []byte) error {
	s.wait()
	return nil
}

// exact is a clock for the time of a test, which stands still while one spins.
func exact() *Clock { return &Clock{newAlarm: alarm.NewTimer} }

// paced returns an open loop of reads, in the time of the test.
func paced(t *testing.T, rate float64, takes func(call int64) time.Duration) *Loop {
	l := newLoop(t, "read", 1000, &slow{takes: takes})
	l.Rate, l.Clock = rate, exact()
	return l
}

func always(d time.Duration) func(int64) time.Duration {
	return func(int64) time.Duration { return d }
}

// near compares with two digits.
func near(got, want float64) bool { return math.Abs(got-want) <= want/50 }

func run(t *testing.T, l *Loop) *Outcome {
	t.Helper()
	o, err := l.Run(t.Context())
	if err != nil || o.Err != nil {
		t.Fatal(err, o.Err)
	}
	return o
}

// about compares microseconds with the three digits of a histogram.
func about(got, want float64) bool { return math.Abs(got-want) <= want/500 }

func TestOpenLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := paced(t, 1000, always(100*time.Microsecond))
		l.Workers, l.Duration, l.Warmup = 2, 3*time.Second, time.Second
		o := run(t, l)
		read := &o.Tallies[workload.Read]
		if read.Successes() != 3000 || o.Elapsed != 3*time.Second || o.Achieved() != 1000 {
			t.Errorf("%d operations in %v", read.Successes(), o.Elapsed)
		}
		if !about(read.Service.Micros(100), 100) || !about(read.Response.Micros(100), 100) || read.Lag.Micros(100) > 0.001 {
			t.Errorf("service %v µs, response %v µs, lag %v µs", read.Service.Micros(100), read.Response.Micros(100), read.Lag.Micros(100))
		}
		if o.Overloaded() || o.Suspect() || o.Pacing != (Pacing{Rate: 1000}) {
			t.Errorf("overloaded %v, suspect %v: %+v", o.Overloaded(), o.Suspect(), o.Pacing)
		}
		l.Limit = 70
		if o := run(t, l); o.Tallies[workload.Read].Successes() != 70 || o.Elapsed != 70*time.Millisecond {
			t.Errorf("%+v", o)
		}
	})
}

// A closed loop does not see the calls that a stall keeps from being made.
func TestCoordinatedOmission(t *testing.T) {
	stall := func(call int64) time.Duration {
		if call == 10_000 {
			return 200 * time.Millisecond
		}
		return 10 * time.Microsecond
	}
	synctest.Test(t, func(t *testing.T) {
		l := paced(t, 5000, stall)
		l.Duration = 4 * time.Second
		o := run(t, l)
		read := &o.Tallies[workload.Read]
		if read.Successes() != 20_000 || o.Overloaded() {
			t.Errorf("%d operations, overloaded %v", read.Successes(), o.Overloaded())
		}
		// 1,000 operations were due in the stall; a fifth of them is one of a
		// hundred of all.
		if p99 := read.Response.Micros(99); p99 < 155_000 || p99 > 170_000 {
			t.Errorf("response p99 %v µs", p99)
		}
		if !about(read.Service.Micros(99), 10) || !about(read.Response.Micros(50), 10) || read.Lag.Micros(100) > 0.001 {
			t.Errorf("service p99 %v µs, response p50 %v µs, lag %v µs", read.Service.Micros(99), read.Response.Micros(50), read.Lag.Micros(100))
		}

		l = paced(t, 0, stall)
		l.Limit = 20_000
		o = run(t, l)
		if got := o.Tallies[workload.Read].Latencies().Micros(99); !about(got, 10) {
			t.Errorf("closed loop: p99 %v µs", got)
		}
		if o.Overloaded() || o.Suspect() || o.Pacing != (Pacing{}) {
			t.Errorf("a closed loop has a pace: %+v", o.Pacing)
		}
	})
}

// One operation that hangs delays no other while there are free workers.
func TestFreeWorkersGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := paced(t, 1000, func(call int64) time.Duration {
			if call == 100 {
				return 500 * time.Millisecond
			}
			return time.Microsecond
		})
		l.Workers, l.Duration = 2, time.Second
		read := &run(t, l).Tallies[workload.Read]
		if got := read.Response.Micros(99.85); read.Successes() != 1000 || !about(got, 1) || !about(read.Response.Micros(100), 500_000) {
			t.Errorf("%d operations, the second longest took %v µs", read.Successes(), got)
		}
	})
}

func TestOverloaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := paced(t, 2000, always(time.Millisecond))
		l.Duration = time.Second
		o := run(t, l)
		// A tenth of the time is given to what was due; then it gives up.
		if n := o.Tallies[workload.Read].Successes(); n < 1100 || n > 1101 || o.Pacing.Missed != 2000-n || !o.Overloaded() || o.Interrupted {
			t.Errorf("%d operations, %d missed, overloaded %v", n, o.Pacing.Missed, o.Overloaded())
		}
		l.Rate = 1005 // half a percent too much
		if o := run(t, l); o.Overloaded() || o.Pacing.Missed != 0 {
			t.Errorf("%d missed, %v of %v/s", o.Pacing.Missed, o.Achieved(), o.Pacing.Rate)
		}
	})
}

// late is an alarm that oversleeps: by the times in turn, the last for ever.
type late struct {
	alarm.Alarm
	by *[]time.Duration
}

func (l late) Wait() {
	l.Alarm.Wait()
	by := *l.by
	if len(by) > 1 {
		*l.by = by[1:]
	}
	time.Sleep(by[0])
}

// What the clock is usually late by is no response time; what it is late by
// beyond that may be the store's doing.
func TestLateClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const usual = 60 * time.Microsecond
		l := paced(t, 1000, always(100*time.Microsecond))
		l.Workers, l.Duration = 4, time.Second
		by := []time.Duration{usual}
		l.Clock.newAlarm = func() alarm.Alarm { return late{alarm.NewTimer(), &by} }
		l.Clock.Calibrate(t.Context(), time.Second)
		if got := l.Clock.Lag(); !about(micros(got), micros(usual)) {
			t.Fatalf("calibrated lag %v", got)
		}
		l.Clock.lag = usual
		o := run(t, l)
		read := &o.Tallies[workload.Read]
		if !near(read.Lag.Micros(50), 60) || !about(read.Response.Micros(100), 100) || !o.Suspect() || o.Pacing.Lag != usual {
			t.Errorf("lag %v µs, response %v µs, suspect %v", read.Lag.Micros(50), read.Response.Micros(100), o.Suspect())
		}
		// A hundred times late by 2.5 ms: what became due meanwhile is late too.
		by = make([]time.Duration, 101)
		for i := range 100 {
			by[i] = 2500 * time.Microsecond
		}
		by[100] = usual
		l.Workers = 1
		o = run(t, l)
		read = &o.Tallies[workload.Read]
		if read.Successes() != 1000 || !near(read.Lag.Micros(100), 2500) || !about(read.Response.Micros(100), 2500-60+100) {
			t.Errorf("%d operations, lag %v µs, response %v µs", read.Successes(), read.Lag.Micros(100), read.Response.Micros(100))
		}
		// Once late by 200 ms: of what became due meanwhile each operation counts from when it was
		// due, also if workers that come to help set alarms of their own.
		for _, workers := range []int{1, 2, 8, 64} {
			by = []time.Duration{200 * time.Millisecond, usual}
			l.Workers = workers
			o = run(t, l)
			read = &o.Tallies[workload.Read]
			if read.Successes() != 1000 || !near(read.Response.Micros(100), 200_000-60+100) {
				t.Errorf("%d workers: %d operations, response %v µs", workers, read.Successes(), read.Response.Micros(100))
			}
			// The operations that were due in the first half of the time that the clock slept are a
			// tenth of all. The others waited for half of it, and for those before them.
			if got := read.Response.Micros(90); got < 98_000 || got > 112_000 {
				t.Errorf("%d workers: response p90 %v µs", workers, got)
			}
		}
	})
}

func micros(d time.Duration) float64 { return float64(d) / 1e3 }

// TestSchedule: operations that are due at once are each taken once, in order, by the goroutines
// that ask. Behind the last none is due.
func TestSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSchedule(exact(), 1e6, 10_000)
		var taken [10_000]atomic.Bool
		for range 8 {
			go func() {
				w := s.newWatch()
				for {
					ticket, ok := s.take(w)
					if !ok {
						return
					}
					if now := time.Since(s.start); ticket.due > now || ticket.from > now || ticket.from < ticket.due || taken[ticket.due.Microseconds()].Swap(true) {
						t.Errorf("%+v at %v", ticket, now)
					}
				}
			}()
		}
		time.Sleep(5 * time.Millisecond)
		synctest.Wait()
		if got := s.next.Load(); got != 5001 || s.behind() != 0 {
			t.Errorf("after 5 ms %d operations, %d behind", got, s.behind())
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		for i := range taken {
			if !taken[i].Load() {
				t.Fatalf("operation %d is lost", i)
			}
		}
	})
}

// A long wait ends soon after the loop does.
func TestScheduleStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := paced(t, 1e-3, always(0))
		l.Workers, l.Duration = 3, time.Hour
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		o, err := l.Run(ctx)
		if err != nil || !o.Interrupted || o.Elapsed != time.Minute || !o.Measured() {
			t.Errorf("%v: %+v", err, o)
		}
	})
}

// A spinner does not wake before its time.
func TestSpinner(t *testing.T) {
	a := newSpinner()
	start := time.Now()
	for _, d := range []time.Duration{0, time.Microsecond, 3 * time.Millisecond} {
		a.Set(time.Hour) // is replaced
		a.Set(d)
		if a.Wait(); time.Since(start) < d {
			t.Errorf("back before %v", d)
		}
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

// How late a clock is is measured and not promised.
func TestCalibrate(t *testing.T) {
	for _, spin := range []bool{false, true} {
		c := NewClock(spin)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		c.Calibrate(ctx, time.Hour)
		if c.Calibrate(t.Context(), 10*time.Millisecond); c.Lag() <= 0 || c.Spins() != spin {
			t.Errorf("spin %v: lag %v", spin, c.Lag())
		}
	}
}

// Whichever worker is free inserts the next document.
func TestInsertsOfOpenLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := paced(t, 1000, always(time.Microsecond))
		w, err := workload.FindWorkload("insert")
		if err != nil {
			t.Fatal(err)
		}
		l.Workload, l.Workers, l.Warmup, l.Duration = w, 8, time.Second, time.Second
		o := run(t, l)
		if n := o.Tallies[workload.Insert].Successes(); n != 1000 || o.Documents < 2999 || o.Documents > 3001 {
			t.Errorf("%d inserts, all documents up to %d", n, o.Documents)
		}
	})
}

func TestIntervals(t *testing.T) {
	for _, rate := range []float64{0, 500} {
		synctest.Test(t, func(t *testing.T) {
			l := paced(t, rate, always(time.Millisecond))
			l.Workers, l.Warmup, l.Duration = 2, 2*time.Second, 5*time.Second
			var seconds, warm float64
			var sum int64
			l.Interval = func(i Interval) {
				all := i.Tallies.All()
				if i.WarmUp {
					warm += i.Seconds()
					return
				}
				seconds += i.Seconds()
				sum += all.Successes()
				if i.Seconds() > 1.3 || i.Done && all.Successes() > 0 && i.Start == 0 {
					t.Errorf("an interval of %v s", i.Seconds())
				}
			}
			o := run(t, l)
			// Time stands still in the last interval: what ends in it has none.
			if all := o.All(); sum > all.Successes() || sum < all.Successes()-2 || seconds < 4.9 || warm < 1.9 || warm > 2.3 || sum < 2490 {
				t.Errorf("%d operations in %v s, the sum of %d is in the intervals; warm-up %v s", all.Successes(), seconds, sum, warm)
			}
		})
	}
}

// What is gathered while workers count is neither lost nor doubled.
func TestCollector(t *testing.T) {
	const n = 20_000
	l := newLoop(t, "ycsb-a", 100, nothing{})
	var workers []*worker
	c := newCollector(2, l.Workload.Mix, false, false) // fewer counters than workers
	for i := range 3 {
		workers = append(workers, l.newWorker(i, l.Store, newFrontier(100), c.counters))
	}
	done := make(chan struct{})
	for _, w := range workers {
		go func() {
			w.run(context.Background(), new(atomic.Bool), n)
			for range 10 {
				w.fail(workload.Read, errors.New("refused"))
				w.throttled(workload.Scan) // an operation with nothing else to count
			}
			done <- struct{}{}
		}()
	}
	for left := len(workers); left > 0; {
		select {
		case <-done:
			left--
		default:
			c.collect()
		}
	}
	c.collect()
	all := c.total.All()
	if all.Successes() != 3*n || all.Errors != 30 || all.Throttled != 30 || all.Bytes == 0 || c.memory() < c.total.Memory() {
		t.Errorf("%d operations, %d errors", all.Successes(), all.Errors)
	}
	c.collect()
	if all = c.interval.All(); all.Successes() != 0 {
		t.Error("an interval in which nothing happened has operations")
	}
}

func TestVerdicts(t *testing.T) {
	outcome := func(rate float64, response, lag time.Duration, elapsed time.Duration) *Outcome {
		o := &Outcome{Pacing: Pacing{Rate: rate}, Elapsed: elapsed}
		for range 1000 {
			o.Tallies[workload.Read].RecordDue(response, response, lag)
		}
		return o
	}
	for _, c := range []struct {
		o                   *Outcome
		overloaded, suspect bool
	}{
		{outcome(1000, time.Millisecond, 90*time.Microsecond, time.Second), false, false},
		{outcome(1000, time.Millisecond, 110*time.Microsecond, time.Second), false, true},
		{outcome(1009, time.Millisecond, 0, time.Second), false, false},
		{outcome(1011, time.Millisecond, 0, time.Second), true, false},
		{outcome(990, time.Millisecond, time.Second, time.Second), false, true},
		{&Outcome{Pacing: Pacing{Rate: 1}}, true, false},
		{&Outcome{}, false, false},
	} {
		if c.o.Overloaded() != c.overloaded || c.o.Suspect() != c.suspect {
			t.Errorf("%v/s of %+v: overloaded %v, suspect %v", c.o.Achieved(), c.o.Pacing, c.o.Overloaded(), c.o.Suspect())
		}
	}
}
