package chart

import (
	"fmt"
	"io"
	"math"
	"strings"
)

// Heat draws how much happened where, and when: time to the right, places upwards.
type Heat struct {
	ID      string // within the document
	Title   string
	Caption string
	About   string
	X       Axis // of time, bounded
	Places  int  // rows
	Rows    string
	// Columns are the intervals of time, by From.
	Columns []HeatColumn
	Borders []Border
	Format  func(float64) string // of a value
	Unit    string               // what a value is
	Lanes   []Lane
	Zoom    bool
}

// HeatColumn is what happened in an interval, by place.
type HeatColumn struct {
	From, To float64
	Values   []float64
}

// Border is a line at a place, for as long as it is there.
type Border struct {
	Place    float64 // 0 to 1
	From, To float64
	New      bool // it came while the picture was taken
	Note     string
}

// Most returns the greatest value.
func (h *Heat) Most() (most float64) {
	for _, c := range h.Columns {
		for _, v := range c.Values {
			most = max(most, v)
		}
	}
	return most
}

// level returns the colour of a value. Levels are those of the square root: a place with a
// hundredth of the most differs from one with nothing.
func level(v, most float64) int {
	if v <= 0 || most <= 0 {
		return 0
	}
	return 1 + min(int(math.Sqrt(v/most)*Levels), Levels-1)
}

// Draw writes the picture as SVG.
func (h *Heat) Draw(w io.Writer, size Size) error {
	p := Plot{ID: h.ID, Title: h.Title, Caption: h.Caption, X: h.X, Lanes: h.Lanes, Zoom: h.Zoom, Y: Axis{Min: 0, Max: 1, Format: func(float64) string { return "3F…FF" }}}
	f := p.frame(size)
	f.left = max(f.left, 52)
	f.top = f.keys + h.keyRows(f)*keyHeight + 8
	s := new(Canvas)
	s.Begin(size, h.ID, h.Title, h.About, f.data(&p))
	f.head(s, h.Title, h.Caption)
	h.key(s, f)
	// The ground shows where nothing was measured.
	for i := range 5 {
		place := float64(i) / 4
		y := f.bottom - place*(f.bottom-f.top)
		s.Text(f.left-8, y+4, smallSize, "end", "t-soft", []string{"00", "10", "20", "30", "3F…FF"}[i])
		s.Line("g-axis", 1, f.left-4, y, f.left, y)
	}
	f.xLabels(s, &h.X)
	s.zoom(f)
	h.cells(s, f)
	h.borders(s, f)
	s.WriteString("</svg>\n")
	f.lanes(s, &p)
	s.End()
	_, err := w.Write(s.Bytes())
	return err
}

// cells draws one path for each colour.
func (h *Heat) cells(s *Canvas, f *frame) {
	most := h.Most()
	var paths [Levels + 1]strings.Builder
	for _, c := range h.Columns {
		x0, x1 := f.x(&h.X, c.From), f.x(&h.X, c.To)
		rows := len(c.Values)
		for i := 0; i < rows; {
			l, to := level(c.Values[i], most), i+1
			for to < rows && level(c.Values[to], most) == l {
				to++
			}
			y0, y1 := f.bottom-float64(i)/float64(rows)*(f.bottom-f.top), f.bottom-float64(to)/float64(rows)*(f.bottom-f.top)
			// A little more, so that neighbours leave no gap.
			fmt.Fprintf(&paths[l], "M%s %sH%sV%sH%sz", num(x0), num(y0), num(x1+0.3), num(y1), num(x0))
			i = to
		}
	}
	for l := range paths {
		if paths[l].Len() > 0 {
			fmt.Fprintf(s, `<path class="h%d" shape-rendering="crispEdges" d="%s"/>`+"\n", l, paths[l].String())
		}
	}
}

// borders draws the boundaries, and a sign where one appears.
func (h *Heat) borders(s *Canvas, f *frame) {
	for _, b := range h.Borders {
		x0, x1 := f.x(&h.X, b.From), f.x(&h.X, b.To)
		y := f.bottom - b.Place*(f.bottom-f.top)
		d := fmt.Sprintf("M%s %sH%s", num(x0), num(y), num(x1))
		fmt.Fprintf(s, `<path class="line g-halo" stroke-width="3" stroke-opacity="0.75" d="%s"/>`, d)
		dash := ` stroke-dasharray="1.5 3"`
		if b.New {
			dash = ""
		}
		fmt.Fprintf(s, `<path class="line s%d" stroke-width="1.3"%s d="%s"><title>%s</title></path>`+"\n", Ink, dash, d, Escape(b.Note))
		if b.New {
			fmt.Fprintf(s, `<path class="f%d g-halo" stroke-width="1" d="M%s %sl-5.5 -5.5v11z"><title>%s</title></path>`+"\n", Ink, num(x0), num(y), Escape(b.Note))
		}
	}
}

// keyRows is how many rows the key has.
func (h *Heat) keyRows(f *frame) float64 {
	if f.size.Width < 500 {
		return 4
	}
	return 2
}

// key explains the colours and the lines.
func (h *Heat) key(s *Canvas, f *frame) {
	most := h.Most()
	y := f.keys + keyHeight/2
	x := f.left
	cell := 9.0
	unit := h.Format(most) + " " + h.Unit
	second := y + keyHeight
	if h.keyRows(f) > 2 {
		cell, unit, second = 7, h.Format(most), y+3*keyHeight
		s.Text(x, y+2*keyHeight+4, smallSize, "start", "t-soft", h.Unit)
	}
	s.Text(x, y+4, smallSize, "start", "t-soft", "0")
	x += 12
	for l := range Levels + 1 {
		fmt.Fprintf(s, `<rect class="h%d" x="%s" y="%s" width="%s" height="11"/>`+"\n", l, num(x+float64(l)*cell), num(y-5.5), num(cell+0.2))
	}
	end := x + (Levels+1)*cell
	half := x + cell*(1+Levels/2)
	s.Text(half, y+18, smallSize, "middle", "t-soft", h.Format(most/4))
	s.Text(end+6, y+4, smallSize, "start", "t-soft", unit)
	at := f.right
	for _, k := range []struct {
		name string
		new  bool
	}{{"boundary from a split", true}, {"boundary before", false}} {
		if !h.has(k.new) {
			continue
		}
		at -= TextWidth(k.name, smallSize)
		s.Text(at, second+4, smallSize, "start", "t-soft", k.name)
		dash := ` stroke-dasharray="1.5 3"`
		if k.new {
			dash = ""
			fmt.Fprintf(s, `<path class="f%d" d="M%s %sl-5 -5v10z"/>`, Ink, num(at-20), num(second))
		}
		fmt.Fprintf(s, `<path class="line s%d" stroke-width="1.3"%s d="M%s %sh16"/>`+"\n", Ink, dash, num(at-22), num(second))
		at -= 38
	}
}

func (h *Heat) has(fresh bool) bool {
	for _, b := range h.Borders {
		if b.New == fresh {
			return true
		}
	}
	return false
}
