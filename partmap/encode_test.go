package partmap

import (
	"math"
	"testing"
)

func TestHashEncodedRefusesOtherBytes(t *testing.T) {
	for _, enc := range []string{"\x04", "\x05123", "\x08abc", "\x01\x01\x01\x01", "\xff", "\x01\x08"} {
		if e := HashEncoded([]byte(enc)); e != (EPK{}) {
			t.Errorf("HashEncoded(%q) has %d levels", enc, e.Levels())
		}
	}
}

func TestNegativeZeroIsZero(t *testing.T) {
	plus, minus := AppendNumber(nil, 0), AppendNumber(nil, math.Copysign(0, -1))
	if string(plus) != string(minus) {
		t.Errorf("%x and %x", plus, minus)
	}
}

func BenchmarkHashEncoded(b *testing.B) {
	enc := AppendString(nil, []byte("tenant-0123456789"))
	b.ReportAllocs()
	var sum uint64
	for b.Loop() {
		e := HashEncoded(enc)
		sum += e.Head()
	}
	_ = sum
}
