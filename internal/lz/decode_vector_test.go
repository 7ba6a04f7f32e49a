//go:build amd64 || arm64

package lz

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/cleavestore/cleave/internal/randtest"
)

// TestPairs: the assembly itself decodes nearly all of a text of short matches, and of one that has
// long literals and matches too.
func TestPairs(t *testing.T) {
	rng := randtest.New(t)
	d := newDictionary(t, newVocabulary(rng).make(20000))
	e := d.encoder()
	for _, text := range []struct{ raw, literals, match, least int }{{1000, 1, 50, 750}, {16_000, 200, 600, 900}} {
		if part := decodedByPairs(t, rng, d, e, text.raw, text.literals, text.match); part < text.least {
			t.Errorf("the assembly decoded %d ‰ of a text with up to %d literals and matches of up to %d bytes", part, text.literals, text.match)
		}
	}
}

// decodedByPairs returns which part the assembly decodes of texts of some size that repeat the dictionary, in thousandths.
func decodedByPairs(t *testing.T, rng *rand.Rand, d *dictionary, e *Encoder, size, literals, match int) int {
	t.Helper()
	decoded, all := 0, 0
	for range 200 {
		var raw []byte
		for len(raw) < size {
			from := rng.IntN(len(d.bytes) - match - 8)
			raw = append(raw, d.bytes[from:from+8+rng.IntN(match)]...)
			for range 1 + rng.IntN(literals) {
				raw = append(raw, byte(rng.Uint32()))
			}
		}
		src := encode(e, raw)
		_, s := binary.Uvarint(src)
		b := block{dst: make([]byte, len(raw)), src: src, dict: d.bytes, s: s}
		for b.d < len(raw) {
			from := b.d
			pairs(&b, len(raw))
			decoded += b.d - from
			if b.d < len(raw) && !b.pair() {
				t.Fatal("block refused")
			}
		}
		if !bytes.Equal(b.dst, raw) {
			t.Fatal("block decoded to something else")
		}
		all += len(raw)
	}
	return decoded * 1000 / all
}
