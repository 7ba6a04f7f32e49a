package partmap

import (
	"bytes"
	"math"
	"strings"
	"testing"
)

// The cut of version 1 counts UTF-16 units, not bytes or characters.
func TestCutV1(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"", ""},
		{strings.Repeat("a", 101), strings.Repeat("a", 100)},
		{strings.Repeat("ж", 101), strings.Repeat("ж", 100)},
		{strings.Repeat("🙂", 51), strings.Repeat("🙂", 50)},
		{"a" + strings.Repeat("🙂", 50), "a" + strings.Repeat("🙂", 49) + "\uFFFD"},
	} {
		if got := cutV1([]byte(tt.in)); string(got) != tt.want {
			t.Errorf("cutV1(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

// Keys that are equal in what version 1 keeps of them are one logical partition
// there.
func TestHashV1CutsStrings(t *testing.T) {
	a := String(strings.Repeat("a", 100) + "b").Encoded()
	b := String(strings.Repeat("a", 100) + "c").Encoded()
	if !bytes.Equal(HashV1(a), HashV1(b)) {
		t.Error("version 1 tells keys apart after 100 units")
	}
	if HashEncoded(a) == HashEncoded(b) {
		t.Error("version 2 does not tell them apart")
	}
}

func TestNumberV1Order(t *testing.T) {
	numbers := []float64{-math.MaxFloat64, -1e10, -2, -1.5, -1, -5e-324, 0, 5e-324, 1, 1.5, 2, 5, 1e10, math.MaxFloat64}
	for i, f := range numbers[1:] {
		if a, b := appendNumberV1(nil, numbers[i]), appendNumberV1(nil, f); bytes.Compare(a, b) >= 0 {
			t.Errorf("%v is %X, %v is %X", numbers[i], a, f, b)
		}
	}
}

func TestHashV1RefusesOtherBytes(t *testing.T) {
	for _, enc := range []string{"", "\x04", "\x01\x08abc"} {
		if got := HashV1([]byte(enc)); got != nil {
			t.Errorf("HashV1(%q) = %X", enc, got)
		}
	}
}
