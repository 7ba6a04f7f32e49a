package measure

import (
	"runtime"
	"sync/atomic"

	"github.com/cleavestore/cleave/internal/workload"
)

// counters are tallies that workers share: one at a time counts with each, and
// there are so many that a worker finds its own free, or the next one. So what
// they take does not grow with the workers.
type counters []atomic.Pointer[Tallies] // nil while a worker counts

// countersPerProcessor is how many there are for each goroutine that runs.
const countersPerProcessor = 8

func newCounters(workers int, mix workload.Mix, open bool) counters {
	c := make(counters, max(min(workers, countersPerProcessor*runtime.GOMAXPROCS(0)), 1))
	for i := range c {
		c[i].Store(prepared(mix, open))
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
	spare    *Tallies // empty; changes places with each of the counters in turn
	interval Tallies  // since the collect before
	total    Tallies
}

func newCollector(c counters, spare *Tallies) *collector {
	return &collector{counters: c, spare: spare}
}

// collect takes what was counted since the last time.
func (c *collector) collect() {
	c.interval.Reset()
	for i := range c.counters {
		counted := exchange(&c.counters[i], c.spare)
		c.interval.Add(counted)
		counted.Reset()
		c.spare = counted
	}
	c.total.Add(&c.interval)
}

// memory is what all latencies take, in bytes.
func (c *collector) memory() int64 {
	n := c.spare.Memory() + c.interval.Memory() + c.total.Memory()
	for i := range c.counters {
		n += c.counters[i].Load().Memory()
	}
	return n
}
