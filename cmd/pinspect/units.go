package main

import (
	"math"
	"strconv"
	"strings"
)

// formatBytes returns a size with a binary unit: "1.41 GiB".
func formatBytes[N int | int64 | uint64](n N) string {
	x, unit := float64(n), "B"
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if math.Abs(x) < 999.5 {
			break
		}
		x, unit = x/1024, next
	}
	if unit == "B" {
		return strconv.FormatInt(int64(n), 10) + " B"
	}
	decimals := 2
	switch abs := math.Abs(x); {
	case abs >= 99.95:
		decimals = 0
	case abs >= 9.995:
		decimals = 1
	}
	return strconv.FormatFloat(x, 'f', decimals, 64) + " " + unit
}

// formatCount returns an integer with separators: "1,234,567".
func formatCount[N int | int64 | uint64](n N) string {
	digits := strconv.FormatUint(uint64(n), 10)
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

// formatBound is formatCount of what may be an upper bound.
func formatBound(n int64, exact bool) string {
	if exact || n == 0 {
		return formatCount(n)
	}
	return "≤ " + formatCount(n)
}

// formatRatio returns part / whole with two decimals, "-" if there is no whole.
func formatRatio[N int | int64 | uint64](part, whole N) string {
	if whole == 0 {
		return "-"
	}
	return strconv.FormatFloat(float64(part)/float64(whole), 'f', 2, 64)
}

// plural returns "1 file" or "2 files".
func plural[N int | int64 | uint64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return formatCount(n) + " " + many
}

// formatSpan returns a range of sequences.
func formatSpan(lo, hi uint64) string {
	if hi == 0 {
		return "-"
	}
	return formatCount(lo) + "–" + formatCount(hi)
}

// formatPercent returns a share as a percentage, always six cells wide.
func formatPercent(share float64) string {
	text := strconv.FormatFloat(100*share, 'f', 1, 64) + "%"
	return strings.Repeat(" ", max(0, 6-len(text))) + text
}
