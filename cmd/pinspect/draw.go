package main

import (
	"math"
	"strings"

	"github.com/cleavestore/cleave/cmd/pinspect/internal/survey"
	"github.com/cleavestore/cleave/partmap"
)

// bar draws part of whole as a bar of at most width cells, in eighths; what is
// not nothing shows.
func bar[N int | int64 | uint64](part, whole N, width int) string {
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

// strip draws a range as the part of the key space that it covers. A range
// that is smaller than a cell has one.
func strip(r partmap.Range, width int) string {
	lo := min(int(math.Round(survey.Position(&r.Min)*float64(width))), width-1)
	hi := max(int(math.Round(survey.Position(&r.Max)*float64(width))), lo+1)
	return strings.Repeat("·", lo) + strings.Repeat("█", hi-lo) + strings.Repeat("·", width-hi)
}

// shortEPK returns the first digits of a boundary; "-" is the start of the key
// space.
func shortEPK(e *partmap.EPK) string {
	text := e.String()
	if text == "" {
		return "-"
	}
	return text[:min(len(text), 12)]
}
