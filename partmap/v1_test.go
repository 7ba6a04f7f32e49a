package partmap

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/randtest"
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
		if kept, half := cutV1([]byte(tt.in)); string(kept)+half != tt.want {
			t.Errorf("cutV1(%q) = %q, %q, want %q", tt.in, kept, half, tt.want)
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

// randomV1 returns a key of one level: short and long strings with letters that are next to
// each other and to bounds, and scalars.
func randomV1(rng *rand.Rand) Key {
	switch rng.IntN(8) {
	case 0:
		return Number(float64(rng.IntN(5)))
	case 1:
		return []Key{Undefined(), Null(), Bool(false), Bool(true), String("")}[rng.IntN(5)]
	}
	letters := []string{"a", "b", "\x00", "\x7F", "\u07FF", "\uFFFD", "🙂"}
	var b strings.Builder
	if rng.IntN(2) == 0 {
		b.WriteString(strings.Repeat("a", 95+rng.IntN(8)))
	}
	for range rng.IntN(8) {
		b.WriteString(letters[rng.IntN(len(letters))])
	}
	return String(b.String())
}

// TestPlaceV1: places have the order of the EPKs of version 1; a boundary has the same keys
// above it in both forms, at any place.
func TestPlaceV1(t *testing.T) {
	rng := randtest.New(t)
	key := func() Key { return randomV1(rng) }
	for range 20_000 {
		a, b := key(), key()
		whole := [2][]byte{HashV1(a.Encoded()), HashV1(b.Encoded())}
		one, two := a.OfVersion(1), b.OfVersion(1)
		if !bytes.Equal(HashV1(one.Encoded()), whole[0]) || one.OfVersion(2) != a || one == a || one.String() != a.String() || one.Version() != 1 || a.Version() != 2 {
			t.Fatalf("%v and its form of version 1 differ in more than that", a)
		}
		if again, err := FromEncoded(one.Encoded()); err != nil || again != one || one.Len() != 1 {
			t.Fatalf("%v: %v, %v", one, again, err)
		}
		x, y := one.EPK(), two.EPK()
		if x.Levels() != 1 || x.b[0] > 0x3F {
			t.Fatalf("%v lies at %v", one, x)
		}
		if c := bytes.Compare(whole[0], whole[1]); c < 0 && x.Compare(&y) > 0 || c > 0 && x.Compare(&y) < 0 {
			t.Fatalf("%v at %v, %v at %v, their EPKs are %X and %X", a, x, b, y, whole[0], whole[1])
		}
		// Boundaries at the key, next to it, and anywhere.
		at := y
		switch rng.IntN(4) {
		case 0:
			at.b[rng.IntN(16)] = byte(rng.IntN(256))
			at.b[0] &= 0x3F
		case 1:
			at, _ = EPKFromBytes(at.b[:1+rng.IntN(16)])
		case 2:
			at = at.HashFloorV1()
			if wire := at.Version1(); len(wire) > 9 {
				t.Fatalf("boundary %X at a hash", wire)
			}
		}
		wire := at.Version1()
		if (x.Compare(&at) >= 0) != (bytes.Compare(whole[0], wire) >= 0) {
			t.Fatalf("%v at %v, %X, boundary %v, %X", a, x, whole[0], at, wire)
		}
		if back, exact, err := FromVersion1(wire); err != nil || !exact || back.Compare(&at) != 0 {
			t.Fatalf("boundary %v is %X, which is %v, %v, %v", at, wire, back, exact, err)
		}
		if near, _, err := FromVersion1(whole[1]); err != nil || near.Compare(&y) != 0 {
			t.Fatalf("%v at %v, its EPK at %v: %v", b, y, near, err)
		}
	}
}

func TestPlaceV1Allocates(t *testing.T) {
	key := String(strings.Repeat("ж", 99) + "🙂").OfVersion(1)
	if n := testing.AllocsPerRun(100, func() {
		if e := key.EPK(); e.Levels() != 1 {
			t.Error("no place")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestVersion1Edges: the ends of the key space, keys of several levels, bytes that are no
// EPK of version 1, encodings that mix versions.
func TestVersion1Edges(t *testing.T) {
	least, most := MinEPK(), MaxEPK()
	if b := least.Version1(); len(b) != 0 {
		t.Errorf("the least EPK is %X", b)
	}
	if b := most.Version1(); string(b) != "\xFF" {
		t.Errorf("the end of the key space is %X", b)
	}
	for text, want := range map[string]EPK{"": least, "\xFF": most} {
		if e, exact, err := FromVersion1([]byte(text)); e != want || !exact || err != nil {
			t.Errorf("%X: %v, %v, %v", text, e, exact, err)
		}
	}
	for _, text := range []string{"\x05", "\x08abc", "\x06", string(appendNumberV1(nil, -1)), string(appendNumberV1(nil, 1.5)), string(appendNumberV1(nil, 1<<32)), string(appendNumberV1(nil, math.Inf(1)))} {
		if e, _, err := FromVersion1([]byte(text)); !errors.Is(err, ErrEPK) {
			t.Errorf("%X: %v, %v", text, e, err)
		}
	}
	two := join(t, String("a"), String("b"))
	if k := two.OfVersion(1); k.Valid() || (Key{}).OfVersion(1).Valid() {
		t.Errorf("%v has version 1", two)
	}
	one := String("a").OfVersion(1)
	for _, enc := range [][]byte{append(one.Encoded(), "\x01"...), append([]byte("\x01"), one.Encoded()...), []byte("\x44"), []byte("\x48abc")} {
		if k, err := FromEncoded(enc); err == nil {
			t.Errorf("%X is %v", enc, k)
		}
		if e := HashEncoded(enc); e != (EPK{}) {
			t.Errorf("%X lies at %v", enc, e)
		}
	}
	enc := []byte(String("a").enc)
	if SetVersion1(enc); string(enc) != one.enc {
		t.Errorf("%X, want %X", enc, one.enc)
	}
}
