package harness

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/humanize"
)

// ByteCount is a number of bytes as a flag.
type ByteCount = cli.Size

// Count is a number of things as a flag, at least 1: "250000", "250_000",
// "250k", "1.5M".
type Count int64

// UnmarshalText reads a flag.
func (c *Count) UnmarshalText(text []byte) error {
	n, err := ParseCount(text)
	if err == nil && n < 1 {
		err = fmt.Errorf("%q: want at least 1", text)
	}
	*c = Count(n)
	return err
}

// Int returns the number; what is out of every range stays so.
func (c Count) Int() int { return int(min(c, math.MaxInt32)) }

// Position is a place in an input as a flag: a count, or 0.
type Position int64

// UnmarshalText reads a flag.
func (p *Position) UnmarshalText(text []byte) error {
	n, err := ParseCount(text)
	*p = Position(n)
	return err
}

var countUnits = map[string]float64{"": 1, "k": 1e3, "m": 1e6, "g": 1e9}

// ParseCount reads a count: "250000", "250k", "1.5M".
func ParseCount(text []byte) (int64, error) {
	n, err := cli.ParseUnits(string(text), countUnits)
	if err != nil {
		return 0, fmt.Errorf("%q is no count: want something like 250000, 250k or 1M", text)
	}
	return n, nil
}

// FormatMicros returns microseconds with separators, with one decimal below a
// thousand.
func FormatMicros(us float64) string {
	if us < 999.95 {
		return strconv.FormatFloat(us, 'f', 1, 64)
	}
	return humanize.Count(int64(us + 0.5))
}

// FormatMillis returns microseconds as milliseconds, with three digits.
func FormatMillis(us float64) string {
	if us < 1000 {
		return strconv.FormatFloat(us/1000, 'f', 3, 64)
	}
	return humanize.Number(us / 1000)
}

// Plural returns "1 thing" or "2 things".
func Plural[N humanize.Integer](n N, thing string) string {
	return humanize.Plural(n, thing, thing+"s")
}

// Micros returns a duration in microseconds.
func Micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// Round rounds to so many decimals.
func Round(x float64, decimals int) float64 {
	scale := math.Pow10(decimals)
	return math.Round(x*scale) / scale
}

// FormatRate returns a rate with its unit: "12,345/s".
func FormatRate(perSecond float64) string {
	if perSecond < 10 {
		return humanize.Number(perSecond) + "/s"
	}
	return humanize.Count(int64(perSecond+0.5)) + "/s"
}

// Median returns the median of values, of which there is one at least. It sorts them.
func Median(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}
