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

func newTable(head ...string) *table {
	return &table{rows: [][]string{head}, lefts: map[int]bool{0: true}}
}

// left aligns a column to the left.
func (t *table) left(column int) { t.lefts[column] = true }

func (t *table) row(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) print(w io.Writer) {
	var widths []int
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, row := range t.rows {
		line := ""
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i > 0 {
				line += "  "
			}
			if t.lefts[i] {
				line += cell + pad
			} else {
				line += pad + cell
			}
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	io.WriteString(w, b.String())
}
