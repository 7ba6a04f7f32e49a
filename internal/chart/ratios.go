package chart

import (
	"fmt"
	"io"
	"math"
	"strconv"
)

// Ratios draws how far one is ahead of the best of others, or behind, a row for each thing
// that was measured, on a logarithmic scale around 1.
type Ratios struct {
	ID      string // within the document
	Title   string
	Caption string
	About   string
	Ahead   string // what bars to the right say
	Behind  string // and those to the left
	Others  []string
	Groups  []RatioGroup
}

// RatioGroup is a part of the rows, with a heading.
type RatioGroup struct {
	Name string
	Rows []RatioRow
}

// RatioRow is one thing that was measured.
type RatioRow struct {
	Label  string
	Ratio  float64            // to the best of the others; above 1 is ahead
	Best   string             // who that is
	Value  string             // what was measured
	Others map[string]float64 // ratio to each of Others
}

const (
	rowHeight   = 19.0
	groupHeight = 27.0
	maxRatio    = 50.0 // ratios beyond, or below its inverse, lie at the edge
)

// Height returns the height of the picture for a width.
func (r *Ratios) Height(width int) int {
	h := 28 + lineHeight*float64(len(wrap(r.Caption, textSize, float64(width)-12))) + legend(nil, r.keys(), 0, 0, float64(width)-24) + 14 + 44
	for _, g := range r.Groups {
		h += groupHeight + rowHeight*float64(len(g.Rows))
	}
	return int(math.Ceil(h))
}

// others are the marks of the others: shapes differ as well as colours.
var otherColours = []int{Purple, Green, Amber, Grey, Sky, Ink, Blue, Orange}

// shape draws a mark of the others around a place.
func shape(i int, x, y float64) string {
	class := fmt.Sprintf(`class="f%d"`, otherColours[i%len(otherColours)])
	X, Y := num(x), num(y)
	switch i % 6 {
	case 0:
		return fmt.Sprintf(`<circle %s cx="%s" cy="%s" r="3.4"/>`, class, X, Y)
	case 1:
		return fmt.Sprintf(`<path %s d="M%s %sl4 7h-8z"/>`, class, X, num(y-4))
	case 2:
		return fmt.Sprintf(`<path %s d="M%s %sh6.4v6.4h-6.4z"/>`, class, num(x-3.2), num(y-3.2))
	case 3:
		return fmt.Sprintf(`<path %s d="M%s %sl4.4 4.4l-4.4 4.4l-4.4 -4.4z"/>`, class, X, num(y-4.4))
	case 4:
		return fmt.Sprintf(`<path %s d="M%s %sl-4 -7h8z"/>`, class, X, num(y+4))
	default:
		return fmt.Sprintf(`<path %s d="M%s %sh2.6v3h3v2.6h-3v3h-2.6v-3h-3v-2.6h3z"/>`, class, num(x-1.3), num(y-4.3))
	}
}

func (r *Ratios) keys() []key {
	bar := func(colour int) func(s *Canvas, x, y float64) {
		return func(s *Canvas, x, y float64) {
			fmt.Fprintf(s, `<rect class="f%d" x="%s" y="%s" width="%g" height="9" rx="1.5"/>`, colour, num(x), num(y-4.5), keySign)
		}
	}
	keys := []key{{name: r.Ahead, draw: bar(Blue)}, {name: r.Behind, draw: bar(Orange)}}
	for i, name := range r.Others {
		keys = append(keys, key{name: name, draw: func(s *Canvas, x, y float64) { s.WriteString(shape(i, x+keySign/2, y)) }})
	}
	return keys
}

// Draw writes the picture as SVG. A height of 0 is that of Height.
func (r *Ratios) Draw(w io.Writer, size Size) error {
	if size.Height == 0 {
		size.Height = r.Height(size.Width)
	}
	axis := Axis{Kind: Log}
	low, high := 1.0, 1.0
	labels, bests, values := 0.0, 0.0, 0.0
	for _, g := range r.Groups {
		for _, row := range g.Rows {
			low, high = min(low, edge(row.Ratio)), max(high, edge(row.Ratio))
			for _, other := range row.Others {
				low, high = min(low, edge(other)), max(high, edge(other))
			}
			labels = max(labels, TextWidth(row.Label, textSize))
			bests = max(bests, TextWidth(row.best(), textSize))
			values = max(values, TextWidth(row.Value, textSize))
		}
	}
	axis.Min, axis.Max = floorLog(low), ceilingLog(high)
	f := &frame{size: size, left: labels + 22, right: float64(size.Width) - bests - values - 34}
	f.caption = wrap(r.Caption, textSize, float64(size.Width)-12)
	f.keys = 28 + lineHeight*float64(len(f.caption))
	s := new(Canvas)
	s.Begin(size, r.ID, r.Title, r.About, "")
	f.head(s, r.Title, r.Caption)
	f.top = f.keys + legend(s, r.keys(), 12, f.keys, float64(size.Width)-24) + 14
	f.bottom = float64(size.Height) - 44
	for _, v := range axis.ticks(int((f.right - f.left) / 50)) {
		x := f.x(&axis, v)
		s.Line("g-grid", 1, x, f.top, x, f.bottom)
		s.Text(x, f.bottom+16, smallSize, "middle", "t-soft", digits(v)+"×")
	}
	one := f.x(&axis, 1)
	s.Text((f.left+f.right)/2, f.bottom+34, smallSize, "middle", "t-soft", "so many times as good as the other, on a logarithmic scale")
	y := f.top
	for _, g := range r.Groups {
		fmt.Fprintf(s, `<text x="12" y="%s" font-size="%d" font-weight="600" class="t-ink">%s</text>`+"\n", num(y+groupHeight-8), textSize, Escape(g.Name))
		s.Text(float64(size.Width)-12-values-14, y+groupHeight-8, smallSize, "end", "t-soft", "beside the best")
		s.Text(float64(size.Width)-12, y+groupHeight-8, smallSize, "end", "t-soft", "Cleave")
		y += groupHeight
		for _, row := range g.Rows {
			r.row(s, f, &axis, &row, y+rowHeight/2, one, values)
			y += rowHeight
		}
	}
	s.Line("g-axis", 1.2, one, f.top, one, f.bottom)
	s.End()
	_, err := w.Write(s.Bytes())
	return err
}

// edge returns the ratio at which one is drawn.
func edge(ratio float64) float64 { return min(max(ratio, 1/maxRatio), maxRatio) }

// best says beside whom.
func (r *RatioRow) best() string { return formatRatio(r.Ratio) + "× " + r.Best }

// formatRatio writes a ratio with two digits at least.
func formatRatio(x float64) string {
	if x < 0.1 {
		return strconv.FormatFloat(x, 'g', 2, 64)
	}
	return strconv.FormatFloat(x, 'f', 2, 64)
}

// row draws one row around y.
func (r *Ratios) row(s *Canvas, f *frame, axis *Axis, row *RatioRow, y, one, values float64) {
	s.Text(f.left-10, y+4, textSize, "end", "t-ink", row.Label)
	x, colour := f.x(axis, edge(row.Ratio)), Blue
	if row.Ratio < 1 {
		colour = Orange
	}
	fmt.Fprintf(s, `<rect class="f%d" x="%s" y="%s" width="%s" height="11" rx="1.5"/>`+"\n", colour, num(min(one, x)), num(y-5.5), num(max(math.Abs(x-one), 1)))
	for i, name := range r.Others {
		if other, ok := row.Others[name]; ok && other > 0 {
			fmt.Fprintf(s, "<g>%s<title>%s</title></g>\n", shape(i, f.x(axis, edge(other)), y), Escape(fmt.Sprintf("%s: %s×", name, formatRatio(other))))
		}
	}
	s.Text(float64(f.size.Width)-12-values-14, y+4, textSize, "end", "t-ink", row.best())
	s.Text(float64(f.size.Width)-12, y+4, textSize, "end", "t-soft", row.Value)
}
