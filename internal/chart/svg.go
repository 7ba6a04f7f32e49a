package chart

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// Size says how a picture is drawn.
type Size struct {
	Width, Height int
	// Alone makes a document of its own of the picture, with its style and a ground, in place
	// of an element of a page.
	Alone bool
}

// Sizes of text.
const (
	titleSize = 15
	textSize  = 12
	smallSize = 11
)

// Canvas is a picture under way. Its zero value is empty; Begin comes first and End last.
// Colours are the classes that Style has.
type Canvas struct {
	bytes.Buffer
	id string // that ids within the document begin with
}

// Begin writes what comes before the first shape. data are attributes for scripts.
func (s *Canvas) Begin(size Size, id, title, about, data string) {
	s.id = id
	namespace := ""
	if size.Alone {
		namespace = ` xmlns="http://www.w3.org/2000/svg"`
	}
	fmt.Fprintf(s, `<svg%s class="chart" role="img" aria-labelledby="%s-t %s-d" viewBox="0 0 %d %d"`, namespace, id, id, size.Width, size.Height)
	if size.Alone {
		fmt.Fprintf(s, ` width="%d" height="%d"`, size.Width, size.Height)
	}
	fmt.Fprintf(s, ` font-family="system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"%s>`+"\n", data)
	fmt.Fprintf(s, "<title id=\"%s-t\">%s</title>\n<desc id=\"%s-d\">%s</desc>\n", id, Escape(title), id, Escape(about))
	if size.Alone {
		fmt.Fprintf(s, "<style>%s</style>\n<rect class=\"g-ground\" width=\"%d\" height=\"%d\"/>\n", Style(""), size.Width, size.Height)
	}
}

// End writes what comes behind the last shape.
func (s *Canvas) End() { s.WriteString("</svg>\n") }

// Text writes a line of text; anchor is start, middle or end.
func (s *Canvas) Text(x, y float64, size int, anchor, class, text string) {
	fmt.Fprintf(s, `<text x="%s" y="%s" font-size="%d" text-anchor="%s" class="%s">%s</text>`+"\n", num(x), num(y), size, anchor, class, Escape(text))
}

// Heading writes a title in bold.
func (s *Canvas) Heading(x, y float64, text string) {
	fmt.Fprintf(s, `<text x="%s" y="%s" font-size="%d" font-weight="600" class="t-ink">%s</text>`+"\n", num(x), num(y), titleSize, Escape(text))
}

// Line draws a straight line.
func (s *Canvas) Line(class string, width, x0, y0, x1, y1 float64) {
	fmt.Fprintf(s, `<path class="%s" stroke-width="%s" d="M%s %sL%s %s"/>`+"\n", class, num(width), num(x0), num(y0), num(x1), num(y1))
}

// num writes a coordinate: with a tenth of a pixel at most.
func num(v float64) string {
	text := fmt.Sprintf("%.1f", v)
	return strings.TrimSuffix(text, ".0")
}

// Escape makes text part of a document. What is no character of XML becomes U+FFFD.
func Escape(text string) string {
	var b strings.Builder
	if err := xml.EscapeText(&b, []byte(text)); err != nil {
		return ""
	}
	return b.String()
}

// TextWidth is about how wide text of a size is, in pixels: rather more than less.
func TextWidth(text string, size int) float64 {
	const narrow, wide = "iljtfrI.,:;'|!()[] ", "mwMW@%—"
	em := 0.0
	for _, r := range text {
		switch {
		case strings.ContainsRune(narrow, r):
			em += 0.37
		case strings.ContainsRune(wide, r):
			em += 0.9
		case r >= 'A' && r <= 'Z':
			em += 0.7
		default:
			em += 0.61
		}
	}
	return em * float64(size)
}

// wrap breaks text into lines that are not wider than width.
func wrap(text string, size int, width float64) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if next := strings.TrimSpace(line + " " + word); line == "" || TextWidth(next, size) <= width {
			line = next
			continue
		}
		lines = append(lines, line)
		line = word
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

// key is an entry of a legend.
type key struct {
	name string
	draw func(s *Canvas, x, y float64) // the sign, 18 pixels wide, around y
	data string                        // attributes of the group
}

const (
	keySign   = 18.0
	keyGap    = 16.0
	keyHeight = 18.0
)

// legend draws entries from left to right, in as many lines as it takes, and returns its
// height. With s nil it only measures.
func legend(s *Canvas, keys []key, x, y, width float64) (height float64) {
	at, row := 0.0, 0.0
	for _, k := range keys {
		w := keySign + 6 + TextWidth(k.name, textSize)
		if at > 0 && at+w > width {
			at, row = 0, row+1
		}
		if s != nil {
			fmt.Fprintf(s, "<g class=\"key\"%s>", k.data)
			middle := y + row*keyHeight + keyHeight/2
			k.draw(s, x+at, middle)
			s.Text(x+at+keySign+6, middle+4, textSize, "start", "t-soft", k.name)
			s.WriteString("</g>\n")
		}
		at += w + keyGap
	}
	if len(keys) == 0 {
		return 0
	}
	return (row + 1) * keyHeight
}

// shorten cuts text to about a width.
func shorten(text string, size int, width float64) string {
	if TextWidth(text, size) <= width {
		return text
	}
	for len(text) > 0 && TextWidth(text+"…", size) > width {
		_, n := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-n]
	}
	return text + "…"
}

// finite reports whether a value can be drawn.
func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
