package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/cleavestore/cleave/internal/chart"
	"github.com/cleavestore/cleave/internal/humanize"
	"github.com/cleavestore/cleave/internal/jsondoc"
)

// Measures of the picture, in pixels.
const (
	svgWidth   = 1200
	svgMargin  = 40
	svgBar     = svgWidth - 2*svgMargin // the key space
	svgHead    = 62                     // title and caption
	svgSkyline = 120
	svgPart    = 44 // height of the partitions
	svgHeat    = 12 // height of the heat, below them
	svgFoot    = 56 // scale and what is below it
	svgEach    = svgHead + svgSkyline + svgPart + svgHeat + svgFoot
	svgLegend  = 66
)

// Colours: partitions from light to dark by their size; ink by its weight.
const (
	svgInk   = "#1f2933"
	svgFaint = "#7b8794"
	svgLine  = "#ffffff"
	svgPeak  = "#c2410c"
)

// svg writes a picture. Errors are those of w, met when it is flushed or
// closed.
type svg struct{ w io.Writer }

func (s svg) printf(format string, args ...any) { fmt.Fprintf(s.w, format, args...) }

// text writes a line of text; anchor is start, middle or end.
func (s svg) text(x, y float64, size int, anchor, colour, text string) {
	s.printf(`<text x="%.1f" y="%.1f" font-size="%d" text-anchor="%s" fill="%s">%s</text>`+"\n", x, y, size, anchor, colour, chart.Escape(text))
}

// drawSVG draws the maps one below the other.
func drawSVG(w io.Writer, maps []*mapReport) {
	s := svg{w}
	height := len(maps)*svgEach + svgLegend
	s.printf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif">`+"\n", svgWidth, height, svgWidth, height)
	s.printf("<title>Key space</title>\n")
	s.printf(`<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", svgWidth, height)
	for i, m := range maps {
		s.container(m, float64(i*svgEach))
	}
	s.legend(float64(len(maps) * svgEach))
	s.printf("</svg>\n")
}

// container draws one map with its upper edge at y.
func (s svg) container(m *mapReport, y float64) {
	s.printf(`<text x="%d" y="%.1f" font-size="18" fill="%s"><tspan font-weight="600">%s</tspan><tspan fill="%s" dx="10" font-size="14">%s</tspan></text>`+"\n",
		svgMargin, y+28, svgInk, chart.Escape(m.Container), svgFaint, chart.Escape(strings.Join(jsondoc.SplitPaths(jsondoc.JoinPaths(m.Key)), ", ")))
	s.text(svgMargin, y+48, 12, "start", svgFaint, m.caption())
	top := y + svgHead
	base := top + svgSkyline
	s.skyline(m, top, base)
	s.partitions(m, base)
	s.peaks(m, top, base)
	if m.Heat != nil {
		s.heat(m, base+svgPart)
	}
	s.scale(m, base+svgPart+svgHeat)
	s.text(svgMargin, base+svgPart+svgHeat+40, 11, "start", svgFaint, m.heatCaption())
}

// heat draws the heat along the key space.
func (s svg) heat(m *mapReport, y float64) {
	const cells = 240
	var heat [cells]int64
	var most int64
	for i, n := range m.Heat.ByPlace {
		c := i * cells / len(m.Heat.ByPlace)
		heat[c] += n
		most = max(most, heat[c])
	}
	width := float64(svgBar) / cells
	for i := 0; i < cells; {
		to := i + 1
		for to < cells && heat[to] == heat[i] {
			to++
		}
		s.printf(`<rect x="%.2f" y="%.1f" width="%.2f" height="%d" fill="%s" shape-rendering="crispEdges"/>`+"\n",
			svgMargin+float64(i)*width, y+1, float64(to-i)*width+0.05, svgHeat-2, chart.HeatColour(float64(heat[i])/float64(max(most, 1))))
		i = to
	}
}

func (m *mapReport) most() (partition, bin int64) {
	for i := range m.Partitions {
		partition = max(partition, m.Partitions[i].RawBytes)
	}
	for _, n := range m.Density {
		bin = max(bin, n)
	}
	return partition, bin
}

// skyline draws the bytes along the key space, in the colours of the partitions.
func (s svg) skyline(m *mapReport, top, base float64) {
	most, highest := m.most()
	if highest == 0 {
		s.text(svgWidth/2, base-10, 12, "middle", svgFaint, "no documents")
		return
	}
	width := float64(svgBar) / float64(len(m.Density))
	at := 0 // partition
	open := ""
	for i, n := range m.Density {
		middle := (float64(i) + 0.5) / float64(len(m.Density))
		for at+1 < len(m.Partitions) && m.window.Clip(&m.Partitions[at].rng.Max) <= middle {
			at++
		}
		fill := svgFaint
		if at < len(m.Partitions) {
			fill, _ = chart.SizeColour(0.3 + 0.7*float64(m.Partitions[at].RawBytes)/float64(max(most, 1)))
		}
		if n == 0 {
			continue
		}
		if fill != open {
			if open != "" {
				s.printf("</g>\n")
			}
			s.printf(`<g fill="%s" shape-rendering="crispEdges">`+"\n", fill)
			open = fill
		}
		h := max(float64(n)/float64(highest)*(svgSkyline-22), 0.5)
		s.printf(`<rect x="%.2f" y="%.2f" width="%.2f" height="%.2f"/>`+"\n", svgMargin+float64(i)*width, base-h-2, width+0.05, h)
	}
	if open != "" {
		s.printf("</g>\n")
	}
}

// partitions draws the bar.
func (s svg) partitions(m *mapReport, y float64) {
	most, _ := m.most()
	for i := range m.Partitions {
		p := &m.Partitions[i]
		x0 := svgMargin + m.window.Clip(&p.rng.Min)*svgBar
		x1 := svgMargin + m.window.Clip(&p.rng.Max)*svgBar
		width := x1 - x0
		fill, text := chart.SizeColour(float64(p.RawBytes) / float64(max(most, 1)))
		gap := 1.0
		if width < 4 {
			gap = 0
		}
		bound := ""
		if !p.Exact && p.Documents > 0 {
			bound = "≤ "
		}
		s.printf(`<g><rect x="%.2f" y="%.1f" width="%.2f" height="%d" fill="%s"/>`, x0+gap/2, y, max(width-gap, 0.5), svgPart, fill)
		heat := ""
		if m.Heat != nil {
			heat = fmt.Sprintf("\n%s of the heat", strings.TrimSpace(formatPercent(m.heat(p))))
		}
		s.printf("<title>%s</title></g>\n", chart.Escape(fmt.Sprintf("physical partition %d: from %s, %s of the key space\n%s, %s%s, %s%s of JSON, %s in files%s",
			p.ID, shortEPK(&p.rng.Min), strings.TrimSpace(formatPercent(p.Share)), humanize.Plural(p.Logical, "logical partition", "logical partitions"),
			bound, humanize.Plural(p.Documents, "document", "documents"), bound, humanize.Bytes(p.RawBytes), humanize.Bytes(p.FileBytes), heat)))
		middle := (x0 + x1) / 2
		size := humanize.Bytes(p.RawBytes)
		switch {
		case width > float64(8*len(size)+8):
			s.text(middle, y+19, 13, "middle", text, fmt.Sprint(p.ID))
			s.text(middle, y+36, 11, "middle", text, size)
		case width > 26:
			s.text(middle, y+27, 12, "middle", text, fmt.Sprint(p.ID))
		}
	}
}

// peaks names the largest logical partitions over the skyline, where there is
// room.
func (s svg) peaks(m *mapReport, top, base float64) {
	_, highest := m.most()
	if highest == 0 {
		return
	}
	type span struct{ from, to float64 }
	var taken []span
	for i := range m.Largest {
		l := &m.Largest[i]
		x := svgMargin + m.window.Part(l.Place)*svgBar
		bin := min(int(m.window.Part(l.Place)*float64(len(m.Density))), len(m.Density)-1)
		if l.RawBytes < m.Density[bin]/2 {
			continue // it is no peak
		}
		peak := base - 2 - float64(m.Density[bin])/float64(highest)*(svgSkyline-22)
		label := fmt.Sprintf("%s %s", l.name(), humanize.Bytes(l.RawBytes))
		half := 3.3*float64(len([]rune(label))) + 4
		middle := min(max(x, svgMargin+half), svgMargin+svgBar-half)
		room := true
		for _, t := range taken {
			room = room && (middle+half < t.from || middle-half > t.to)
		}
		if !room {
			continue
		}
		taken = append(taken, span{middle - half, middle + half})
		s.printf(`<circle cx="%.1f" cy="%.1f" r="2.2" fill="%s"/>`+"\n", x, peak, svgPeak)
		s.printf(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="0.8" stroke-dasharray="2 2"/>`+"\n", x, top+10, x, peak, svgPeak)
		s.text(middle, top+6, 11, "middle", svgPeak, label)
	}
}

// scale names places of the key space.
func (s svg) scale(m *mapReport, y float64) {
	const marks = 8
	for i := range marks + 1 {
		part := float64(i) / marks
		x := svgMargin + part*svgBar
		s.printf(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s"/>`+"\n", x, y+2, x, y+7, svgFaint)
		s.text(x, y+20, 11, "middle", svgFaint, m.placeName(part))
	}
}

// legend explains the picture.
func (s svg) legend(y float64) {
	row := func(y float64, colour func(float64) string, least, most string) {
		const width, steps = 120.0, 24
		x := float64(svgMargin)
		s.text(x, y, 11, "start", svgFaint, least)
		x += 42
		for i := range steps {
			s.printf(`<rect x="%.2f" y="%.1f" width="%.2f" height="10" fill="%s"/>`+"\n", x+float64(i)*width/steps, y-9, width/steps+0.1, colour(float64(i)/(steps-1)))
		}
		s.text(x+width+8, y, 11, "start", svgFaint, most)
	}
	row(y+20, func(part float64) string { fill, _ := chart.SizeColour(part); return fill }, "empty", "bar: fullest physical partition of its container")
	row(y+38, chart.HeatColour, "cold", "strip below it: where most was written lately")
	s.text(svgWidth-svgMargin, y+20, 11, "end", svgFaint, "left to right: the hash of the key, 00 to 3F")
	s.text(svgWidth-svgMargin, y+38, 11, "end", svgFaint, "hills: bytes of documents there; a lone peak: one large logical partition")
}
