package query

import "math"

// Total is a sum of numbers. In which order they come does not decide whether it has left the range of
// doubles on the way.
type Total struct {
	sum   float64
	small float64 // the sum times smaller, which stays in the range of doubles
}

// smaller is a power of two: no sum of its products with doubles leaves their range.
const smaller = 0x1p-70

// Add adds a number n times.
func (t *Total) Add(f, n float64) {
	t.sum += f * n
	t.small += f * smaller * n
}

func (t *Total) merge(o *Total) {
	t.sum += o.sum
	t.small += o.small
}

func (t *Total) left() bool { return math.IsNaN(t.sum) || math.IsInf(t.sum, 0) }

// Sum returns the sum.
func (t *Total) Sum() float64 {
	if t.left() {
		return t.small / smaller
	}
	return t.sum
}

// Mean returns the sum divided by a count. It is in the range of doubles if the numbers are.
func (t *Total) Mean(count int64) float64 {
	if t.left() {
		return t.small / float64(count) / smaller
	}
	return t.sum / float64(count)
}
