package measure

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/cleavestore/cleave/internal/workload"
)

// counters are tallies that workers share: one at a time counts with each, and
// there are so many that a worker finds its own free, or the next one. So what
// they take does not grow with the workers.
type counters []atomic.Pointer[Tallies] // nil while a worker counts

// countersPerProcessor is how many there are for each goroutine that runs.
const countersPerProcessor = 4

func newCounters(workers int, mix workload.Mix, open, places bool) counters {
	c := make(counters, max(min(workers, countersPerProcessor*runtime.GOMAXPROCS(0)), 1))
	for i := range c {
		c[i].Store(prepared(mix, open, places))
	}
	return c
}

// take returns tallies for a worker to count with, and where to put them back.
func (c counters) take(worker int) (*Tallies, *atomic.Pointer[Tallies]) {
	for i := worker; ; i++ {
		place := &c[i%len(c)]
		if t := place.Swap(nil); t != nil {
			return t, place
		}
	}
}

// exchange puts fresh tallies in a place for those that are there. It waits for
// a worker that is just then counting: some nanoseconds.
func exchange(place *atomic.Pointer[Tallies], fresh *Tallies) *Tallies {
	for {
		if t := place.Load(); t != nil && place.CompareAndSwap(t, fresh) {
			return t
		}
		runtime.Gosched()
	}
}

// collector gathers what workers count while they go on counting. It is for
// one goroutine.
type collector struct {
	counters counters
	spares   []*Tallies // empty; they change places with the counters
	interval Tallies    // since the collect before
	total    Tallies
}

func newCollector(workers int, mix workload.Mix, open, places bool) *collector {
	c := &collector{counters: newCounters(workers, mix, open, places)}
	for range c.counters {
		c.spares = append(c.spares, prepared(mix, open, places))
	}
	return c
}

// breath is how long the collector sleeps after each tally. To add up all of
// them takes 10 ms and more, in one piece a time slice of a processor that
// workers wait for.
const breath = 200 * time.Microsecond

// collect takes what was counted since the last time.
func (c *collector) collect() {
	for i := range c.counters {
		c.spares[i] = exchange(&c.counters[i], c.spares[i])
	}
	c.interval.Reset()
	for _, counted := range c.spares {
		for op := range counted {
			if t := &counted[op]; t.Ended() > 0 {
				c.interval[op].Add(t)
				t.Reset()
				time.Sleep(breath)
			}
		}
	}
	c.total.Add(&c.interval)
}

// memory is what all latencies take, in bytes.
func (c *collector) memory() int64 {
	n := c.interval.Memory() + c.total.Memory()
	for i := range c.counters {
		n += c.counters[i].Load().Memory() + c.spares[i].Memory()
	}
	return n
}
