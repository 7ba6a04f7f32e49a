package main

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/cleavestore/cleave/internal/harness"
	"github.com/cleavestore/cleave/internal/humanize"
)

// throughputFigures tell what a container with limits on throughput let
// through.
type throughputFigures struct {
	Provisioned float64   `json:"provisioned_ru_per_s"` // 0: only logical partitions have limits
	Consumed    float64   `json:"consumed_ru_per_s"`
	Partitions  []float64 `json:"partitions_ru_per_s,omitempty"` // consumed, in key-space order; none if they changed
	Throttled   int64     `json:"throttled"`                     // calls
}

// newThroughputFigures compares what the partitions had consumed before and
// after.
func newThroughputFigures(perSecond float64, before, after []float64, elapsed time.Duration, throttled int64) *throughputFigures {
	f := &throughputFigures{Provisioned: harness.Round(perSecond, 1), Throttled: throttled}
	if len(before) != len(after) {
		return f // some were split
	}
	for i := range after {
		rate := (after[i] - before[i]) / max(elapsed.Seconds(), 1e-9)
		f.Consumed += rate
		f.Partitions = append(f.Partitions, harness.Round(rate, 1))
	}
	f.Consumed = harness.Round(f.Consumed, 1)
	return f
}

// print writes the figures as a line or two.
func (f *throughputFigures) print(w io.Writer) {
	if f == nil {
		return
	}
	if f.Provisioned == 0 {
		fmt.Fprintf(w, "  units    %s throttled by limits of logical partitions\n", harness.Plural(f.Throttled, "call"))
		return
	}
	fmt.Fprintf(w, "  units    %s RU/s provisioned, %s consumed, %s throttled", humanize.Count(int64(f.Provisioned)), humanize.Count(int64(f.Consumed)), harness.Plural(f.Throttled, "call"))
	if len(f.Partitions) > 1 {
		fmt.Fprintf(w, "; a partition consumed %s to %s RU/s", humanize.Count(int64(slices.Min(f.Partitions))), humanize.Count(int64(slices.Max(f.Partitions))))
	}
	fmt.Fprintln(w)
}
