package measure

import (
	"cmp"
	"slices"
	"time"

	"github.com/cleavestore/cleave/internal/workload"
)

// Sample is an operation that succeeded.
type Sample struct {
	At      time.Time     // when it returned
	Latency time.Duration // response time in an open loop, else service time
	Op      workload.Op
}

// Trace keeps every operation of a Loop, warm-up included, some 40 bytes each:
// it is for loops at moderate rates. The zero value is empty.
type Trace struct{ lists []traceList }

type traceList struct{ samples []Sample }

// begin makes room for a number of workers.
func (t *Trace) begin(workers int) {
	for len(t.lists) < workers {
		t.lists = append(t.lists, traceList{})
	}
}

// Samples returns the operations in the order in which they returned. It is to
// be called after the loop.
func (t *Trace) Samples() []Sample {
	var all []Sample
	for i := range t.lists {
		all = append(all, t.lists[i].samples...)
	}
	slices.SortFunc(all, func(a, b Sample) int { return cmp.Compare(a.At.Sub(b.At), 0) })
	return all
}
