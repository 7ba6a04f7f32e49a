package segment

import (
	"testing"

	"github.com/cleavestore/cleave/internal/lz"
)

// BenchmarkLZDecode decodes documents of 0.8 to 2 KB, the whole and the first 64
// bytes; S2 beside it.
func BenchmarkLZDecode(b *testing.B) {
	c := load(b, "food", 20_000)
	e := lz.NewEncoder(c.dict.Content(), c.dict.Positions())
	var blocks, s2Blocks, raws [][]byte
	for i := range 2000 {
		raw := c.model[i*7].ver.Body
		raws = append(raws, raw)
		block := e.Encode(make([]byte, 0, lz.MaxLen(len(raw))+64), raw) // with bytes behind, as in a file
		blocks, s2Blocks = append(blocks, block), append(s2Blocks, c.dict.S2().Encode(nil, raw))
	}
	dst := make([]byte, 8<<10)
	for _, decoder := range []struct {
		name   string
		decode func(i int) bool
	}{
		{"whole", func(i int) bool {
			_, ok := lz.Decode(dst[:len(raws[i])], blocks[i], c.dict.Content(), len(raws[i]))
			return ok
		}},
		{"whole-s2", func(i int) bool { _, err := c.dict.S2().Decode(dst[:len(raws[i])], s2Blocks[i]); return err == nil }},
		{"begin", func(i int) bool { _, ok := lz.Decode(dst[:len(raws[i])], blocks[i], c.dict.Content(), 64); return ok }},
	} {
		b.Run(decoder.name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if !decoder.decode(i % len(blocks)) {
					b.Fatal("does not decode")
				}
			}
		})
	}
}

// BenchmarkLZEncode encodes documents of 1.4 KB and of 72 bytes, large ones, and ones that do not compress.
func BenchmarkLZEncode(b *testing.B) {
	for _, shape := range []string{"food", "small", "16KiB,0.7", "1160,0"} {
		c := load(b, shape, 20_000)
		var raws [][]byte
		for i := range 2000 {
			raws = append(raws, c.model[i*7].ver.Body)
		}
		e, buf := lz.NewEncoder(c.dict.Content(), c.dict.Positions()), make([]byte, 32<<10)
		for _, encoder := range []struct {
			name   string
			encode func(src []byte) []byte
		}{
			{"s2", func(src []byte) []byte { return c.dict.S2().Encode(buf, src) }},
			{"own", func(src []byte) []byte { return e.Encode(buf, src) }},
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
