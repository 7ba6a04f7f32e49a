package partmap

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func parseEPK(t testing.TB, text string) EPK {
	t.Helper()
	e, err := ParseEPK(text)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Each line is lower than the next; EPKs on one line are equal but for ==.
func TestEPKOrder(t *testing.T) {
	lines := [][]string{
		{"", "00", strings.Repeat("00", 48)},
		{strings.Repeat("00", 47) + "01"},
		{"10", "1000", "10" + strings.Repeat("00", 15), "10" + strings.Repeat("00", 31)},
		{"10" + strings.Repeat("00", 16) + "01"},
		{"1000000000000001"},
		{"3F" + strings.Repeat("FF", 47)},
		{"FF"},
	}
	for i, line := range lines {
		for j, other := range lines {
			for _, a := range line {
				for _, b := range other {
					x, y := parseEPK(t, a), parseEPK(t, b)
					if got := x.Compare(&y); got != min(max(i-j, -1), 1) {
						t.Errorf("Compare(%s, %s) = %d", a, b, got)
					}
					if (x == y) != (a == b) {
						t.Errorf("%s == %s is %v", a, b, x == y)
					}
				}
			}
		}
	}
}

func TestEPKRoundTrips(t *testing.T) {
	for _, text := range []string{"", "00", "FF", "05C1DFFFFFFFFC", strings.Repeat("3F", 48)} {
		e := parseEPK(t, text)
		b, err := EPKFromBytes(e.Bytes())
		if lower := parseEPK(t, strings.ToLower(text)); err != nil || b != e || lower != e || e.String() != text {
			t.Errorf("%q: %v, %v, %v, %v", text, e, b, lower, err)
		}
	}
	if got := MinEPK(); got != parseEPK(t, "") {
		t.Errorf("MinEPK is %v", got)
	}
	if got := MaxEPK(); got != parseEPK(t, "FF") {
		t.Errorf("MaxEPK is %v", got)
	}
}

func TestRefusedEPKs(t *testing.T) {
	for _, tt := range []struct {
		text   string
		offset int
	}{
		{"0", 1}, {"0G", 1}, {"00 0", 2}, {"é", 0}, {"FF00", 2}, {strings.Repeat("00", 49), 96},
	} {
		var e *Error
		if _, err := ParseEPK(tt.text); !errors.As(err, &e) || !errors.Is(err, ErrEPK) || e.Offset != tt.offset {
			t.Errorf("ParseEPK(%q): %v, want offset %d", tt.text, err, tt.offset)
		}
	}
	for _, b := range [][]byte{make([]byte, 49), {0xFF, 0}} {
		if _, err := EPKFromBytes(b); !errors.Is(err, ErrEPK) {
			t.Errorf("EPKFromBytes(%x): %v", b, err)
		}
	}
}

func TestBytesCannotGrowIntoTheEPK(t *testing.T) {
	e := parseEPK(t, "10")
	if got := append(e.Bytes(), 0x77); e != parseEPK(t, "10") || !slices.Equal(got, []byte{0x10, 0x77}) {
		t.Errorf("%v, %x", e, got)
	}
}

func BenchmarkEPKCompare(b *testing.B) {
	x, y := String("a").EPK(), String("b").EPK()
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n += x.Compare(&y)
	}
}
