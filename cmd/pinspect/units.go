package main

import (
	"strconv"
	"strings"

	"github.com/cleavestore/cleave/internal/humanize"
)

// formatBound is humanize.Count of what may be an upper bound.
func formatBound(n int64, exact bool) string {
	if exact || n == 0 {
		return humanize.Count(n)
	}
	return "≤ " + humanize.Count(n)
}

// formatRatio returns part / whole with two decimals, "-" if there is no whole.
func formatRatio[N int | int64 | uint64](part, whole N) string {
	if whole == 0 {
		return "-"
	}
	return strconv.FormatFloat(float64(part)/float64(whole), 'f', 2, 64)
}

// formatSpan returns a range of sequences.
func formatSpan(lo, hi uint64) string {
	if hi == 0 {
		return "-"
	}
	return humanize.Count(lo) + "–" + humanize.Count(hi)
}

// formatPercent returns a share as a percentage, always six cells wide.
func formatPercent(share float64) string {
	text := strconv.FormatFloat(100*share, 'f', 1, 64) + "%"
	return strings.Repeat(" ", max(0, 6-len(text))) + text
}
