package chart

import (
	"math"
	"strconv"

	"github.com/cleavestore/cleave/internal/humanize"
)

// Kind is how an axis spaces its values.
type Kind uint8

const (
	Linear Kind = iota
	Log         // values above 0
	// Tail spaces percentages below 100 by what is left of 100, on a logarithmic scale: as far
	// from 90 to 99 as from 99 to 99.9.
	Tail
)

// Axis describes one direction of a picture.
type Axis struct {
	Title string
	Kind  Kind
	// Min and Max bound it. If they are equal, the values do; a linear axis then begins at 0.
	Min, Max float64
	// Format writes a value; nil: with three digits.
	Format func(float64) string
	Step   []float64 // distances that ticks may have, ascending; nil: 1, 2 or 5 times a power of ten
}

func (a *Axis) format(v float64) string {
	if a.Format != nil {
		return a.Format(v)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// fit bounds an axis that has no bounds by values.
func (a *Axis) fit(values func(yield func(float64))) {
	if a.Min != a.Max {
		return
	}
	low, high := math.Inf(1), math.Inf(-1)
	values(func(v float64) {
		if !math.IsNaN(v) && (a.Kind != Log || v > 0) {
			low, high = min(low, v), max(high, v)
		}
	})
	switch {
	case low > high: // there is none
		a.Min, a.Max = 0, 1
		if a.Kind == Log {
			a.Min, a.Max = 1, 10
		}
	case a.Kind == Log:
		a.Min, a.Max = floorLog(low), ceilingLog(high)
		if a.Min == a.Max {
			a.Max *= 10
		}
	case a.Kind == Linear:
		a.Min, a.Max = min(low, 0), max(high, 0)
		if a.Min == a.Max {
			a.Max = a.Min + 1
		}
		step := a.step(4)
		a.Min, a.Max = step*math.Floor(a.Min/step), step*math.Ceil(a.Max/step-1e-9)
	default:
		a.Min, a.Max = low, high
	}
}

// floorLog and ceilingLog return the next 1, 2 or 5 times a power of ten.
func floorLog(v float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(v)))
	for _, f := range []float64{5, 2} {
		if f*unit <= v {
			return f * unit
		}
	}
	return unit
}

func ceilingLog(v float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(v)))
	for _, f := range []float64{1, 2, 5} {
		if f*unit >= v*(1-1e-9) {
			return f * unit
		}
	}
	return 10 * unit
}

// part returns where a value lies: 0 at the beginning of the axis, 1 at its end.
func (a *Axis) part(v float64) float64 {
	warp := func(v float64) float64 { return v }
	switch a.Kind {
	case Log:
		warp = func(v float64) float64 { return math.Log10(max(v, math.SmallestNonzeroFloat64)) }
	case Tail:
		warp = func(v float64) float64 { return -math.Log10(max(100-v, 1e-12)) }
	}
	low, high := warp(a.Min), warp(a.Max)
	if low == high {
		return 0
	}
	return min(max((warp(v)-low)/(high-low), 0), 1)
}

// step returns a distance of linear ticks, about n of which the axis has.
func (a *Axis) step(n int) float64 {
	least := (a.Max - a.Min) / float64(max(n, 1))
	for _, s := range a.Step {
		if s >= least*(1-1e-9) {
			return s
		}
	}
	if least <= 0 {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(least)))
	for _, f := range []float64{1, 2, 5, 10} {
		if f*unit >= least*(1-1e-9) {
			return f * unit
		}
	}
	return 10 * unit
}

// ticks returns about n values at which an axis has a line and a number.
func (a *Axis) ticks(n int) (values []float64) {
	switch a.Kind {
	case Log:
		decades := math.Log10(a.Max / a.Min)
		factors := []float64{1}
		if decades < 2.5 && float64(n) >= 3*decades {
			factors = []float64{1, 2, 5}
		}
		skip := max(1, int(math.Ceil(decades/float64(max(n, 1)))))
		first := int(math.Floor(math.Log10(a.Min)))
		for e := first; float64(e) <= math.Log10(a.Max)+1e-9; e++ {
			if (e-first)%skip != 0 {
				continue
			}
			for _, f := range factors {
				if v := f * math.Pow(10, float64(e)); v >= a.Min*(1-1e-9) && v <= a.Max*(1+1e-9) {
					values = append(values, v)
				}
			}
		}
	case Tail:
		for _, v := range []float64{0, 50, 90, 99, 99.9, 99.99, 99.999, 99.9999, 99.99999} {
			if v >= a.Min && v <= a.Max {
				values = append(values, v)
			}
		}
	default:
		step := a.step(n)
		for i := math.Ceil(a.Min/step - 1e-9); i*step <= a.Max+step*1e-9; i++ {
			values = append(values, i*step+0) // 0 rather than -0
		}
	}
	return values
}

// Seconds are distances of ticks on an axis of seconds.
var Seconds = []float64{0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400}

// FormatMicros writes microseconds with the unit that suits them: "20 µs", "1.5 ms".
func FormatMicros(us float64) string {
	switch {
	case us >= 1e6:
		return digits(us/1e6) + " s"
	case us >= 1e3:
		return digits(us/1e3) + " ms"
	}
	return digits(us) + " µs"
}

// FormatCount writes a number in short: "950", "1.2 K", "25 M".
func FormatCount(n float64) string {
	switch a := math.Abs(n); {
	case a >= 999_500_000:
		return digits(n/1e9) + " G"
	case a >= 999_500:
		return digits(n/1e6) + " M"
	case a >= 999.5:
		return digits(n/1e3) + " K"
	}
	return digits(n)
}

// FormatBytes writes a number of bytes with a binary unit.
func FormatBytes(n float64) string {
	if n == 0 {
		return "0"
	}
	return trimZeros(humanize.Bytes(n))
}

// FormatPercent writes a percentage with as many digits as it takes.
func FormatPercent(p float64) string {
	return strconv.FormatFloat(math.Round(p*1e7)/1e7, 'f', -1, 64) + " %"
}

// digits writes a number with three digits at most.
func digits(x float64) string {
	decimals := 2
	switch a := math.Abs(x); {
	case a >= 99.95:
		decimals = 0
	case a >= 9.995:
		decimals = 1
	}
	scale := math.Pow10(decimals)
	return strconv.FormatFloat(math.Round(x*scale)/scale, 'f', -1, 64)
}

// trimZeros turns "1.00 MiB" into "1 MiB".
func trimZeros(text string) string {
	for i := range len(text) {
		if text[i] != '.' {
			continue
		}
		end := i
		for end+1 < len(text) && text[end+1] >= '0' && text[end+1] <= '9' {
			end++
		}
		last := end
		for last > i && text[last] == '0' {
			last--
		}
		if last == i {
			last--
		}
		return text[:last+1] + text[end+1:]
	}
	return text
}
