package lz

import (
	"bytes"
	"testing"

	"github.com/klauspost/compress/s2"
	"golang.org/x/sys/unix"

	"github.com/cleavestore/cleave/internal/randtest"
)

// atEnd returns a copy of b that ends, but for room bytes, where memory that may
// not be touched begins.
func atEnd(t *testing.T, b []byte, room int) []byte {
	t.Helper()
	page := unix.Getpagesize()
	size := (len(b) + room + page - 1) / page * page
	m, err := unix.Mmap(-1, 0, size+page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(m) })
	if err := unix.Mprotect(m[size:], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	at := size - room - len(b)
	copy(m[at:], b)
	return m[at : at+len(b) : size]
}

// TestLZStaysInside decodes blocks, dictionaries and destinations behind whose
// capacity no memory is: a byte read or written too far ends the test.
func TestLZStaysInside(t *testing.T) {
	rng := randtest.New(t)
	text := newVocabulary(rng).make
	for range 100 {
		d := newDictionary(t, text(s2.MinDictSize+rng.IntN(3000)))
		raw := text(1 + rng.IntN(2000))
		block := encode(d.encoder(), raw)
		if rng.IntN(2) == 0 {
			block = randomPairs(rng, len(d.bytes), len(raw))
		}
		if rng.IntN(3) == 0 {
			block = block[:2+rng.IntN(len(block)-1)]
		}
		want, valid := reference(block, d.bytes, len(raw))
		edge := atEnd(t, d.bytes, Spare)
		for _, room := range []int{0, 1, 15, 16, 17, 19, 20, 21, 22, 40} {
			src, dst := atEnd(t, block, room), atEnd(t, make([]byte, len(raw)), 0)
			if _, ok := Decode(dst, src, edge, len(raw)); ok != valid || ok && !bytes.Equal(dst, want) {
				t.Fatalf("block of %d bytes for %d, %d behind: %t, the reference says %t", len(block), len(raw), room, ok, valid)
			}
		}
	}
}
