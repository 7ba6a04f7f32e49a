package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes as a flag, at least 1: "65536", "64KiB", "1.5GiB",
// "100MB".
type Size int64

var sizeUnits = map[string]float64{
	"": 1, "b": 1,
	"k": 1 << 10, "kib": 1 << 10, "kb": 1e3,
	"m": 1 << 20, "mib": 1 << 20, "mb": 1e6,
	"g": 1 << 30, "gib": 1 << 30, "gb": 1e9,
	"t": 1 << 40, "tib": 1 << 40, "tb": 1e12,
}

// UnmarshalText reads a flag.
func (s *Size) UnmarshalText(text []byte) error {
	n, err := ParseUnits(string(text), sizeUnits)
	if err != nil {
		return fmt.Errorf("%q is no number of bytes: want something like 256MiB", text)
	}
	if n < 1 {
		return fmt.Errorf("%q: want at least 1 byte", text)
	}
	*s = Size(n)
	return nil
}

// ParseUnits reads a number that one of the units may follow, in letters of
// either case; units has them in lower case with their value. Underscores may
// divide the digits. Fractions of one are cut off.
func ParseUnits(text string, units map[string]float64) (int64, error) {
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
