package main

import (
	"io"
	"strings"
	"unicode/utf8"
)

// pairs prints names and values, one pair a line.
type pairs struct{ rows [][2]string }

func (p *pairs) add(name, value string) { p.rows = append(p.rows, [2]string{name, value}) }

func (p *pairs) print(w io.Writer) {
	width := 0
	for _, r := range p.rows {
		width = max(width, utf8.RuneCountInString(r[0]))
	}
	for _, r := range p.rows {
		io.WriteString(w, r[0]+strings.Repeat(" ", width-utf8.RuneCountInString(r[0])+2)+r[1]+"\n")
	}
}
