package main

import (
	"fmt"
	"strings"

	"github.com/cleavestore/cleave/internal/measure"
	"github.com/cleavestore/cleave/internal/workload"
)

// liveLine shows what a loop does while it does it.
type liveLine struct {
	env     *environment
	label   string
	offered float64
	stats   func() storeStats
	begun   storeStats
	splits  *splitLog
	bar     *progress // nil: between phases
	last    string    // about the latencies of the last interval
}

func (l *liveLine) watch(p measure.Progress) {
	if l.bar == nil {
		label := l.label
		if p.WarmUp {
			label = "warm up"
		}
		l.bar, l.begun, l.last = newProgress(l.env, label, p.Now.Add(-p.Elapsed)), l.stats(), ""
	}
	if p.Done {
		l.bar.end()
		l.bar = nil
		return
	}
	l.bar.show(p.Now, p.Part, func() string { return l.text(p) })
}

// text is what the line says behind the bar, the most important first: what
// does not fit is cut off.
func (l *liveLine) text(p measure.Progress) string {
	var b strings.Builder
	fmt.Fprint(&b, formatRate(float64(p.Operations)/p.Elapsed.Seconds()))
	if l.offered > 0 {
		fmt.Fprintf(&b, " of %s", formatRate(l.offered))
	}
	if p.Behind > 0 {
		fmt.Fprintf(&b, "  behind %s", formatCount(p.Behind))
	}
	b.WriteString(l.last)
	b.WriteString(l.splits.live())
	now := l.stats()
	d := now.since(l.begun)
	fmt.Fprintf(&b, "  buffers %s  flushes %s  merges %s", formatBytes(now.BufferBytes), formatCount(d.Flushes), formatCount(d.Merges))
	if d.Stalls > 0 {
		fmt.Fprintf(&b, "  stalls %s", formatCount(d.Stalls))
	}
	return b.String()
}

// interval notes the latencies of the last second, in milliseconds.
func (l *liveLine) interval(i measure.Interval) {
	var b strings.Builder
	for op := range i.Tallies {
		if t := &i.Tallies[op]; t.Successes() > 0 {
			fmt.Fprintf(&b, "  %s p99 %s", workload.Op(op), formatMillis(t.Latencies().Micros(99)))
		}
	}
	all := i.Tallies.All()
	if all.Lag.Count() > 0 {
		fmt.Fprintf(&b, "  lag %s", formatMillis(all.Lag.Micros(99)))
	}
	if b.Len() > 0 {
		b.WriteString(" ms")
	}
	if all.Errors > 0 {
		fmt.Fprintf(&b, "  errors %s", formatCount(all.Errors))
	}
	l.last = b.String()
}
