package main

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/cleavestore/cleave/internal/chart"
	"github.com/cleavestore/cleave/internal/harness"
	"github.com/cleavestore/cleave/internal/humanize"
	"github.com/cleavestore/cleave/internal/measure"
)

// reportFigure is a part of a page: a plot or a heat map in several widths, with its numbers.
type reportFigure struct {
	ID, Title string
	Full      bool // as wide as the page
	Height    int
	Unit      string // of its values: one of those that the script knows
	plot      *chart.Plot
	heat      *chart.Heat
}

// Units that the script of the page knows.
const (
	unitMicros = "us"
	unitBytes  = "bytes"
	unitCount  = "count"
)

// draw writes the figure in one width.
func (f *reportFigure) draw(width int) ([]byte, error) {
	var b bytes.Buffer
	size := chart.Size{Width: width, Height: f.Height}
	id := fmt.Sprintf("%s.%d", f.ID, width)
	if f.heat != nil {
		h := *f.heat
		h.ID = id
		err := h.Draw(&b, size)
		return b.Bytes(), err
	}
	p := *f.plot
	p.ID = id
	err := p.Draw(&b, size)
	return b.Bytes(), err
}

// minPart is how long the last part of a repetition is at least that is drawn: rates and
// percentiles of less say nothing.
const minPart = 0.25

// line returns the values of the seconds; gaps where of returns no number.
func (r *recorded) line(of func(s *second) float64) (points []chart.Point) {
	repeat := 0
	for i := range r.seconds {
		s := &r.seconds[i]
		if s.Seconds < minPart {
			continue
		}
		if repeat != 0 && s.Repeat != repeat {
			points = append(points, chart.Point{X: s.AtS - s.Seconds, Y: math.NaN()})
		}
		repeat = s.Repeat
		points = append(points, chart.Point{X: s.AtS, Y: of(s)})
	}
	return points
}

// label names something of a run, with the run where there are two.
func (r *recorded) label(name string) string {
	if r.name == "" {
		return name
	}
	return r.name + " " + name
}

// figuresOf makes all figures of a page, and notes in place of those that would be empty.
func figuresOf(runs []*recorded) (list []reportFigure, notes []string) {
	ends := 0.0
	for _, r := range runs {
		ends = max(ends, r.ends)
	}
	x := chart.Axis{Title: "seconds since the measuring began", Max: ends, Step: chart.Seconds}
	for _, r := range runs {
		if h := r.heat(x); h != nil {
			id := "heat"
			if r.name != "" {
				id += strings.ToLower(r.name)
			}
			list = append(list, reportFigure{ID: id, Title: h.Title, Full: true, Height: 430, Unit: unitCount, heat: h})
		}
	}
	add := func(id, title, caption, unit string, full bool, y chart.Axis, lines []chart.Line) {
		p := &chart.Plot{Title: title, Caption: caption, X: x, Y: y, Lines: lines, Zoom: true}
		p.About = fmt.Sprintf("%s over %s s. %s", title, humanize.Number(ends), caption)
		for _, r := range runs {
			p.Lanes = append(p.Lanes, r.lanes(len(runs) == 1)...)
			p.Marks = append(p.Marks, r.marks()...)
		}
		height := 300
		if full {
			height = 360
		}
		height += 14 * max(len(p.Lanes)-3, 0)
		list = append(list, reportFigure{ID: id, Title: title, Full: full, Height: height, Unit: unit, plot: p})
	}
	micros := chart.Axis{Kind: chart.Log, Format: chart.FormatMicros}
	add("latency", "Response times", latencyCaption(runs)+" Logarithmic scale.", unitMicros, true, micros, latencyLines(runs, allName))
	add("rate", "Operations a second", "Achieved, and offered where the loop is open.", unitCount, false, chart.Axis{Format: chart.FormatCount}, rateLines(runs))
	list = append(list, curveFigure(runs))
	for _, op := range operationsOf(runs) {
		add("op-"+op, "Response times: "+op, latencyCaption(runs)+" Logarithmic scale.", unitMicros, false, micros, latencyLines(runs, op))
	}
	byteAxis := chart.Axis{Format: func(n float64) string { return chart.FormatBytes(n) + "/s" }, Step: byteSteps}
	if lines := byteLines(runs); len(lines) > 0 {
		add("bytes", "Bytes written and read", "Per second: by the caller, by the engine to its files, and by the device of the store for all programs; what the process read from storage. The last two as far as the system tells.", unitBytes, false, byteAxis, lines)
	}
	if lines := amplificationLines(runs); len(lines) > 0 {
		add("amplification", "Write amplification", "Bytes that the engine wrote to its files for one that the caller wrote, from the beginning to each second.", unitCount, false,
			chart.Axis{Format: func(x float64) string { return chart.FormatCount(x) + "×" }}, lines)
	} else {
		notes = append(notes, "Nothing was written, so there is no write amplification.")
	}
	if lines := memoryLines(runs); len(lines) > 0 {
		add("memory", "Memory", "Of the process, and the part in write buffers.", unitBytes, false, chart.Axis{Format: chart.FormatBytes, Step: byteSteps}, lines)
	}
	if lines := processorLines(runs); len(lines) > 0 {
		add("cpu", "Processors in use", "By engine and pbench together.", unitCount, false, chart.Axis{Format: chart.FormatCount}, lines)
	}
	if lines := troubleLines(runs); len(lines) > 0 {
		add("trouble", "Errors, throttled operations and waits", "Per second.", unitCount, false, chart.Axis{Format: chart.FormatCount}, lines)
	} else {
		notes = append(notes, "No operation failed, none was throttled, and no write waited for memory.")
	}
	return list, notes
}

// byteSteps are distances of ticks in bytes.
var byteSteps = func() (steps []float64) {
	for i := range 46 {
		steps = append(steps, float64(int64(1)<<i))
	}
	return steps
}()

func latencyCaption(runs []*recorded) string {
	caption := func(r *recorded) string {
		if r.report.Engine.Loop.isOpen() {
			return "from when operations were due to their ends"
		}
		return "the times of the calls in a closed loop, which leave out who would have waited"
	}
	text := caption(runs[0])
	if last := runs[len(runs)-1]; caption(last) != text {
		text = runs[0].label(text) + "; " + last.label(caption(last))
	}
	return "Of each second: " + text + "."
}

// ofSecond returns what a second has about operations of a kind.
func ofSecond(s *second, op, percentile string) float64 {
	f, ok := s.operation(op)
	if !ok || f.Ops == 0 {
		return math.NaN()
	}
	return f.percentile(percentile)
}

var percentileColours = map[string]int{"p50": chart.Green, "p99": chart.Blue, "p99.9": chart.Orange, "max": chart.Grey}

func latencyLines(runs []*recorded, op string) (lines []chart.Line) {
	for i, r := range runs {
		for _, p := range percentiles {
			l := chart.Line{Name: r.label(p), Colour: percentileColours[p], Points: r.line(func(s *second) float64 { return ofSecond(s, op, p) })}
			if len(runs) > 1 {
				if p == "max" {
					continue
				}
				l.Colour = []int{chart.Blue, chart.Orange}[i]
				l.Dash = map[string]string{"p50": "2 3", "p99": "7 3", "p99.9": ""}[p]
			} else if p == "max" {
				l.Width = 1
			}
			lines = append(lines, l)
		}
	}
	return lines
}

func rateLines(runs []*recorded) (lines []chart.Line) {
	for i, r := range runs {
		colour := []int{chart.Blue, chart.Orange}[i]
		if r.report.Engine.Loop != nil && r.report.Engine.Loop.Offered > 0 {
			lines = append(lines, chart.Line{Name: r.label("offered"), Colour: chart.Grey, Dash: "6 4", Points: r.line(func(s *second) float64 { return s.Offered })})
		}
		lines = append(lines, chart.Line{Name: r.label("achieved"), Colour: colour, Area: len(runs) == 1, Points: r.line(func(s *second) float64 { return s.All.OpsPerS })})
	}
	return lines
}

// perSecond makes a line of a count, if it is ever above 0.
func (r *recorded) perSecond(name string, colour int, dash string, of func(s *second) int64) []chart.Line {
	l := chart.Line{Name: r.label(name), Colour: colour, Dash: dash, Points: r.line(func(s *second) float64 { return float64(of(s)) / s.Seconds })}
	if !slices.ContainsFunc(l.Points, func(p chart.Point) bool { return p.Y > 0 }) {
		return nil
	}
	return []chart.Line{l}
}

func byteLines(runs []*recorded) (lines []chart.Line) {
	value := func(n *int64) int64 {
		if n == nil {
			return 0
		}
		return *n
	}
	for i, r := range runs {
		dash := []string{"", "5 3"}[i]
		lines = append(lines, r.perSecond("by the caller", chart.Ink, dash, func(s *second) int64 { return s.WrittenBytes })...)
		lines = append(lines, r.perSecond("log", chart.Blue, dash, func(s *second) int64 { return s.LogBytes })...)
		lines = append(lines, r.perSecond("flushes", chart.Sky, dash, func(s *second) int64 { return s.FlushBytes })...)
		lines = append(lines, r.perSecond("compactions", chart.Amber, dash, func(s *second) int64 { return s.CompactionBytes })...)
		lines = append(lines, r.perSecond("device, for all programs", chart.Purple, dash, func(s *second) int64 { return value(s.DiskWritten) })...)
		lines = append(lines, r.perSecond("read from storage", chart.Green, dash, func(s *second) int64 { return value(s.DeviceRead) })...)
	}
	return lines
}

func amplificationLines(runs []*recorded) (lines []chart.Line) {
	for i, r := range runs {
		var written, engine int64
		toFiles := chart.Line{Name: r.label("by the engine to files"), Colour: []int{chart.Blue, chart.Orange}[i]}
		for k := range r.seconds {
			s := &r.seconds[k]
			written += s.WrittenBytes
			engine += s.LogBytes + s.FlushBytes + s.CompactionBytes
			if written > 0 {
				toFiles.Points = append(toFiles.Points, chart.Point{X: s.AtS, Y: harness.Round(float64(engine)/float64(written), 3)})
			}
		}
		if len(toFiles.Points) > 0 {
			lines = append(lines, toFiles)
		}
	}
	return lines
}

func memoryLines(runs []*recorded) (lines []chart.Line) {
	for i, r := range runs {
		dash := []string{"", "5 3"}[i]
		for _, m := range []struct {
			name   string
			colour int
			of     func(s *second) int64
		}{
			{"resident", chart.Blue, func(s *second) int64 { return s.ResidentBytes }},
			{"anonymous", chart.Orange, func(s *second) int64 { return s.AnonymousBytes }},
			{"write buffers", chart.Green, func(s *second) int64 { return s.BufferBytes }},
		} {
			points := r.line(func(s *second) float64 { return float64(m.of(s)) })
			if slices.ContainsFunc(points, func(p chart.Point) bool { return p.Y > 0 }) {
				lines = append(lines, chart.Line{Name: r.label(m.name), Colour: m.colour, Dash: dash, Points: points})
			}
		}
	}
	return lines
}

func processorLines(runs []*recorded) (lines []chart.Line) {
	for i, r := range runs {
		points := r.line(func(s *second) float64 { return harness.Round(s.CPUSeconds/s.Seconds, 3) })
		if slices.ContainsFunc(points, func(p chart.Point) bool { return p.Y > 0 }) {
			lines = append(lines, chart.Line{Name: r.label("processors"), Colour: []int{chart.Blue, chart.Orange}[i], Area: len(runs) == 1, Points: points})
		}
	}
	return lines
}

func troubleLines(runs []*recorded) (lines []chart.Line) {
	for i, r := range runs {
		dash := []string{"", "5 3"}[i]
		lines = append(lines, r.perSecond("errors", chart.Orange, dash, func(s *second) int64 { return s.All.Errors })...)
		lines = append(lines, r.perSecond("throttled", chart.Purple, dash, func(s *second) int64 { return s.Throttled })...)
		lines = append(lines, r.perSecond("writes that waited for memory", chart.Amber, dash, func(s *second) int64 { return s.Stalls })...)
		lines = append(lines, r.perSecond("reads of expired documents", chart.Sky, dash, func(s *second) int64 { return s.Expired })...)
		lines = append(lines, r.perSecond("due and not begun", chart.Grey, dash, func(s *second) int64 { return s.Behind })...)
	}
	return lines
}

// lanes tell what the store did.
func (r *recorded) lanes(shade bool) (lanes []chart.Lane) {
	flushes := chart.Lane{Name: r.label("flush"), Colour: chart.Sky, Shade: shade}
	compactions := chart.Lane{Name: r.label("compact"), Colour: chart.Amber, Shade: shade}
	splits := chart.Lane{Name: r.label("split"), Colour: chart.Purple, Shade: shade}
	for i := range r.events {
		e := &r.events[i]
		span := chart.Span{From: e.FromS, To: e.ToS, Note: e.String()}
		switch {
		case e.Kind == "flush":
			flushes.Spans = append(flushes.Spans, span)
		case e.AtS > 0:
			splits.Spans = append(splits.Spans, span)
		case e.Error == "":
			compactions.Spans = append(compactions.Spans, span)
		}
	}
	for _, l := range []chart.Lane{flushes, compactions, splits} {
		if len(l.Spans) > 0 {
			lanes = append(lanes, l)
		}
	}
	return lanes
}

// String tells of an event in a line.
func (e *event) String() string {
	took := fmt.Sprintf("%s to %s s", humanize.Number(e.FromS), humanize.Number(e.ToS))
	switch {
	case e.AtS > 0:
		return fmt.Sprintf("%s of %s into %s, %s; the cut at %s s", e.Kind, harness.Joined(e.Parents), harness.Joined(e.Children), took, humanize.Number(e.AtS))
	case e.Error != "":
		return fmt.Sprintf("%s of %s: %s", e.Kind, harness.Joined(e.Parents), e.Error)
	case e.Kind == "flush":
		return fmt.Sprintf("flush of P%d, %s: %s", e.Partition, took, humanize.Bytes(e.Bytes))
	}
	return fmt.Sprintf("%s in P%d, %s: %s read, %s written", e.Kind, e.Partition, took, humanize.Bytes(e.ReadBytes), humanize.Bytes(e.Bytes))
}

// marks are the moments of cuts, and of the begins of repetitions.
func (r *recorded) marks() (marks []chart.Mark) {
	for _, e := range r.splits() {
		marks = append(marks, chart.Mark{At: e.AtS, Name: r.label("split"), Note: e.String(), Colour: chart.Purple})
	}
	for i, at := range r.begins {
		if i > 0 {
			marks = append(marks, chart.Mark{At: at, Name: r.label("next repetition"), Note: fmt.Sprintf("repetition %d begins", i+1), Colour: chart.Grey})
		}
	}
	return marks
}

// maxColumns is how many columns a heat map has at most; neighbours are added up.
const maxColumns = 400

// heat makes the heat map; nil: the run does not tell.
func (r *recorded) heat(x chart.Axis) *chart.Heat {
	each := (len(r.seconds) + maxColumns - 1) / maxColumns
	h := &chart.Heat{
		Title: "Key space over time", X: x, Places: measure.NumPlaces, Rows: "first byte of the key's hash", Zoom: true,
		Format: chart.FormatCount, Unit: "operations a second in 1/64 of the key space", Lanes: r.lanes(false),
	}
	if r.name != "" {
		h.Title += ": " + r.name
	}
	for i := 0; i < len(r.seconds); i += each {
		part := r.seconds[i:min(i+each, len(r.seconds))]
		c := chart.HeatColumn{From: part[0].AtS - part[0].Seconds, To: part[len(part)-1].AtS, Values: make([]float64, measure.NumPlaces)}
		seconds, some := 0.0, false
		for k := range part {
			seconds += part[k].Seconds
			if part[k].OpsByPlace == nil {
				continue
			}
			some = true
			for place, n := range part[k].OpsByPlace {
				c.Values[place] += float64(n)
			}
		}
		if !some || seconds < minPart {
			continue
		}
		for place := range c.Values {
			c.Values[place] = harness.Round(c.Values[place]/seconds, 1)
		}
		h.Columns = append(h.Columns, c)
	}
	if len(h.Columns) == 0 || h.Most() == 0 {
		return nil
	}
	for _, b := range r.borders {
		note := "boundary " + b.at
		if b.split != nil {
			note += ": " + b.split.String()
		}
		h.Borders = append(h.Borders, chart.Border{Place: b.place, From: b.from, To: b.to, New: b.fresh, Note: note})
	}
	n := len(r.splits())
	h.Caption = fmt.Sprintf("Operations that succeeded, by the hash of their partition key; lines are boundaries of physical partitions. %s.", humanize.Plural(n, "split", "splits"))
	h.About = h.Caption
	return h
}

// operationsOf returns the kinds of operations, if there are several.
func operationsOf(runs []*recorded) (names []string) {
	for _, r := range runs {
		for _, name := range r.operations() {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	if len(names) < 2 {
		return nil
	}
	return names
}

// curveFigure draws what share of operations took at most how long.
func curveFigure(runs []*recorded) reportFigure {
	p := &chart.Plot{
		Title: "Percentile curve", Caption: "What share of the operations took at most how long; dashed: the calls alone. Logarithmic scales.",
		X: chart.Axis{Kind: chart.Tail, Title: "percentile", Format: chart.FormatPercent}, Y: chart.Axis{Kind: chart.Log, Format: chart.FormatMicros},
	}
	p.About = p.Caption
	for i, r := range runs {
		names := []string{allName}
		if len(runs) == 1 && len(r.operations()) > 1 {
			names = append(names, r.operations()...)
		}
		for k, name := range names {
			colour := []int{chart.Ink, chart.Blue, chart.Orange, chart.Green, chart.Purple, chart.Amber, chart.Sky, chart.Grey}[k%8]
			if len(runs) > 1 {
				colour = []int{chart.Blue, chart.Orange}[i]
			}
			if c := curve(r.curves[name]); len(c) > 0 {
				p.Lines = append(p.Lines, chart.Line{Name: r.label(name), Colour: colour, Width: 2, Points: c})
			}
			if c := curve(r.curves[name+serviceTag]); len(c) > 0 {
				p.Lines = append(p.Lines, chart.Line{Name: r.label(name + ", calls"), Colour: colour, Width: 1.3, Dash: "4 3", Points: c})
			}
		}
	}
	for _, l := range p.Lines {
		p.X.Max = max(p.X.Max, l.Points[len(l.Points)-1].X)
	}
	return reportFigure{ID: "curve", Title: p.Title, Height: 300, Unit: unitMicros, plot: p}
}

// curve returns values in microseconds by their percentile, up to that of the greatest.
func curve(h *hdrhistogram.Histogram) (points []chart.Point) {
	if h == nil || h.TotalCount() == 0 {
		return nil
	}
	n := float64(h.TotalCount())
	last := 100 - 100/max(n, 2)
	add := func(p float64) {
		points = append(points, chart.Point{X: p, Y: float64(h.ValueAtPercentile(p)) / 1e3})
	}
	for step := range 100 {
		p := 100 - 100*math.Pow(10, -float64(step)/10)
		if p >= last {
			break
		}
		add(p)
	}
	points = append(points, chart.Point{X: last, Y: float64(h.Max()) / 1e3})
	return points
}
