package harness

import (
	"testing"
	"time"
)

func TestParseUnits(t *testing.T) {
	for text, want := range map[string]ByteCount{
		"65536": 65536, "64KiB": 64 << 10, "64k": 64 << 10, "1.5GiB": 3 << 29, "100MB": 100_000_000, "2 GB": 2_000_000_000, "7b": 7,
	} {
		var b ByteCount
		if err := b.UnmarshalText([]byte(text)); err != nil || b != want {
			t.Errorf("%q reads as %d bytes: %v", text, b, err)
		}
	}
	for text, want := range map[string]Count{"250000": 250_000, "250_000": 250_000, "250k": 250_000, "1.5M": 1_500_000} {
		var c Count
		if err := c.UnmarshalText([]byte(text)); err != nil || c != want {
			t.Errorf("%q reads as %d: %v", text, c, err)
		}
	}
	for _, text := range []string{"", "x", "-1", "1.2.3", "1 KiBi", "99999999999999999999", "KiB", "1e3", "0", "0.5"} {
		if err := new(ByteCount).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q reads as bytes", text)
		}
		if err := new(Count).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q reads as a count", text)
		}
	}
	if err := new(Count).UnmarshalText([]byte("1MiB")); err == nil {
		t.Error("a count in bytes")
	}
	var p Position
	if err := p.UnmarshalText([]byte("0")); err != nil || p != 0 {
		t.Errorf("position 0: %v", err)
	}
}

func TestFormat(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{FormatMicros(0.7), "0.7"},
		{FormatMicros(999.94), "999.9"},
		{FormatMicros(999.96), "1,000"},
		{FormatMicros(1234567.5), "1,234,568"},
		{formatClock(125 * time.Second), "02:05"},
		{Plural(1, "box"), "1 box"},
		{Plural(2000, "dog"), "2,000 dogs"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

// TestMedian: the median of an even number of values lies between the two in the middle.
func TestMedian(t *testing.T) {
	for want, values := range map[float64][]float64{7: {7}, 2: {3, 1}, 5: {9, 1, 5}, 3.5: {100, 4, 3, 1}} {
		if got := Median(values); got != want {
			t.Errorf("the median of %v is %v, want %v", values, got, want)
		}
	}
	s := NewSplitSummary([]SplitFigures{{Pause: 1}, {Pause: 100}, {Pause: 1000, Error: "refused"}})
	if s.PauseMedian != 50.5 || s.PauseMax != 100 || s.Count != 2 || s.Failed != 1 {
		t.Errorf("%+v", s)
	}
}
