// Package humanize writes numbers for people, in the same form in all output of the project:
// sizes with binary units, counts with separators. Its functions are pure.
package humanize

import (
	"math"
	"strconv"
	"strings"
)

// Integer is what can be counted.
type Integer interface {
	~int | ~int32 | ~int64 | ~uint32 | ~uint64
}

// Bytes returns a size with a binary unit: "999 B", "1.41 GiB".
func Bytes[N Integer | ~float64](n N) string {
	x, unit := float64(n), "B"
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if math.Abs(x) < 999.5 {
			break
		}
		x, unit = x/1024, next
	}
	if unit == "B" {
		return strconv.FormatFloat(x, 'f', 0, 64) + " B"
	}
	return Number(x) + " " + unit
}

// Number returns a number with three digits at least: "1.00", "10.0", "12,345".
func Number(x float64) string {
	decimals := 2
	switch abs := math.Abs(x); {
	case abs >= 999.5 && abs < math.MaxInt64:
		return Count(int64(math.Round(x)))
	case abs >= 99.95:
		decimals = 0
	case abs >= 9.995:
		decimals = 1
	}
	return strconv.FormatFloat(x, 'f', decimals, 64)
}

// Count returns an integer with separators: "1,234,567".
func Count[N Integer](n N) string {
	sign, digits := "", ""
	if n < 0 {
		sign, digits = "-", strconv.FormatInt(int64(n), 10)[1:]
	} else {
		digits = strconv.FormatUint(uint64(n), 10)
	}
	var b strings.Builder
	b.WriteString(sign)
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

// Plural returns "1 file" or "2,000 files".
func Plural[N Integer](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return Count(n) + " " + many
}
