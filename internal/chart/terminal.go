package chart

import (
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"
)

// Bar draws part of whole as a bar of text of at most width cells, in eighths. What is not
// nothing shows.
func Bar[N int | int64 | uint64](part, whole N, width int) string {
	if whole <= 0 || part <= 0 {
		return ""
	}
	eighths := int(math.Round(math.Min(float64(part)/float64(whole), 1) * float64(8*width)))
	eighths = max(eighths, 1)
	text := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		text += string([]rune("▏▎▍▌▋▊▉")[rest-1])
	}
	return text
}

// Row is a bar of PrintLog with what stands before and behind it.
type Row struct {
	Label string
	Value float64 // above 0, or there is no bar
	Note  string
}

const logWidth = 50 // columns

// PrintLog prints values as bars of text on a logarithmic scale, with a mark at a limit.
func PrintLog(w io.Writer, rows []Row, limit float64) {
	least, most, labels := limit, limit, 0
	for _, r := range rows {
		labels = max(labels, utf8.RuneCountInString(r.Label))
		if r.Value > 0 {
			least, most = min(least, r.Value), max(most, r.Value)
		}
	}
	least /= 2 // so that the least has a bar too
	column := func(x float64) int {
		if x <= 0 {
			return 0
		}
		return int(math.Round(logWidth * math.Log(x/least) / math.Log(most/least)))
	}
	mark := column(limit)
	for _, r := range rows {
		line := []rune(strings.Repeat("▓", column(r.Value)) + strings.Repeat(" ", logWidth+1-column(r.Value)))
		line[mark] = '|'
		text := fmt.Sprintf("  %s%s %s %s", strings.Repeat(" ", labels-utf8.RuneCountInString(r.Label)), r.Label, string(line), r.Note)
		fmt.Fprintln(w, strings.TrimRight(text, " "))
	}
}
