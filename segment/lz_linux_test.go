package segment

import (
	"bytes"
	"testing"

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
	text := newLZWords(rng).make
	for range 100 {
		d, err := NewDictionary(text(MinDictionary + rng.IntN(3000)))
		if err != nil {
			t.Fatal(err)
		}
		raw := text(1 + rng.IntN(2000))
		block := encodeLZ(newLZEncoder(d), raw)
		if rng.IntN(2) == 0 {
			block = randomPairs(rng, len(d.bytes), len(raw))
		}
		if rng.IntN(3) == 0 {
			block = block[:2+rng.IntN(len(block)-1)]
		}
		want, valid := lzReference(block, d.bytes, len(raw))
		edge := &Dictionary{bytes: atEnd(t, d.bytes, lzSpare)}
		for _, room := range []int{0, 1, 19, 20, 21, 22, 40} {
			src, dst := atEnd(t, block, room), atEnd(t, make([]byte, len(raw)), 0)
			if _, ok := decodeLZ(dst, src, edge, len(raw)); ok != valid || ok && !bytes.Equal(dst, want) {
				t.Fatalf("block of %d bytes for %d, %d behind: %t, the reference says %t", len(block), len(raw), room, ok, valid)
			}
		}
	}
}
