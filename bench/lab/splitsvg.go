package main

import (
	"bytes"
	"fmt"

	"github.com/cleavestore/cleave/internal/chart"
	"github.com/cleavestore/cleave/internal/harness"
)

// splitColours are those of the sizes.
var splitColours = []int{chart.Blue, chart.Orange, chart.Green, chart.Purple}

// svg draws the latencies around the cuts: two lines a size.
func (r *splitsReport) svg() ([]byte, error) {
	span := float64(aroundWindow.Milliseconds())
	p := chart.Plot{
		ID: "splits", Title: "Response times around a split", About: "p99 and median of the response times around the cuts of many splits, by the size of the partition.",
		X:     chart.Axis{Title: "milliseconds from the cut at which operations were due", Min: -span, Max: span},
		Y:     chart.Axis{Kind: chart.Log, Format: chart.FormatMicros},
		Marks: []chart.Mark{{At: 0, Name: "cut", Note: "the cut", Colour: chart.Ink}},
	}
	for i, f := range r.Sizes {
		line := func(name, dash string, width float64, of func(p curvePoint) float64) {
			l := chart.Line{Name: name, Colour: splitColours[i%len(splitColours)], Width: width, Dash: dash}
			for _, at := range f.Curve {
				l.Points = append(l.Points, chart.Point{X: at.At, Y: of(at)})
			}
			p.Lines = append(p.Lines, l)
		}
		size := fmt.Sprintf("%s, %d splits at %s", formatSize(f.Bytes), f.Splits, harness.FormatRate(f.Rate))
		line(size+": p99", "", 2, func(p curvePoint) float64 { return p.P99 })
		line(size+": median", "2 2", 1.2, func(p curvePoint) float64 { return p.P50 })
	}
	var b bytes.Buffer
	err := p.Draw(&b, chart.Size{Width: chartWidth, Height: 420, Alone: true})
	return b.Bytes(), err
}
