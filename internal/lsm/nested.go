package lsm

import (
	"math"

	"github.com/cleavestore/cleave/internal/drain"
)

// A compaction of gigabytes takes a minute, and flushes go on. So that runs do not pile up
// meanwhile, it stops between two pieces of work for nested compactions, on its own goroutine,
// of runs that are newer than its inputs:
//
//	 new                                                        old
//	[run run run run run run run run] [inputs inputs inputs] [older]
//	 └─────── a nested one ─────────┘  └─ the one under way ─┘
//
// A nested compaction has an output, a retention and a commit point of its own, as if it ran
// before the outer one had begun or after it has ended. The inputs of the outer one and all
// older runs stay where they are, counted from the oldest. A crash between the two commit points
// leaves the output of the nested compaction and the inputs of the outer one.

// Nested compacts runs that are newer than the inputs of a compaction under way, if there are
// enough of them: behind is the number of the inputs and the older runs. They have at most so many
// bytes as the one under way has still to read: the shorter one goes first. Nested calls
// Tree.Compact. An error of it is not one of the compaction under way.
type Nested func(behind int, most int64)

// interlude lets nested compactions in.
type interlude struct {
	nested Nested // nil: none is let in
	behind int
	asked  int        // runs of the partition when nested was last asked
	job    *drain.Job // of the compaction
}

// nest makes the output let nested compactions in, before so many runs. job measures its own
// compaction; nil: that is not measured.
func (o *output) nest(behind int, nested Nested, job *drain.Job) {
	o.interlude = interlude{nested: nested, behind: behind, job: job}
}

// letIn calls nested if the number of runs has changed, and at least two are newer.
func (o *output) letIn() {
	b := &o.interlude
	n := len(o.t.Version.Load().Runs)
	if b.nested == nil || n == b.asked || n < b.behind+2 {
		return
	}
	b.asked = n
	most := int64(math.MaxInt64) // rewriting may be slow
	if b.job != nil {
		most = b.job.Rest()
	}
	b.job.Pause()
	b.nested(b.behind, most)
	b.job.Resume()
}
