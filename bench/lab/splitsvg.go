package main

import (
	"bytes"
	"fmt"
	"math"

	"github.com/cleavestore/cleave/internal/harness"
)

// The chart of lab splits: milliseconds from the cut to the right, response
// times upwards on a logarithmic scale, two lines a size.
const (
	chartW, chartH         = 860, 420
	chartLeft, chartRight  = 70, 24
	chartTop, chartBottom  = 62, 52
	chartInk, chartFaint   = "#24292f", "#57606a"
	chartGrid, chartAtZero = "#d8dee4", "#cf222e"
)

var chartColours = []string{"#0969da", "#bc4c00", "#1a7f37", "#8250df"}

// svg draws the latencies around the cuts.
func (r *splitsReport) svg() []byte {
	low, high := math.Inf(1), 0.0
	for _, f := range r.Sizes {
		for _, p := range f.Curve {
			low, high = min(low, p.P50), max(high, p.P99)
		}
	}
	if high == 0 {
		low, high = 1, 10
	}
	floor, ceiling := math.Floor(math.Log10(max(low, 0.1))), math.Ceil(math.Log10(high*1.001))
	span := float64(aroundWindow.Milliseconds())
	x := func(ms float64) float64 {
		return chartLeft + (ms+span)/(2*span)*(chartW-chartLeft-chartRight)
	}
	y := func(us float64) float64 {
		part := (math.Log10(max(us, 0.1)) - floor) / max(ceiling-floor, 1)
		return chartH - chartBottom - part*(chartH-chartTop-chartBottom)
	}
	var b bytes.Buffer
	text := func(x, y float64, size int, anchor, colour, words string) {
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" font-size="%d" text-anchor="%s" fill="%s">%s</text>`+"\n", x, y, size, anchor, colour, words)
	}
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif">`+"\n",
		chartW, chartH, chartW, chartH)
	fmt.Fprintf(&b, "<title>Response times around a split</title>\n"+`<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", chartW, chartH)
	text(chartLeft, 24, 16, "start", chartInk, "Response times around a split")
	for i, f := range r.Sizes {
		at := chartLeft + float64(i)*250
		fmt.Fprintf(&b, `<path d="M%.1f 40h20" stroke="%s" stroke-width="2.5"/>`+"\n", at, chartColours[i%len(chartColours)])
		text(at+26, 44, 12, "start", chartFaint, fmt.Sprintf("%s, %d splits at %s", formatSize(f.Bytes), f.Splits, harness.FormatRate(f.Rate)))
	}
	for e := floor; e <= ceiling; e++ {
		us := math.Pow(10, e)
		fmt.Fprintf(&b, `<path d="M%d %.1fH%d" stroke="%s"/>`+"\n", chartLeft, y(us), chartW-chartRight, chartGrid)
		text(chartLeft-8, y(us)+4, 12, "end", chartFaint, axisTime(us))
	}
	for ms := -span; ms <= span; ms += span / 5 {
		text(x(ms), chartH-chartBottom+18, 12, "middle", chartFaint, fmt.Sprintf("%.0f", ms))
	}
	text(chartW/2, chartH-12, 12, "middle", chartFaint, "milliseconds from the cut at which operations were due; thick p99, thin median")
	fmt.Fprintf(&b, `<path d="M%.1f %dV%d" stroke="%s" stroke-dasharray="4 3"/>`+"\n", x(0), chartTop, chartH-chartBottom, chartAtZero)
	for i, f := range r.Sizes {
		line := func(width float64, of func(p curvePoint) float64) {
			fmt.Fprintf(&b, `<path fill="none" stroke="%s" stroke-width="%g" stroke-linejoin="round" d="`, chartColours[i%len(chartColours)], width)
			for n, p := range f.Curve {
				verb := 'L'
				if n == 0 {
					verb = 'M'
				}
				fmt.Fprintf(&b, "%c%.1f %.1f", verb, x(p.At), y(of(p)))
			}
			b.WriteString("\"/>\n")
		}
		if len(f.Curve) > 0 {
			line(1, func(p curvePoint) float64 { return p.P50 })
			line(2, func(p curvePoint) float64 { return p.P99 })
		}
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// axisTime returns a power of ten of microseconds.
func axisTime(us float64) string {
	switch {
	case us >= 1e6:
		return fmt.Sprintf("%g s", us/1e6)
	case us >= 1e3:
		return fmt.Sprintf("%g ms", us/1e3)
	}
	return fmt.Sprintf("%g µs", us)
}
