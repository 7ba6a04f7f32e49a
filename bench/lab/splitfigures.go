package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/harness"
	"github.com/cleavestore/cleave/internal/humanize"
	"github.com/cleavestore/cleave/internal/measure"
	"github.com/cleavestore/cleave/internal/workload"
)

// Bounds of the design.
const (
	maxPause      = 200.0 // µs under the commit lock, of all splits
	maxTail       = 2.0   // times p99.9 before
	maxGrowth     = 2.0   // times the median pause of the smallest size
	gapWindow     = 100 * time.Millisecond
	controlGaps   = 1000
	aroundWindow  = 500 * time.Millisecond // on either side
	curveInterval = 10 * time.Millisecond
)

// splitsReport is what lab splits prints as JSON.
type splitsReport struct {
	V        int           `json:"v"`
	Workload string        `json:"workload"` // "splits"
	Sizes    []sizeFigures `json:"sizes"`
	Missed   []string      `json:"missed"` // the bounds that were not kept
}

// readSplitsReport reads the sizes of an earlier run.
func readSplitsReport(name string) ([]sizeFigures, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var r splitsReport
	if err := json.Unmarshal(text, &r); err != nil || r.V != 1 || r.Workload != "splits" {
		return nil, fmt.Errorf("%s: no result of lab splits", name)
	}
	return r.Sizes, nil
}

// sizeFigures describe the splits of a partition of one size; times are in
// microseconds.
type sizeFigures struct {
	Bytes      int64   `json:"bytes"` // of the documents
	Documents  int64   `json:"documents"`
	Rate       float64 `json:"rate_per_s"`
	Overloaded bool    `json:"overloaded"` // the rate was not kept
	Asked      int     `json:"splits_asked"`
	Splits     int     `json:"splits"`
	Merges     int     `json:"merges"`

	Pause      quantiles `json:"pause"`
	MergePause quantiles `json:"merge_pause"`
	Prepare    quantiles `json:"prepare"`
	Commit     quantiles `json:"commit"`
	Inherit    quantiles `json:"inherit"`
	Gap        quantiles `json:"gap"`         // longest between acknowledged writes, around a cut
	ControlGap quantiles `json:"control_gap"` // in random windows of the same length

	Before harness.WindowFigures `json:"before"` // the window before the first cut
	Around harness.WindowFigures `json:"around"` // the seconds around all cuts
	During harness.WindowFigures `json:"during"` // from the first cut on, merges included
	After  harness.WindowFigures `json:"after"`  // the window after the last cut

	// p99.9 of single seconds: of those before the first cut, of the ones around
	// the cuts, and of those after the last.
	SecondBefore quantiles `json:"second_before"`
	SecondAround quantiles `json:"second_around"`
	SecondAfter  quantiles `json:"second_after"`

	Failed      int64           `json:"failed"`       // operations
	CopiedBytes int64           `json:"copied_bytes"` // before the children served
	Curve       []curvePoint    `json:"curve"`
	Machine     measure.Machine `json:"machine"`
}

// quantiles describes values in microseconds.
type quantiles struct {
	P50 float64 `json:"p50_us"`
	P90 float64 `json:"p90_us"`
	Max float64 `json:"max_us"`
}

// newQuantiles sorts the values. The 90th percentile is the least value that nine tenths of all do not exceed.
func newQuantiles(values []float64) quantiles {
	if len(values) == 0 {
		return quantiles{}
	}
	n, median := len(values), harness.Median(values)
	return quantiles{harness.Round(median, 1), harness.Round(values[(n*9+9)/10-1], 1), harness.Round(values[n-1], 1)}
}

func (s quantiles) String() string {
	return harness.FormatMicros(s.P50) + ", " + harness.FormatMicros(s.P90) + ", " + harness.FormatMicros(s.Max)
}

// curvePoint tells of the operations that were due at some time from a cut.
type curvePoint struct {
	At  float64 `json:"at_ms"`
	P50 float64 `json:"p50_us"`
	P99 float64 `json:"p99_us"`
}

// newSizeFigures computes what the splits cost out of all operations since
// begun.
func newSizeFigures(jobs []harness.Reshape, samples []measure.Sample, begun time.Time, rng *rand.Rand) *sizeFigures {
	f := new(sizeFigures)
	var cuts []time.Time
	phases := make(map[*quantiles][]float64)
	add := func(s *quantiles, d time.Duration) { phases[s] = append(phases[s], harness.Micros(d)) }
	for _, r := range jobs {
		f.CopiedBytes += r.Copied
		switch {
		case r.Err != nil:
		case r.Kind == "split":
			f.Splits++
			cuts = append(cuts, r.Swapped)
			add(&f.Pause, r.Pause)
			add(&f.Prepare, r.Prepare)
			add(&f.Commit, r.Commit)
			add(&f.Inherit, r.Inherit)
		default:
			f.Merges++
			add(&f.MergePause, r.Pause)
		}
	}
	for s, values := range phases {
		*s = newQuantiles(values)
	}
	if len(cuts) == 0 || len(samples) == 0 {
		return f
	}
	f.gaps(cuts, samples, begun, rng)
	f.tails(cuts, samples, begun)
	return f
}

// gaps finds the longest gaps between acknowledged writes.
func (f *sizeFigures) gaps(cuts []time.Time, samples []measure.Sample, begun time.Time, rng *rand.Rand) {
	var acks []time.Time
	for _, s := range samples {
		if s.Op == workload.Update {
			acks = append(acks, s.At)
		}
	}
	var at, controls []float64
	for _, cut := range cuts {
		at = append(at, longestGap(acks, cut))
	}
	whole := samples[len(samples)-1].At.Sub(begun) - 2*gapWindow
	for range controlGaps {
		moment := begun.Add(gapWindow + time.Duration(rng.Int64N(int64(max(whole, 1)))))
		controls = append(controls, longestGap(acks, moment))
	}
	f.Gap, f.ControlGap = newQuantiles(at), newQuantiles(controls)
}

// longestGap returns the longest time between two moments within gapWindow of
// at, in microseconds.
func longestGap(acks []time.Time, at time.Time) float64 {
	lo, _ := slices.BinarySearchFunc(acks, at.Add(-gapWindow), time.Time.Compare)
	hi, _ := slices.BinarySearchFunc(acks, at.Add(gapWindow), time.Time.Compare)
	var longest time.Duration
	for i := max(lo, 1); i <= hi && i < len(acks); i++ {
		longest = max(longest, acks[i].Sub(acks[i-1]))
	}
	return harness.Micros(longest)
}

// tails finds the latencies before, around and after the cuts, by when the
// operations were due.
func (f *sizeFigures) tails(cuts []time.Time, samples []measure.Sample, begun time.Time) {
	due := func(s measure.Sample) time.Time { return s.At.Add(-s.Latency) }
	slices.SortFunc(samples, func(a, b measure.Sample) int { return due(a).Compare(due(b)) })
	between := func(from, to time.Time) []measure.Sample {
		find := func(at time.Time) int {
			i, _ := slices.BinarySearchFunc(samples, at, func(s measure.Sample, at time.Time) int { return due(s).Compare(at) })
			return i
		}
		lo := find(from)
		return samples[lo:max(lo, find(to))]
	}
	first, last := cuts[0], cuts[len(cuts)-1]
	end := samples[len(samples)-1].At
	f.Before = windowOf(begun, first.Add(-aroundWindow), between)
	f.During = windowOf(first.Add(-aroundWindow), last.Add(aroundWindow), between)
	f.After = windowOf(last.Add(aroundWindow), end, between)
	f.SecondBefore = secondsOf(begun, first.Add(-aroundWindow), between)
	f.SecondAfter = secondsOf(last.Add(aroundWindow), end, between)
	var around measure.Latencies
	var seconds []float64
	bins := make([]measure.Latencies, 2*aroundWindow/curveInterval)
	for _, cut := range cuts {
		from, to := cut.Add(-aroundWindow), cut.Add(aroundWindow)
		seconds = append(seconds, windowOf(from, to, between).P999)
		for _, s := range between(from, to) {
			around.Record(s.Latency)
			bin := int(due(s).Sub(from) / curveInterval)
			bins[min(bin, len(bins)-1)].Record(s.Latency)
		}
	}
	f.SecondAround = newQuantiles(seconds)
	f.Around = harness.WindowFigures{Seconds: harness.Round(float64(len(cuts))*2*aroundWindow.Seconds(), 1), Ops: around.Count(), P999: around.Micros(99.9)}
	for i := range bins {
		if bins[i].Count() > 0 {
			at := time.Duration(i)*curveInterval - aroundWindow + curveInterval/2
			f.Curve = append(f.Curve, curvePoint{harness.Micros(at) / 1000, bins[i].Micros(50), bins[i].Micros(99)})
		}
	}
}

// secondsOf returns p99.9 of each whole second.
func secondsOf(from, to time.Time, between func(from, to time.Time) []measure.Sample) quantiles {
	var tails []float64
	for next := from.Add(2 * aroundWindow); !next.After(to); from, next = next, next.Add(2*aroundWindow) {
		tails = append(tails, windowOf(from, next, between).P999)
	}
	return newQuantiles(tails)
}

func windowOf(from, to time.Time, between func(from, to time.Time) []measure.Sample) harness.WindowFigures {
	var l measure.Latencies
	for _, s := range between(from, to) {
		l.Record(s.Latency)
	}
	return harness.WindowFigures{Seconds: harness.Round(max(to.Sub(from), 0).Seconds(), 1), Ops: l.Count(), P999: l.Micros(99.9)}
}

// judge names the bounds that were not kept.
func (r *splitsReport) judge() {
	r.Missed = []string{}
	for i := range r.Sizes {
		f := &r.Sizes[i]
		miss := func(format string, args ...any) {
			r.Missed = append(r.Missed, formatSize(f.Bytes)+": "+fmt.Sprintf(format, args...))
		}
		if f.Splits < f.Asked {
			miss("%d of %d splits", f.Splits, f.Asked)
		}
		if f.Overloaded {
			miss("the rate of %s", harness.FormatRate(f.Rate))
		}
		if f.Pause.Max > maxPause {
			miss("%s µs under the lock, bound %s µs", harness.FormatMicros(f.Pause.Max), harness.FormatMicros(maxPause))
		}
		if f.Gap.P50 > f.ControlGap.P90 {
			miss("median gap of %s µs, above p90 of the controls, %s µs", harness.FormatMicros(f.Gap.P50), harness.FormatMicros(f.ControlGap.P90))
		}
		if f.SecondAround.P50 > maxTail*f.SecondBefore.P50 {
			miss("median p99.9 of a second around a cut %s µs, %s µs before", harness.FormatMicros(f.SecondAround.P50), harness.FormatMicros(f.SecondBefore.P50))
		}
		if f.SecondAfter.P50 > maxTail*f.SecondBefore.P50 {
			miss("median p99.9 of a second after the cuts %s µs, %s µs before", harness.FormatMicros(f.SecondAfter.P50), harness.FormatMicros(f.SecondBefore.P50))
		}
		if f.Around.P999 > maxTail*f.Before.P999 {
			miss("p99.9 of %s µs around the cuts, %s µs before", harness.FormatMicros(f.Around.P999), harness.FormatMicros(f.Before.P999))
		}
		if f.After.P999 > maxTail*f.Before.P999 {
			miss("p99.9 of %s µs after the cuts, %s µs before", harness.FormatMicros(f.After.P999), harness.FormatMicros(f.Before.P999))
		}
		if f.Failed > 0 {
			miss("%s failed operations", humanize.Count(f.Failed))
		}
		if f.CopiedBytes > 0 {
			miss("%s copied", humanize.Bytes(f.CopiedBytes))
		}
		if least := r.Sizes[0].Pause.P50; f.Pause.P50 > maxGrowth*least {
			miss("median time under the lock of %s µs, %s µs at the smallest size", harness.FormatMicros(f.Pause.P50), harness.FormatMicros(least))
		}
	}
}

// print writes the figures as a table, a column a size.
func (r *splitsReport) print(w io.Writer) {
	headings := []string{"<"}
	for i := range r.Sizes {
		headings = append(headings, formatSize(r.Sizes[i].Bytes))
	}
	t := cli.NewTable(append(headings, "<bound")...)
	row := func(name, bound string, value func(f *sizeFigures) string) {
		cells := []string{name}
		for i := range r.Sizes {
			cells = append(cells, value(&r.Sizes[i]))
		}
		t.Row(append(cells, bound)...)
	}
	spreads := func(name, bound string, of func(f *sizeFigures) quantiles) {
		row(name, bound, func(f *sizeFigures) string { return of(f).String() })
	}
	tail := func(name, bound string, of func(f *sizeFigures) harness.WindowFigures) {
		row(name, bound, func(f *sizeFigures) string {
			at := of(f)
			return fmt.Sprintf("%s (%s s)", harness.FormatMicros(at.P999), humanize.Number(at.Seconds))
		})
	}
	row("splits, merges", "", func(f *sizeFigures) string { return fmt.Sprintf("%d, %d", f.Splits, f.Merges) })
	row("operations a second", "", func(f *sizeFigures) string { return humanize.Count(int64(f.Rate)) })
	spreads("split, under the lock", "max 200, median no more than twice that of the smallest", func(f *sizeFigures) quantiles { return f.Pause })
	spreads("merge, under both locks", "", func(f *sizeFigures) quantiles { return f.MergePause })
	spreads("gap between writes, cuts", "median at most p90 of the controls", func(f *sizeFigures) quantiles { return f.Gap })
	spreads("gap between writes, controls", "", func(f *sizeFigures) quantiles { return f.ControlGap })
	spreads("p99.9 of a second, before", "", func(f *sizeFigures) quantiles { return f.SecondBefore })
	spreads("p99.9 of a second, around a cut", "median at most twice that before", func(f *sizeFigures) quantiles { return f.SecondAround })
	spreads("p99.9 of a second, after", "median at most twice that before", func(f *sizeFigures) quantiles { return f.SecondAfter })
	tail("p99.9 before", "", func(f *sizeFigures) harness.WindowFigures { return f.Before })
	tail("p99.9 around the cuts", "twice that before", func(f *sizeFigures) harness.WindowFigures { return f.Around })
	tail("p99.9 from first to last cut", "", func(f *sizeFigures) harness.WindowFigures { return f.During })
	tail("p99.9 after", "twice that before", func(f *sizeFigures) harness.WindowFigures { return f.After })
	spreads("prepare", "", func(f *sizeFigures) quantiles { return f.Prepare })
	spreads("commit", "", func(f *sizeFigures) quantiles { return f.Commit })
	spreads("inheritance", "", func(f *sizeFigures) quantiles { return f.Inherit })
	row("failed operations", "0", func(f *sizeFigures) string { return humanize.Count(f.Failed) })
	row("bytes copied before serving", "0", func(f *sizeFigures) string { return humanize.Count(f.CopiedBytes) })
	t.Print(w, "")
	fmt.Fprintln(w, "times are in µs; three of them are p50, p90 and max; p99.9 is of response times, from when an operation was due")
	if len(r.Missed) == 0 {
		fmt.Fprintln(w, "every bound was kept")
	}
}

// formatSize returns a size with a decimal unit: "100 MB".
func formatSize(n int64) string {
	if n >= 1e9 {
		return humanize.Number(float64(n)/1e9) + " GB"
	}
	return humanize.Number(float64(n)/1e6) + " MB"
}
