package harness

import (
	"fmt"
	"strings"

	"github.com/cleavestore/cleave/internal/humanize"
	"github.com/cleavestore/cleave/internal/measure"
	"github.com/cleavestore/cleave/internal/workload"
)

// LiveLine shows what a loop does while it does it.
type LiveLine struct {
	Env     *Environment
	Label   string
	Offered float64
	Stats   func() StoreStats
	begun   StoreStats
	Splits  *SplitLog
	bar     *Progress // nil: between phases
	last    string    // about the latencies of the last interval
}

// Watch draws how far a loop is.
func (l *LiveLine) Watch(p measure.Progress) {
	if l.bar == nil {
		label := l.Label
		if p.WarmUp {
			label = "warm up"
		}
		l.bar, l.begun, l.last = NewProgress(l.Env, label, p.Now.Add(-p.Elapsed)), l.Stats(), ""
	}
	if p.Done {
		l.bar.End()
		l.bar = nil
		return
	}
	l.bar.Show(p.Now, p.Part, func() string { return l.text(p) })
}

// text is what the line says behind the bar, the most important first: what
// does not fit is cut off.
func (l *LiveLine) text(p measure.Progress) string {
	var b strings.Builder
	fmt.Fprint(&b, FormatRate(float64(p.Operations)/p.Elapsed.Seconds()))
	if l.Offered > 0 {
		fmt.Fprintf(&b, " of %s", FormatRate(l.Offered))
	}
	if p.Behind > 0 {
		fmt.Fprintf(&b, "  behind %s", humanize.Count(p.Behind))
	}
	b.WriteString(l.last)
	b.WriteString(l.Splits.live())
	now := l.Stats()
	d := now.Since(l.begun)
	fmt.Fprintf(&b, "  buffers %s  flushes %s  compactions %s", humanize.Bytes(now.BufferBytes), humanize.Count(d.Flushes), humanize.Count(d.Compactions))
	if d.Stalls > 0 {
		fmt.Fprintf(&b, "  stalls %s", humanize.Count(d.Stalls))
	}
	return b.String()
}

// Interval notes the latencies of the last second, in milliseconds.
func (l *LiveLine) Interval(i measure.Interval) {
	var b strings.Builder
	for op := range i.Tallies {
		if t := &i.Tallies[op]; t.Successes() > 0 {
			fmt.Fprintf(&b, "  %s p99 %s", workload.Op(op), FormatMillis(t.Latencies().Micros(99)))
		}
	}
	all := i.Tallies.All()
	if all.Lag.Count() > 0 {
		fmt.Fprintf(&b, "  lag %s", FormatMillis(all.Lag.Micros(99)))
	}
	if b.Len() > 0 {
		b.WriteString(" ms")
	}
	if all.Errors > 0 {
		fmt.Fprintf(&b, "  errors %s", humanize.Count(all.Errors))
	}
	l.last = b.String()
}
