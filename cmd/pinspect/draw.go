package main

import (
	"math"
	"strings"

	"github.com/cleavestore/cleave/cmd/pinspect/internal/survey"
	"github.com/cleavestore/cleave/partmap"
)

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
