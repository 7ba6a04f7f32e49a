package keyspec

import (
	"bytes"
	"testing"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/randtest"
)

func text(s string) []byte { return append(append([]byte{markerString}, s...), markerEnd) }

func number(b byte) []byte { return append([]byte{markerNumber}, bytes.Repeat([]byte{b}, 8)...) }

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// TestKey: the key of a document comes back from its description, whatever its components are, and
// whether or not the document had their texts.
func TestKey(t *testing.T) {
	const begin = `{"id":"a","tenant":"acme"`
	for _, c := range []struct {
		pk    []byte
		reach int // of the document; what it had not is put behind begin
	}{
		{text("acme"), len(begin) - 1},
		{text(""), 0},
		{text("nobody"), len(begin) + 6},
		{number(7), 0},
		{[]byte{1}, 0},
		{join(text("acme"), number(1), text("a")), len(begin) - 1},
		{join(number(1), number(2), number(3)), 0},
		{[]byte{}, 0},
		{[]byte{0xEE, 1, 2}, len(begin) + 3}, // no encoding that is known
		{[]byte{markerString, 'a'}, len(begin) + 2},
		{join([]byte{1}, []byte{1}, []byte{1}, []byte{1}), len(begin) + 4}, // more components than a key may have
	} {
		doc := []byte(begin)
		place := func(text []byte) int {
			if at := bytes.Index(doc, text); at >= 0 {
				return at
			}
			doc = append(doc, text...)
			return len(doc) - len(text)
		}
		specs := Append([]byte("before"), c.pk, place)
		end := len(specs)
		specs = append(specs, "behind"...)
		if got := Skip(specs, len("before"), len(doc)); got != end {
			t.Errorf("%x: the description ends at %d, want %d", c.pk, got, end)
			continue
		}
		spec := specs[len("before"):]
		if got := Key([]byte("x"), spec, doc); !bytes.Equal(got[1:], c.pk) {
			t.Errorf("%x: key %x", c.pk, got[1:])
		}
		if got := Reach(spec, len(doc)); got != c.reach {
			t.Errorf("%x reaches %d, want %d", c.pk, got, c.reach)
		}
		if !Match(spec, doc, c.pk) {
			t.Errorf("%x does not match", c.pk)
		}
		for _, other := range [][]byte{text("acm"), text("acmf"), number(8), join(c.pk, []byte{1}), c.pk[:max(len(c.pk)-1, 0)]} {
			if Match(spec, doc, other) != bytes.Equal(other, c.pk) {
				t.Errorf("%x matches %x", c.pk, other)
			}
		}
	}
}

// TestDamage: of any bytes Skip refuses what is no description, and what it accepts can be used.
func TestDamage(t *testing.T) {
	rng := randtest.New(t)
	doc := bytes.Repeat([]byte("document"), 20)
	accepted := 0
	for range 100_000 {
		b := make([]byte, rng.IntN(24))
		for i := range b {
			b[i] = byte(rng.Uint32N(256) >> rng.IntN(8)) // many small numbers
		}
		end := Skip(b, 0, len(doc))
		if end == 0 {
			continue
		}
		accepted++
		if end > len(b) {
			t.Fatalf("%x: the description ends at %d", b, end)
		}
		key := Key(nil, b[:end], doc)
		if !Match(b[:end], doc, key) || Match(b[:end], doc, append(key, 0)) {
			t.Fatalf("%x: key %x does not match, or another one does", b, key)
		}
		if n := Reach(b[:end], len(doc)); n < 0 || n > len(doc) {
			t.Fatalf("%x: reach %d", b, n)
		}
		if len(key) > 3*(item.MaxPK+2) {
			t.Fatalf("%x: a key of %d bytes", b, len(key))
		}
	}
	if accepted < 1000 {
		t.Errorf("%d descriptions were accepted", accepted)
	}
}
