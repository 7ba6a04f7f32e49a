package lz

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/s2"

	"github.com/cleavestore/cleave/internal/randtest"
)

// TestDecodeS2 decodes blocks as the library does: whole ones, damaged ones,
// and the beginnings of whole ones.
func TestDecodeS2(t *testing.T) {
	rng := randtest.New(t)
	text := newVocabulary(rng)
	valid, damaged := 0, 0
	for range randtest.Lone(3000) {
		d, raw := text.input(t)
		var block []byte
		switch rng.IntN(3) {
		case 0:
			block = d.s2.Encode(nil, raw)
		case 1:
			block = d.s2.EncodeBetter(nil, raw)
		default:
			block = d.s2.EncodeBest(nil, raw)
		}
		decode := func(b []byte, need int) ([]byte, bool) {
			n, err := s2.DecodedLen(b)
			if err != nil || n != len(raw) {
				return nil, false
			}
			dst := make([]byte, n)
			at, ok := DecodeS2(dst, b, d.bytes, need)
			return dst[:at], ok
		}
		got, ok := decode(block, len(raw))
		if !ok || !bytes.Equal(got, raw) {
			t.Fatalf("block of %d bytes, raw %d: %t, %d bytes", len(block), len(raw), ok, len(got))
		}
		valid++
		need := rng.IntN(len(raw) + 1)
		if got, ok = decode(block, need); !ok || len(got) < need || !bytes.HasPrefix(raw, got) {
			t.Fatalf("beginning of %d bytes of %d: %t, %d bytes", need, len(raw), ok, len(got))
		}
		for range 20 {
			b := damagedBlock(rng, block)
			got, ok := decode(b, len(raw))
			want, err := d.s2.Decode(nil, b)
			if err == nil && len(want) == len(raw) {
				if !ok || !bytes.Equal(got, want) {
					t.Fatalf("damaged block of %d bytes: %t, %d bytes, the library accepts it", len(b), ok, len(got))
				}
			} else if ok {
				t.Fatalf("damaged block of %d bytes: accepted, the library says %v", len(b), err)
			}
			damaged++
		}
	}
	if valid == 0 || damaged == 0 {
		t.Error("the test reached too little")
	}
}

func TestDecodeS2Refuses(t *testing.T) {
	for name, block := range map[string][]byte{
		"empty":                    {},
		"another length":           {9, 9 << 2, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10},
		"no literal":               {10},
		"literal cut short":        {10, 9 << 2, 1},
		"literal's length cut":     {10, 63 << 2, 9, 0},
		"literal of 2 GiB":         {10, 63 << 2, 0xff, 0xff, 0xff, 0x7f, 1},
		"literal of 2 GiB and 1":   {10, 63 << 2, 0, 0, 0, 0x80, 1},
		"literal beyond the end":   {10, 10 << 2, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11},
		"copy of nothing":          {10, 9<<2 | 2, 1, 0},
		"copy at distance 0":       {10, 0, 1, 8<<2 | 2, 0, 0},
		"copy at distance 2 GiB":   {10, 0, 1, 8<<2 | 3, 0, 0, 0, 0x80},
		"copy beyond the end":      {10, 0, 1, 9<<2 | 2, 1, 0},
		"copy cut short":           {10, 0, 1, 9<<2 | 2, 1},
		"repetition's length cut":  {10, 0, 1, 6<<2 | 1, 0, 1},
		"repetition of 16 MiB":     {10, 0, 1, 7<<2 | 1, 0, 0xff, 0xff, 0xff},
		"repetition of what is no": {10, 1 | 4<<2, 0},
	} {
		if _, ok := DecodeS2(make([]byte, 10), block, nil, 10); ok {
			t.Errorf("%s: decoded", name)
		}
	}
}

// FuzzDecodeS2 decodes any bytes: what the library decodes is the same, and
// nothing panics.
func FuzzDecodeS2(f *testing.F) {
	dict := sampleDict(f)
	rng := rand.New(rand.NewPCG(1, 0))
	for range 20 {
		f.Add(dict.s2.Encode(nil, sampleText(rng, dict)), 30)
	}
	f.Fuzz(func(t *testing.T, block []byte, need int) {
		n, err := s2.DecodedLen(block)
		if err != nil || n > 1<<20 {
			return
		}
		need = max(0, min(need, n))
		check := func(dict, want []byte, err error) error {
			got := make([]byte, n)
			if _, ok := DecodeS2(got, block, dict, need); err == nil && (!ok || !bytes.Equal(got[:need], want[:need])) {
				return fmt.Errorf("%d of %d bytes differ: decoded %v", need, n, ok)
			}
			return nil
		}
		plain, plainErr := s2.Decode(nil, block)
		if err := check(nil, plain, plainErr); err != nil {
			t.Error(err)
		}
		with, withErr := dict.s2.Decode(nil, block)
		if err := check(dict.bytes, with, withErr); err != nil {
			t.Error("with a dictionary:", err)
		}
	})
}
