package partmap

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/murmur"
)

func joined(parts ...Key) (enc []byte) {
	for _, p := range parts {
		enc = append(enc, p.Encoded()...)
	}
	return enc
}

// TestSynthetic pins the bytes of synthetic keys: they are on disk.
func TestSynthetic(t *testing.T) {
	for _, tc := range []struct {
		parts  []Key
		suffix int
		want   string
	}{
		{[]Key{String("2024-05-01"), String("meter 7")}, 0, "2024-05-01|meter 7"},
		{[]Key{String("acme"), Number(2026)}, 17, "acme|2026|17"},
		{[]Key{Number(2026)}, 1, "2026|1"},
		{[]Key{String("2026")}, 1, `\2026|1`},
		{[]Key{String("a|b"), String(`c\d`)}, 0, `a\|b|c\\d`},
		{[]Key{String("true"), Bool(true)}, 0, `\true|true`},
		{[]Key{String("null"), Null()}, 0, `\null|null`},
		{[]Key{String("undefined"), Undefined()}, 0, `\undefined|undefined`},
		{[]Key{String(""), Bool(false)}, 0, "|false"},
		{[]Key{Number(0.1), Number(math.Copysign(0, -1))}, 0, "0.1|0"},
		{[]Key{Number(1e21), Number(-1.5e-7)}, 0, "1e+21|-1.5e-07"},
		{[]Key{String("1e5"), String("1e"), String("-0.50")}, 0, `\1e5|1e|\-0.50`},
		{[]Key{String("01"), String("1."), String("-")}, 0, "01|1.|-"},
	} {
		key, err := FromEncoded(AppendSynthetic(nil, joined(tc.parts...), tc.suffix))
		if err != nil || key != String(tc.want) {
			t.Errorf("%v and %d: %s, %v, want %q", tc.parts, tc.suffix, key, err, tc.want)
		}
	}
}

// TestSyntheticInjective: of many values that look alike no two make one key.
func TestSyntheticInjective(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	value := func() Key {
		switch rng.IntN(8) {
		case 0:
			return Number(float64(rng.IntN(4)) - 1)
		case 1:
			return []Key{Null(), Undefined(), Bool(true), Bool(false)}[rng.IntN(4)]
		case 2:
			return String([]string{"null", "undefined", "true", "false"}[rng.IntN(4)])
		}
		var s strings.Builder
		for range rng.IntN(4) {
			s.WriteByte(`|\01-`[rng.IntN(5)])
		}
		return String(s.String())
	}
	made := make(map[string]string)
	for range 20_000 {
		enc := joined(value(), value())
		suffix := rng.IntN(3) // 0: none
		key := string(AppendSynthetic(nil, enc, suffix))
		from := string(enc) + string(rune('0'+min(suffix, 1)*suffix))
		if suffix == 0 {
			key, from = "none "+key, "none "+from
		}
		if other, ok := made[key]; ok && other != from {
			t.Fatalf("seed %d: %q is the key of %q and %q", seed, key, other, from)
		}
		made[key] = from
		if k := FromTrusted([]byte(key)); suffix != 0 {
			if n, ok := ReadSuffix(k, enc, 2); !ok || n != suffix {
				t.Fatalf("seed %d: suffix of %q: %d, %t, want %d", seed, key, n, ok, suffix)
			}
		}
	}
}

func TestReadSuffix(t *testing.T) {
	base := joined(String("a"))
	for text, want := range map[string]int{
		"a|1": 1, "a|10": 10, "a|11": 0, "a|0": 0, "a|-1": 0, "a|+1": 0, "a|01": 0, "a|": 0, "a": 0, "b|1": 0, "a|1|1": 0, "a|x": 0,
	} {
		if n, ok := ReadSuffix(String(text), base, 10); n != want || ok != (want > 0) {
			t.Errorf("%q: %d, %t", text, n, ok)
		}
	}
	if _, ok := ReadSuffix(Key{}, base, 10); ok {
		t.Error("the zero key has a suffix")
	}
}

// TestSuffix pins the choice of suffixes, and that it spreads.
func TestSuffix(t *testing.T) {
	enc := String("order-1").Encoded()
	h1, _ := murmur.Sum128([]byte("\x08order-1\xFF"))
	if got, want := Suffix(enc, 64), 1+int(h1%64); got != want {
		t.Errorf("%d, want %d", got, want)
	}
	if got := Suffix(enc, 64); got != 6 {
		t.Errorf("the suffix of order-1 has changed: %d", got)
	}
	counts := make([]int, 8)
	for i := range 8000 {
		counts[Suffix(Number(float64(i)).Encoded(), 8)-1]++
	}
	for i, n := range counts {
		if n < 850 || n > 1150 {
			t.Errorf("suffix %d: %d of 8000", i+1, n)
		}
	}
}

func BenchmarkAppendSynthetic(b *testing.B) {
	enc := joined(String("2024-05-01"), String("device-0123456789"))
	buf := make([]byte, 0, 256)
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendSynthetic(buf[:0], enc, 17)
	}
}
