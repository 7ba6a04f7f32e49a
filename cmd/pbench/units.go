package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/cleavestore/cleave/internal/cli"
)

// byteCount is a number of bytes as a flag, at least 1: "65536", "64KiB",
// "1.5GiB", "100MB".
type byteCount int64

var byteUnits = map[string]float64{
	"": 1, "b": 1,
	"k": 1 << 10, "kib": 1 << 10, "kb": 1e3,
	"m": 1 << 20, "mib": 1 << 20, "mb": 1e6,
	"g": 1 << 30, "gib": 1 << 30, "gb": 1e9,
}

// UnmarshalText reads a flag.
func (b *byteCount) UnmarshalText(text []byte) error {
	n, err := parseUnits(string(text), byteUnits)
	if err != nil {
		return fmt.Errorf("%q is no number of bytes: want something like 256MiB", text)
	}
	if n < 1 {
		return fmt.Errorf("%q: want at least 1 byte", text)
	}
	*b = byteCount(n)
	return nil
}

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
	n, err := parseUnits(string(text), countUnits)
	if err != nil {
		return 0, fmt.Errorf("%q is no count: want something like 250000, 250k or 1M", text)
	}
	return n, nil
}

func parseUnits(text string, units map[string]float64) (int64, error) {
	at := strings.IndexFunc(text, func(r rune) bool { return (r < '0' || r > '9') && r != '.' && r != '_' })
	if at < 0 {
		at = len(text)
	}
	unit, ok := units[strings.ToLower(strings.TrimSpace(text[at:]))]
	number, err := strconv.ParseFloat(strings.ReplaceAll(text[:at], "_", ""), 64)
	if !ok || err != nil || number*unit > math.MaxInt64/2 {
		return 0, strconv.ErrSyntax
	}
	return int64(number * unit), nil
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
func plural(n int, thing string) string { return cli.Plural(n, thing, thing+"s") }
