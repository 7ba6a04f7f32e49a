package main

import (
	"fmt"
	"math"
	"strconv"

	"github.com/cleavestore/cleave/internal/cli"
)

// byteCount is a number of bytes as a flag.
type byteCount = cli.Size

// count is a number of things as a flag, at least 1: "250000", "250_000",
// "250k", "1.5M".
type count int64

// UnmarshalText reads a flag.
func (c *count) UnmarshalText(text []byte) error {
	n, err := parseCount(text)
	if err == nil && n < 1 {
		err = fmt.Errorf("%q: want at least 1", text)
	}
	*c = count(n)
	return err
}

// int returns the number; what is out of every range stays so.
func (c count) int() int { return int(min(c, math.MaxInt32)) }

// position is a place in an input as a flag: a count, or 0.
type position int64

// UnmarshalText reads a flag.
func (p *position) UnmarshalText(text []byte) error {
	n, err := parseCount(text)
	*p = position(n)
	return err
}

var countUnits = map[string]float64{"": 1, "k": 1e3, "m": 1e6, "g": 1e9}

func parseCount(text []byte) (int64, error) {
	n, err := cli.ParseUnits(string(text), countUnits)
	if err != nil {
		return 0, fmt.Errorf("%q is no count: want something like 250000, 250k or 1M", text)
	}
	return n, nil
}

// formatBytes returns a size with a binary unit: "1.41 GiB".
func formatBytes[N int | int64 | float64](n N) string { return cli.Bytes(n) }

// formatShort returns a number with three digits at least.
func formatShort(x float64) string { return cli.Number(x) }

// formatCount returns an integer with separators: "1,234,567".
func formatCount[N cli.Integer](n N) string { return cli.Count(n) }

// formatMicros returns microseconds with separators, with one decimal below a
// thousand.
func formatMicros(us float64) string {
	if us < 999.95 {
		return strconv.FormatFloat(us, 'f', 1, 64)
	}
	return formatCount(int64(us + 0.5))
}

// formatMillis returns microseconds as milliseconds, with three digits.
func formatMillis(us float64) string {
	if us < 1000 {
		return strconv.FormatFloat(us/1000, 'f', 3, 64)
	}
	return formatShort(us / 1000)
}

// plural returns "1 thing" or "2 things".
func plural[N cli.Integer](n N, thing string) string { return cli.Plural(n, thing, thing+"s") }
