package main

import "math"

// search looks for the greatest rate that meets an objective, given that lower
// rates meet it and higher ones do not. It first goes up in steps of the
// maximum, which also gives the curve, then halves the interval that is left.
type search struct {
	maximum float64 // what a closed loop reaches
	low     float64 // the greatest rate that met it; 0: none did
	high    float64 // the least rate that did not; 0: all did
}

// ladder are the first rates, as shares of the maximum.
var ladder = []float64{0.1, 0.25, 0.5, 0.75, 1, 1.25}

const (
	// precise is how near low and high are at the end.
	precise = 1.05
	// hopelessShare is below what share of the maximum nothing is tried.
	hopelessShare = 1e-3
)

// next returns the rate to try, 0 when the search is over.
func (s *search) next() float64 {
	rate := 0.0
	switch {
	case s.high == 0:
		for _, share := range ladder {
			if rate = significant(share * s.maximum); rate > s.low {
				break
			}
			rate = 0
		}
	case s.low == 0:
		if rate = significant(s.high / 2); rate < hopelessShare*s.maximum {
			return 0
		}
	default:
		if s.high <= precise*s.low {
			return 0
		}
		rate = significant(math.Sqrt(s.low * s.high))
	}
	if rate < 1 || rate <= s.low || s.high > 0 && rate >= s.high {
		return 0
	}
	return rate
}

// tried notes whether a rate met the objective.
func (s *search) tried(rate float64, met bool) {
	if met {
		s.low = max(s.low, rate)
	} else if s.high == 0 || rate < s.high {
		s.high = rate
	}
}

// significant rounds to three digits.
func significant(x float64) float64 {
	if x <= 0 {
		return 0
	}
	unit := math.Pow10(int(math.Floor(math.Log10(x))) - 2)
	if unit < 1 {
		unit = 1
	}
	return math.Round(x/unit) * unit
}
