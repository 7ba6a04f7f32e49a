package segment

import (
	"bytes"
	"testing"

	"github.com/cleavestore/cleave/internal/randtest"
)

// encodeLZ gives an encoder just the room that it asks for.
func encodeLZ(e *lzEncoder, raw []byte) []byte {
	return e.encode(make([]byte, 0, lzMaxLen(len(raw))), raw)
}

// The reference decodes what an encoder makes, whatever blocks it made before,
// and when the numbers of blocks begin again.
func TestLZEncoder(t *testing.T) {
	rng := randtest.New(t)
	text := newLZWords(rng).make
	for range 40 {
		d, err := NewDictionary(text(MinDictionary + rng.IntN(MaxDictionary-MinDictionary+1)))
		if err != nil {
			t.Fatal(err)
		}
		e := newLZEncoder(d)
		if rng.IntN(2) == 0 {
			e.block = ^uint32(0) >> lzPosBits << lzPosBits // the last number
		}
		for range 30 {
			raw := text(1 + rng.IntN(3000))
			switch rng.IntN(10) {
			case 0:
				raw = text(lzMaxRaw - rng.IntN(20))
			case 1:
				raw = raw[:min(len(raw), rng.IntN(2*lzMargin)+1)]
			case 2: // what the dictionary holds, and beyond its end
				from := rng.IntN(len(d.bytes))
				raw = append(bytes.Clone(d.bytes[from:min(len(d.bytes), from+lzMaxRaw/2)]), raw...)
			}
			block := encodeLZ(e, raw)
			if got, ok := lzReference(block, d.bytes, len(raw)); !ok || !bytes.Equal(got, raw) {
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
	d, err := NewDictionary(noise[:2000])
	if err != nil {
		t.Fatal(err)
	}
	e := newLZEncoder(d)
	if n := len(encodeLZ(e, noise[500:1500])); n > 30 {
		t.Errorf("%d bytes for a part of the dictionary", n)
	}
	for range 2 {
		if n := len(encodeLZ(e, noise[2000:3000])); n < 1000 {
			t.Errorf("%d bytes for noise", n)
		}
	}
	if n := len(encodeLZ(e, append(bytes.Clone(noise[2000:3000]), noise[2000:3000]...))); n > 1050 {
		t.Errorf("%d bytes for the same twice", n)
	}
}

func FuzzLZEncoder(f *testing.F) {
	f.Add([]byte(`{"id":"1","name":"a name","price":12.5}`), []byte(`{"id":"2","name":"another name","price":2.5,"name":"a name"}`))
	f.Add(bytes.Repeat([]byte("ab"), 40), bytes.Repeat([]byte("ab"), 400))
	f.Fuzz(func(t *testing.T, dict, raw []byte) {
		d, err := NewDictionary(dict)
		if err != nil || len(raw) == 0 || len(raw) > lzMaxRaw {
			return
		}
		e := newLZEncoder(d)
		for range 2 {
			if got, ok := lzReference(encodeLZ(e, raw), d.bytes, len(raw)); !ok || !bytes.Equal(got, raw) {
				t.Fatalf("decodes %t, the same %t", ok, bytes.Equal(got, raw))
			}
		}
	})
}

// BenchmarkLZEncode encodes documents of 1.4 KB and of 72 bytes.
func BenchmarkLZEncode(b *testing.B) {
	for _, shape := range []string{"food", "small"} {
		c := load(b, shape, 20_000)
		var raws [][]byte
		for i := range 2000 {
			raws = append(raws, c.model[i*7].ver.Body)
		}
		e, buf := newLZEncoder(c.dict), make([]byte, 16<<10)
		for _, encoder := range []struct {
			name   string
			encode func(src []byte) []byte
		}{
			{"s2", func(src []byte) []byte { return c.dict.s2.Encode(buf, src) }},
			{"own", func(src []byte) []byte { return e.encode(buf, src) }},
		} {
			b.Run(shape+"/"+encoder.name, func(b *testing.B) {
				b.ReportAllocs()
				raw, stored := 0, 0
				for i := 0; b.Loop(); i++ {
					src := raws[i%len(raws)]
					raw += len(src)
					stored += len(encoder.encode(src))
				}
				b.SetBytes(int64(raw / b.N))
				b.ReportMetric(float64(stored)/float64(raw), "stored/raw")
			})
		}
	}
}
