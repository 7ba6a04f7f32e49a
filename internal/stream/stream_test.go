package stream

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/cleavestore/cleave/internal/fault"
)

func sample(t testing.TB) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := NewWriter(&out)
	if err != nil {
		t.Fatal(err)
	}
	for i, payload := range []string{"head", "", strings.Repeat("x", 300)} {
		if err := w.Block(byte(i+1), []byte(payload)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil || w.Bytes() != int64(out.Len()) {
		t.Fatalf("%d bytes of %d, %v", w.Bytes(), out.Len(), err)
	}
	return out.Bytes()
}

func readAll(r io.Reader) (text string, err error) {
	s := NewReader("s", r)
	for {
		kind, payload, err := s.Next()
		if err != nil {
			return text, err
		}
		text += string('0'+rune(kind)) + string(payload) + ";"
	}
}

func TestStream(t *testing.T) {
	data := sample(t)
	want := "1head;2;3" + strings.Repeat("x", 300) + ";"
	for _, r := range []io.Reader{bytes.NewReader(data), iotest.OneByteReader(bytes.NewReader(data)), iotest.DataErrReader(bytes.NewReader(data))} {
		if got, err := readAll(r); got != want || err != io.EOF {
			t.Errorf("%q, %v", got, err)
		}
	}
}

// TestDamage: a stream with any bit flipped, cut short anywhere, or with blocks
// in another order is corrupt, and what was read before is right.
func TestDamage(t *testing.T) {
	data := sample(t)
	for i := range data {
		for bit := range 8 {
			damaged := bytes.Clone(data)
			damaged[i] ^= 1 << bit
			if _, err := readAll(bytes.NewReader(damaged)); !errors.Is(err, fault.ErrCorrupt) {
				t.Fatalf("byte %d bit %d: %v", i, bit, err)
			}
		}
	}
	for n := range data {
		if _, err := readAll(bytes.NewReader(data[:n])); !errors.Is(err, fault.ErrCorrupt) {
			t.Fatalf("cut to %d bytes: %v", n, err)
		}
	}
	first, second := len(magic)+headBytes+4, len(magic)+2*headBytes+4
	swapped := append(append(append(bytes.Clone(data[:len(magic)]), data[first:second]...), data[len(magic):first]...), data[second:]...)
	if _, err := readAll(bytes.NewReader(swapped)); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("blocks in another order: %v", err)
	}
}

// TestFailingReader: its error is not taken for the end or for damage.
func TestFailingReader(t *testing.T) {
	bad := errors.New("bad")
	data := sample(t)
	s := NewReader("s", io.MultiReader(bytes.NewReader(data[:20]), iotest.ErrReader(bad)))
	for range 3 {
		if _, _, err := s.Next(); err != nil && !errors.Is(err, bad) {
			t.Fatal(err)
		}
	}
	if _, _, err := s.Next(); !errors.Is(err, bad) {
		t.Errorf("%v", err)
	}
	w, err := NewWriter(io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if w.Block(0, nil) == nil || w.Block(kindEnd, nil) == nil || w.Block(1, make([]byte, MaxBlock+1)) == nil {
		t.Error("a block that there cannot be was written")
	}
}

func FuzzReader(f *testing.F) {
	f.Add(sample(f))
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := readAll(bytes.NewReader(data)); err != io.EOF && !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%v", err)
		}
	})
}
