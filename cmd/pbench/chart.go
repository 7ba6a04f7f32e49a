package main

import (
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"
)

// chartRow is a bar with what stands before and behind it.
type chartRow struct {
	label string
	value float64 // above 0, or there is no bar
	note  string
}

const chartWidth = 50 // columns

// printChart draws values as bars on a logarithmic scale, with a mark at a
// limit.
func printChart(w io.Writer, rows []chartRow, limit float64) {
	least, most, labels := limit, limit, 0
	for _, r := range rows {
		labels = max(labels, utf8.RuneCountInString(r.label))
		if r.value > 0 {
			least, most = min(least, r.value), max(most, r.value)
		}
	}
	least /= 2 // so that the least has a bar too
	column := func(x float64) int {
		if x <= 0 {
			return 0
		}
		return int(math.Round(chartWidth * math.Log(x/least) / math.Log(most/least)))
	}
	mark := column(limit)
	for _, r := range rows {
		line := []rune(strings.Repeat("▓", column(r.value)) + strings.Repeat(" ", chartWidth+1-column(r.value)))
		line[mark] = '|'
		text := fmt.Sprintf("  %s%s %s %s", strings.Repeat(" ", labels-utf8.RuneCountInString(r.label)), r.label, string(line), r.note)
		fmt.Fprintln(w, strings.TrimRight(text, " "))
	}
}
