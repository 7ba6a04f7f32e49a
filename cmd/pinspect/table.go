package main

import (
	"io"
	"strings"
	"unicode/utf8"
)

// table prints columns, aligned to the right except where told otherwise.
type table struct {
	rows  [][]string
	lefts map[int]bool
}

// newTable returns a table with these headings. A heading that begins with <
// is that of a column aligned to the left.
func newTable(head ...string) *table {
	t := &table{lefts: make(map[int]bool)}
	for i, h := range head {
		head[i], t.lefts[i] = strings.CutPrefix(h, "<")
	}
	t.rows = [][]string{head}
	return t
}

func (t *table) row(cells ...string) { t.rows = append(t.rows, cells) }

// print writes the table, each line after indent. A row of one cell runs across
// the columns.
func (t *table) print(w io.Writer, indent string) {
	var widths []int
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			if len(row) == 1 {
				continue
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var line strings.Builder
	for _, row := range t.rows {
		line.Reset()
		line.WriteString(indent)
		for i, cell := range row {
			pad := strings.Repeat(" ", max(0, widths[i]-utf8.RuneCountInString(cell)))
			if i > 0 {
				line.WriteString("  ")
			}
			if t.lefts[i] {
				line.WriteString(cell + pad)
			} else {
				line.WriteString(pad + cell)
			}
		}
		io.WriteString(w, strings.TrimRight(line.String(), " ")+"\n")
	}
}

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
