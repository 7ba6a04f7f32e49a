package cli

import (
	"io"
	"strings"
	"unicode/utf8"
)

// Table prints columns, aligned to the right except where told otherwise.
type Table struct {
	rows  [][]string
	lefts map[int]bool
}

// NewTable returns a table with these headings, without a line of them if all
// are empty. A heading that begins with < is that of a column aligned to the
// left.
func NewTable(headings ...string) *Table {
	t := &Table{lefts: make(map[int]bool)}
	head := make([]string, len(headings))
	for i, h := range headings {
		head[i], t.lefts[i] = strings.CutPrefix(h, "<")
	}
	if strings.Join(head, "") != "" {
		t.rows = append(t.rows, head)
	}
	return t
}

// Row adds a row. One of a single cell runs across the columns.
func (t *Table) Row(cells ...string) { t.rows = append(t.rows, cells) }

// Print writes the table, each line after indent.
func (t *Table) Print(w io.Writer, indent string) {
	var widths []int
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			if len(row) > 1 {
				widths[i] = max(widths[i], utf8.RuneCountInString(cell))
			}
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
