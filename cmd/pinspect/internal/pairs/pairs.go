// Package pairs prints names with their values in two columns.
package pairs

import (
	"io"
	"strings"
	"unicode/utf8"
)

// List is a list of names and values. It is for one goroutine.
type List struct{ rows [][2]string }

// Add adds a pair.
func (p *List) Add(name, value string) { p.rows = append(p.rows, [2]string{name, value}) }

// Print prints one pair a line. Errors are met when w is flushed.
func (p *List) Print(w io.Writer) {
	width := 0
	for _, r := range p.rows {
		width = max(width, utf8.RuneCountInString(r[0]))
	}
	for _, r := range p.rows {
		io.WriteString(w, r[0]+strings.Repeat(" ", width-utf8.RuneCountInString(r[0])+2)+r[1]+"\n")
	}
}
