package lz

import (
	"bytes"
	"testing"

	"github.com/klauspost/compress/s2"

	"github.com/cleavestore/cleave/internal/randtest"
)

// encode gives an encoder just the room that it asks for.
func encode(e *Encoder, raw []byte) []byte {
	return e.Encode(make([]byte, 0, MaxLen(len(raw))), raw)
}

// The reference decodes what an encoder makes, whatever blocks it made before,
// and when the numbers of blocks begin again.
func TestLZEncoder(t *testing.T) {
	rng := randtest.New(t)
	text := newVocabulary(rng).make
	for range randtest.Lone(40) {
		d := newDictionary(t, text(s2.MinDictSize+rng.IntN(s2.MaxDictSize-s2.MinDictSize+1)))
		e := d.encoder()
		if rng.IntN(2) == 0 {
			e.block = ^uint32(0) >> tagged << tagged // the last number
		}
		for range 30 {
			raw := text(1 + rng.IntN(3000))
			switch rng.IntN(10) {
			case 0:
				raw = text(MaxRaw - rng.IntN(20))
			case 1:
				raw = raw[:min(len(raw), rng.IntN(2*margin)+1)]
			case 2: // what the dictionary holds, and beyond its end
				from := rng.IntN(len(d.bytes))
				raw = append(bytes.Clone(d.bytes[from:min(len(d.bytes), from+MaxRaw/2)]), raw...)
			}
			block := encode(e, raw)
			if got, ok := reference(block, d.bytes, len(raw)); !ok || !bytes.Equal(got, raw) {
				t.Fatalf("block of %d bytes for %d with a dictionary of %d: %t, the same %t", len(block), len(raw), len(d.bytes), ok, bytes.Equal(got, raw))
			}
		}
	}
}

// A text that the dictionary holds is one copy or two; what was in the block
// before is not found in the next.
func TestLZEncoderFinds(t *testing.T) {
	rng := randtest.New(t)
	noise := make([]byte, 4000)
	for i := range noise {
		noise[i] = byte(rng.IntN(256))
	}
	e := newDictionary(t, noise[:2000]).encoder()
	if n := len(encode(e, noise[500:1500])); n > 30 {
		t.Errorf("%d bytes for a part of the dictionary", n)
	}
	const numbers = 1<<(32-tagged) - 1 // of blocks; then they begin again
	for i := range 2*numbers + 2 {
		if i%numbers > 0 && i <= 2*numbers { // leaves the table as it is
			encode(e, noise[:1])
		} else if n := len(encode(e, noise[2000:3000])); n < 1000 {
			t.Errorf("%d bytes for noise, in block %d", n, i)
		}
	}
	if n := len(encode(e, append(bytes.Clone(noise[2000:3000]), noise[2000:3000]...))); n > 1050 {
		t.Errorf("%d bytes for the same twice", n)
	}
}

func FuzzLZEncoder(f *testing.F) {
	f.Add([]byte(`{"id":"1","name":"a name","price":12.5}`), []byte(`{"id":"2","name":"another name","price":2.5,"name":"a name"}`))
	f.Add(bytes.Repeat([]byte("ab"), 40), bytes.Repeat([]byte("ab"), 400))
	f.Fuzz(func(t *testing.T, dict, raw []byte) {
		if len(dict) < s2.MinDictSize || len(dict) > s2.MaxDictSize || len(raw) == 0 || len(raw) > MaxRaw {
			return
		}
		d := newDictionary(t, dict)
		e := d.encoder()
		for range 2 {
			if got, ok := reference(encode(e, raw), d.bytes, len(raw)); !ok || !bytes.Equal(got, raw) {
				t.Fatalf("decodes %t, the same %t", ok, bytes.Equal(got, raw))
			}
		}
	})
}
