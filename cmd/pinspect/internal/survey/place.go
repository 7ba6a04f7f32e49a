package survey

import (
	"math"

	"github.com/cleavestore/cleave/partmap"
)

// Position returns the place of an EPK in the key space, between 0 and 1.
func Position(e *partmap.EPK) float64 { return place(e.Head()) }

// place is position of an EPK that begins with these 8 bytes.
func place(head uint64) float64 {
	const keys = 1 << 62 // the two highest bits of a key's EPK are clear
	return math.Min(float64(head)/keys, 1)
}

// Window is a part of the key space, by positions. The zero window is all.
type Window struct{ Lo, Hi float64 }

// Part returns where in the window a position lies: 0 to 1, and beyond.
func (w Window) Part(position float64) float64 {
	if w.Hi == 0 {
		return position
	}
	return (position - w.Lo) / (w.Hi - w.Lo)
}

// Clip is part, moved to the nearer end of the window if it lies outside.
func (w Window) Clip(e *partmap.EPK) float64 { return min(max(w.Part(Position(e)), 0), 1) }
