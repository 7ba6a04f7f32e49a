//go:build amd64 || arm64

package lz

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/cleavestore/cleave/internal/randtest"
)

// TestPairs: the assembly itself decodes nearly all of a text like those it is made for.
func TestPairs(t *testing.T) {
	rng := randtest.New(t)
	d := newDictionary(t, newVocabulary(rng).make(20000))
	e := d.encoder()
	decoded, all := 0, 0
	for range 200 {
		var raw []byte
		for len(raw) < 1000 {
			from := rng.IntN(len(d.bytes) - 60)
			raw = append(append(raw, d.bytes[from:from+8+rng.IntN(50)]...), byte(rng.Uint32()))
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
	if decoded < all*3/4 {
		t.Errorf("the assembly decoded %d of %d bytes", decoded, all)
	}
}
