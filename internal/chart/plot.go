package chart

import (
	"fmt"
	"io"
	"math"
	"strings"
)

// Point is a value of a line. A Y that is no number is a gap, on a
// logarithmic axis also one that is not above 0.
type Point struct{ X, Y float64 }

// Line is a series of a Plot.
type Line struct {
	Name   string
	Colour int
	Width  float64 // pixels; 0: 1.8
	Dash   string  // pattern, such as "5 3"; "": a whole line
	Area   bool    // tinted down to the axis
	Step   bool    // a value holds until the next
	Points []Point // by X
}

// Lane is a row of bars below a plot: what went on, and when.
type Lane struct {
	Name   string
	Colour int
	Shade  bool // tint the plot above the bars too
	Spans  []Span
}

// Span is a bar of a Lane.
type Span struct {
	From, To float64
	Note     string
}

// Mark is a moment: a line across a plot.
type Mark struct {
	At     float64
	Name   string // of its entry in the legend; marks of one name share it
	Note   string
	Colour int
}

// Plot draws lines.
type Plot struct {
	ID      string // within the document
	Title   string
	Caption string // under the title
	About   string // for who does not see the picture
	X, Y    Axis
	Lines   []Line
	Lanes   []Lane
	Marks   []Mark
	Zoom    bool // a script may show a part of X
}

const (
	laneHeight = 11.0
	laneGap    = 3.0
	lineHeight = 17.0
)

// Fit bounds the axes that have no bounds by the values. Draw does so too; a page whose
// plots are to have the same axes calls it before.
func (p *Plot) Fit() {
	p.X.fit(func(yield func(float64)) {
		for _, l := range p.Lines {
			for _, at := range l.Points {
				yield(at.X)
			}
		}
	})
	p.Y.fit(func(yield func(float64)) {
		for _, l := range p.Lines {
			for _, at := range l.Points {
				yield(at.Y)
			}
		}
	})
}

// Draw writes the plot as SVG.
func (p *Plot) Draw(w io.Writer, size Size) error {
	p.Fit()
	s := new(Canvas)
	f := p.frame(size)
	s.Begin(size, p.ID, p.Title, p.About, f.data(p))
	f.head(s, p.Title, p.Caption)
	legend(s, p.keys(), f.left, f.keys, f.right-f.left)
	f.axes(s, &p.X, &p.Y)
	s.zoom(f)
	for _, lane := range p.Lanes {
		if !lane.Shade {
			continue
		}
		for _, span := range lane.Spans {
			x0, x1 := f.x(&p.X, span.From), f.x(&p.X, span.To)
			fmt.Fprintf(s, `<rect class="f%d" fill-opacity="0.13" x="%s" y="%s" width="%s" height="%s"/>`+"\n", lane.Colour, num(x0), num(f.top), num(max(x1-x0, 0.7)), num(f.bottom-f.top))
		}
	}
	for _, m := range p.Marks {
		x := num(f.x(&p.X, m.At))
		fmt.Fprintf(s, `<path class="line s%d" stroke-width="1.4" stroke-dasharray="3 3" d="M%s %sV%s"><title>%s</title></path>`+"\n", m.Colour, x, num(f.top), num(f.bottom), Escape(m.Note))
	}
	for i := range p.Lines {
		f.line(s, p, &p.Lines[i])
	}
	s.WriteString("</svg>\n")
	f.lanes(s, p)
	s.End()
	_, err := w.Write(s.Bytes())
	return err
}

// keys are the entries of the legend.
func (p *Plot) keys() (keys []key) {
	for _, l := range p.Lines {
		if l.Name == "" {
			continue
		}
		keys = append(keys, key{name: l.Name, data: fmt.Sprintf(` data-line="%s"`, Escape(l.Name)), draw: func(s *Canvas, x, y float64) {
			fmt.Fprintf(s, `<path class="line s%d" stroke-width="2.4"%s d="M%s %sh%g"/>`, l.Colour, dashes(l.Dash), num(x), num(y), keySign)
		}})
	}
	seen := make(map[string]bool)
	for _, m := range p.Marks {
		if m.Name == "" || seen[m.Name] {
			continue
		}
		seen[m.Name] = true
		keys = append(keys, key{name: m.Name, draw: func(s *Canvas, x, y float64) {
			fmt.Fprintf(s, `<path class="line s%d" stroke-width="1.4" stroke-dasharray="3 3" d="M%s %sv14"/>`, m.Colour, num(x+keySign/2), num(y-7))
		}})
	}
	return keys
}

func dashes(pattern string) string {
	if pattern == "" {
		return ""
	}
	return fmt.Sprintf(` stroke-dasharray="%s"`, pattern)
}

// frame is where things are in a picture.
type frame struct {
	size                     Size
	left, right, top, bottom float64 // of the plot
	caption                  []string
	keys                     float64 // upper edge of the legend
	laneTop                  float64
	labels                   float64 // baseline of the numbers below
}

func (p *Plot) frame(size Size) *frame {
	f := &frame{size: size}
	margin := 0.0
	for _, v := range p.Y.ticks(6) {
		margin = max(margin, TextWidth(p.Y.format(v), smallSize))
	}
	for _, lane := range p.Lanes {
		margin = max(margin, TextWidth(lane.Name, smallSize))
	}
	f.left, f.right = math.Ceil(margin)+14, float64(size.Width)-16
	f.caption = wrap(p.Caption, textSize, float64(size.Width)-12)
	f.keys = 28 + lineHeight*float64(len(f.caption))
	f.top = f.keys + legend(nil, p.keys(), f.left, 0, f.right-f.left) + 8
	f.labels = float64(size.Height) - 24
	f.laneTop = f.labels - 14 - float64(len(p.Lanes))*(laneHeight+laneGap)
	f.bottom = f.laneTop
	if len(p.Lanes) > 0 {
		f.bottom -= 11
	}
	return f
}

func (f *frame) x(a *Axis, v float64) float64 { return f.left + a.part(v)*(f.right-f.left) }
func (f *frame) y(a *Axis, v float64) float64 { return f.bottom - a.part(v)*(f.bottom-f.top) }

// data tells a script what lies where.
func (f *frame) data(p *Plot) string {
	kind := "linear"
	switch p.X.Kind {
	case Log:
		kind = "log"
	case Tail:
		kind = "tail"
	}
	zoom := ""
	if p.Zoom {
		zoom = ` data-zoom="1"`
	}
	return fmt.Sprintf(` data-chart="%s" data-left="%s" data-right="%s" data-top="%s" data-bottom="%s" data-min="%g" data-max="%g" data-kind="%s" data-labels="%s"%s`,
		chartOf(p.ID), num(f.left), num(f.right), num(f.top), num(f.bottom), p.X.Min, p.X.Max, kind, num(f.labels), zoom)
}

// chartOf returns what pictures of one chart in several sizes share: the id up to the dot.
func chartOf(id string) string {
	name, _, _ := strings.Cut(id, ".")
	return Escape(name)
}

// head writes title and caption.
func (f *frame) head(s *Canvas, title, caption string) {
	s.Heading(4, 18, shorten(title, titleSize+1, float64(f.size.Width)-8))
	for i, line := range f.caption {
		s.Text(4, 36+lineHeight*float64(i), textSize, "start", "t-soft", line)
	}
}

// axes draws grid and numbers.
func (f *frame) axes(s *Canvas, x, y *Axis) {
	for _, v := range y.ticks(max(2, int((f.bottom-f.top)/34))) {
		at := f.y(y, v)
		s.Line("g-grid", 1, f.left, at, f.right, at)
		s.Text(f.left-8, at+4, smallSize, "end", "t-soft", y.format(v))
	}
	s.Line("g-axis", 1, f.left, f.bottom, f.right, f.bottom)
	f.xLabels(s, x)
}

// xLabels writes the numbers below, as many as there is room for.
func (f *frame) xLabels(s *Canvas, x *Axis) {
	n := int((f.right - f.left) / 70)
	fmt.Fprintf(s, "<g class=\"xlabels\">\n")
	end := math.Inf(-1)
	for _, v := range x.ticks(max(2, n)) {
		at, text := f.x(x, v), x.format(v)
		half := TextWidth(text, smallSize) / 2
		s.Line("g-axis", 1, at, f.labels-14, at, f.labels-10)
		if at-half < end+6 {
			continue
		}
		middle := min(at, float64(f.size.Width)-half-1)
		s.Text(middle, f.labels+1, smallSize, "middle", "t-soft", text)
		end = middle + half
	}
	s.WriteString("</g>\n")
	s.Text((f.left+f.right)/2, f.labels+18, smallSize, "middle", "t-soft", x.Title)
}

// zoom begins the part of the picture of which a script may show a part.
func (s *Canvas) zoom(f *frame) {
	fmt.Fprintf(s, `<svg class="zoom" x="%s" y="%s" width="%s" height="%s" viewBox="%s %s %s %s" preserveAspectRatio="none">`+"\n",
		num(f.left), num(f.top), num(f.right-f.left), num(f.bottom-f.top), num(f.left), num(f.top), num(f.right-f.left), num(f.bottom-f.top))
}

// Line draws one line.
func (f *frame) line(s *Canvas, p *Plot, l *Line) {
	points := f.pixels(p, l)
	var d, area strings.Builder
	down := true // the pen is up: the next point begins a piece
	begun := 0.0
	last := Point{}
	fill := func() {
		if l.Area && !down {
			fmt.Fprintf(&area, "V%sH%sZ", num(f.bottom), num(begun))
		}
	}
	for _, at := range points {
		if !finite(at.Y) {
			fill()
			down = true
			continue
		}
		switch {
		case down:
			fmt.Fprintf(&d, "M%s %s", num(at.X), num(at.Y))
			fmt.Fprintf(&area, "M%s %s", num(at.X), num(at.Y))
			begun = at.X
		case l.Step:
			fmt.Fprintf(&d, "H%sV%s", num(at.X), num(at.Y))
			fmt.Fprintf(&area, "H%sV%s", num(at.X), num(at.Y))
		default:
			fmt.Fprintf(&d, "L%s %s", num(at.X), num(at.Y))
			fmt.Fprintf(&area, "L%s %s", num(at.X), num(at.Y))
		}
		down, last = false, at
	}
	fill()
	width := l.Width
	if width == 0 {
		width = 1.8
	}
	fmt.Fprintf(s, `<g data-line="%s">`, Escape(l.Name))
	if l.Area {
		fmt.Fprintf(s, `<path class="f%d" fill-opacity="0.14" d="%s"/>`, l.Colour, area.String())
	}
	fmt.Fprintf(s, `<path class="line s%d" stroke-width="%s"%s d="%s"/>`, l.Colour, num(width), dashes(l.Dash), d.String())
	if len(l.Points) == 1 && !down {
		fmt.Fprintf(s, `<circle class="f%d" cx="%s" cy="%s" r="2.5"/>`, l.Colour, num(last.X), num(last.Y))
	}
	s.WriteString("</g>\n")
}

// pixels places the points of a line. Where there are several to a pixel, the least and the
// greatest stay.
func (f *frame) pixels(p *Plot, l *Line) (points []Point) {
	drawn := func(at Point) bool { return finite(at.Y) && (p.Y.Kind != Log || at.Y > 0) }
	gap := func(at Point) Point { return Point{at.X, math.NaN()} }
	place := func(at Point) Point { return Point{f.x(&p.X, at.X), f.y(&p.Y, at.Y)} }
	if len(l.Points) <= 2*int(f.right-f.left) {
		for _, at := range l.Points {
			if drawn(at) {
				points = append(points, place(at))
			} else {
				points = append(points, gap(at))
			}
		}
		return points
	}
	var low, high Point
	column := math.NaN()
	flush := func() {
		if !math.IsNaN(column) {
			points = append(points, low, high)
		}
	}
	for _, at := range l.Points {
		if !drawn(at) {
			flush()
			column = math.NaN()
			points = append(points, gap(at))
			continue
		}
		at = place(at)
		if c := math.Floor(at.X); c != column {
			flush()
			column, low, high = c, at, at
		}
		if at.Y < low.Y {
			low = at
		}
		if at.Y > high.Y {
			high = at
		}
	}
	flush()
	return points
}

// lanes draws what went on.
func (f *frame) lanes(s *Canvas, p *Plot) {
	for i, lane := range p.Lanes {
		y := f.laneTop + float64(i)*(laneHeight+laneGap)
		s.Text(f.left-8, y+laneHeight-1.5, smallSize, "end", "t-soft", lane.Name)
		s.Line("g-grid", 1, f.left, y+laneHeight/2, f.right, y+laneHeight/2)
		lf := *f
		lf.top, lf.bottom = y, y+laneHeight
		s.zoom(&lf)
		for _, span := range lane.Spans {
			x0, x1 := f.x(&p.X, span.From), f.x(&p.X, span.To)
			fmt.Fprintf(s, `<rect class="f%d" x="%s" y="%s" width="%s" height="%g"><title>%s</title></rect>`+"\n", lane.Colour, num(x0), num(y), num(max(x1-x0, 1.5)), laneHeight, Escape(span.Note))
		}
		s.WriteString("</svg>\n")
	}
}
