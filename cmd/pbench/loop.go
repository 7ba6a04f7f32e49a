package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cleavestore/cleave/internal/harness"
	"github.com/cleavestore/cleave/internal/measure"
)

// Kinds of loops.
const (
	openLoop   = "open"
	closedLoop = "closed"
)

// Verdicts on a run.
const (
	overloaded = "OVERLOADED" // the rate was missed: response times only grow with the length of the run
	suspect    = "SUSPECT"    // response times may be those of pbench's clock
)

// loopFigures tell how the operations of a run were begun, and whether its
// latencies can be trusted.
type loopFigures struct {
	Kind     string                    `json:"kind"` // open or closed
	Offered  float64                   `json:"offered_per_s,omitempty"`
	Achieved float64                   `json:"achieved_per_s"`
	Maximum  float64                   `json:"maximum_per_s,omitempty"` // of a closed loop, where the rate is a share of it
	Missed   int64                     `json:"missed,omitempty"`        // operations that were due and not begun
	Verdicts []string                  `json:"verdicts"`
	Spins    bool                      `json:"spin,omitempty"`
	ClockLag float64                   `json:"clock_lag_us,omitempty"` // half of the times it is later, without a store
	Lag      *latencyFigures           `json:"lag,omitempty"`          // how late operations began as the clock was late
	Service  map[string]latencyFigures `json:"service,omitempty"`      // of an open loop, whose other latencies are response times
}

// repeat is one of the repetitions of a run.
type repeat struct {
	results
	Loop *loopFigures `json:"loop"`
}

// newLoopFigures describes repetitions together: a verdict on one of them is
// one on all.
func newLoopFigures(outcomes []*measure.Outcome, maximum float64) *loopFigures {
	o := together(outcomes)
	l := &loopFigures{Kind: closedLoop, Achieved: harness.Round(o.Achieved(), 1), Maximum: harness.Round(maximum, 1), Verdicts: []string{}}
	if o.Pacing.Rate == 0 {
		return l
	}
	l.Kind, l.Offered, l.Missed = openLoop, harness.Round(o.Pacing.Rate, 1), o.Pacing.Missed
	l.Spins, l.ClockLag = o.Pacing.Spins, harness.Round(harness.Micros(o.Pacing.Lag), 3)
	if slices.ContainsFunc(outcomes, (*measure.Outcome).Overloaded) {
		l.Verdicts = append(l.Verdicts, overloaded)
	}
	if slices.ContainsFunc(outcomes, (*measure.Outcome).Suspect) {
		l.Verdicts = append(l.Verdicts, suspect)
	}
	all := o.All()
	lag := newLatencyFigures(&all.Lag)
	l.Lag = &lag
	l.Service = make(map[string]latencyFigures)
	r := newResults(o)
	for _, name := range r.names() {
		f, _ := r.operation(name)
		l.Service[name] = f.service
	}
	return l
}

// is reports whether a verdict was given.
func (l *loopFigures) is(verdict string) bool {
	return l != nil && slices.Contains(l.Verdicts, verdict)
}

// isOpen reports whether latencies are response times.
func (l *loopFigures) isOpen() bool { return l != nil && l.Kind == openLoop }

// print writes the rates, the lag and the verdicts as lines.
func (l *loopFigures) print(w io.Writer) {
	if l.Kind == closedLoop {
		return
	}
	fmt.Fprintf(w, "  rate     offered %s, achieved %s", harness.FormatRate(l.Offered), harness.FormatRate(l.Achieved))
	if l.Maximum > 0 {
		fmt.Fprintf(w, "; %.0f %% of the %s of a closed loop", 100*l.Offered/l.Maximum, harness.FormatRate(l.Maximum))
	}
	if l.Missed > 0 {
		fmt.Fprintf(w, "; due and not begun: %s", harness.Plural(l.Missed, "operation"))
	}
	fmt.Fprintf(w, "\n  lag      p50 %s, p99 %s, max %s µs: how late the clock woke a free worker; without a store half of the times over %s µs\n",
		harness.FormatMicros(l.Lag.P50Micros), harness.FormatMicros(l.Lag.P99Micros), harness.FormatMicros(l.Lag.MaxMicros), harness.FormatMicros(l.ClockLag))
	if len(l.Verdicts) == 0 {
		fmt.Fprintln(w, "  verdict  OK: the rate was kept, and the lag is small beside the response times")
	}
	for _, v := range l.Verdicts {
		fmt.Fprintf(w, "  verdict  %s\n", explain(v))
	}
}

// explain returns a verdict with its meaning.
func explain(verdict string) string {
	switch verdict {
	case overloaded:
		return verdict + ": the rate was missed by over 1 %; response times only tell how long the run was, compare none of them"
	case suspect:
		return verdict + ": the lag is at p99 above a tenth of the response time: the processors were busy, or the store\n           answers faster than the clock wakes; see the service times, try --spin or a lower rate"
	}
	return verdict
}

// notes returns the verdicts as a word or two.
func (l *loopFigures) notes() string { return strings.Join(l.Verdicts, " ") }
