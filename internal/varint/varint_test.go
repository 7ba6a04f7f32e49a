package varint

import (
	"encoding/binary"
	"testing"
)

// TestAt: a number is read where it lies, and is not there in fewer bytes than it has.
func TestAt(t *testing.T) {
	for _, want := range []uint64{0, 1, 0x7f, 0x80, 0x3fff, 0x4000, 1 << 32, 1<<63 - 1} {
		b := binary.AppendUvarint([]byte{0xff, 0xff}, want)
		if v, next := At(b, 2); v != want || next != len(b) {
			t.Errorf("%d: %d, next %d", want, v, next)
		}
		if v, next := At(append(b, 1), 2); v != want || next != len(b) {
			t.Errorf("%d with a byte behind it: %d, next %d", want, v, next)
		}
		for n := 2; n < len(b); n++ {
			if _, next := At(b[:n], 2); next != 0 {
				t.Errorf("%d in %d bytes of %d: next %d", want, n-2, len(b)-2, next)
			}
		}
	}
}

// TestNone: what is no number, or lies beyond the end, has no next.
func TestNone(t *testing.T) {
	endless := make([]byte, 20)
	for i := range endless {
		endless[i] = 0x80
	}
	for _, c := range []struct {
		b   []byte
		pos int
	}{{nil, 0}, {[]byte{1}, 1}, {[]byte{1}, 2}, {endless, 0}, {endless, 19}} {
		if v, next := At(c.b, c.pos); v != 0 || next != 0 {
			t.Errorf("%x at %d: %d, next %d", c.b, c.pos, v, next)
		}
	}
}
