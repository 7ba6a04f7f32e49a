package dictionary

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

// sample returns n bytes of documents that no other test has with this seed.
func sample(seed string, n int) []byte {
	var b []byte
	for i := 0; len(b) < n; i++ {
		b = fmt.Appendf(b, `{"id":"%s-%d","kind":"order","state":"delivered","lines":[%d]}`, seed, i, i*i)
	}
	return b[:n]
}

// of returns the dictionary of the bytes.
func of(t *testing.T, b []byte) *Dictionary {
	t.Helper()
	d, err := New(b)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// codec returns an encoder and the decoder of a dictionary, which may be nil.
func codec(t *testing.T, d *Dictionary) (*zstd.Encoder, *zstd.Decoder) {
	t.Helper()
	e, err := NewZstdEncoder(d)
	if err != nil {
		t.Fatal(err)
	}
	z, err := d.ZstdDecoder()
	if err != nil {
		t.Fatal(err)
	}
	return e, z
}

// TestContent: a dictionary is a copy of its bytes, which neither the caller's slice nor a copy that it gives out can change.
func TestContent(t *testing.T) {
	given := sample("content", 1000)
	want := slices.Clone(given)
	d := of(t, given)
	clear(given)
	clear(d.Bytes())
	if !bytes.Equal(d.Content(), want) || !bytes.Equal(d.Bytes(), want) {
		t.Errorf("the content has become %.60q", d.Content())
	}
	if (*Dictionary)(nil).Content() != nil {
		t.Error("a nil dictionary has content")
	}
}

// TestSizes: dictionaries have between MinSize and MaxSize bytes.
func TestSizes(t *testing.T) {
	for n, ok := range map[int]bool{0: false, MinSize - 1: false, MinSize: true, MaxSize: true, MaxSize + 1: false} {
		if d, err := New(sample("sizes", n)); (err == nil) != ok || (d != nil) != ok {
			t.Errorf("%d bytes: %v, %v", n, d != nil, err)
		}
	}
}

// TestHash: the name of a dictionary is that of its content for ever, since files have it.
func TestHash(t *testing.T) {
	if got := of(t, []byte("0123456789abcdef")).Hash(); got != 0x787ab2f711519f9f {
		t.Errorf("the hash is %#x", got)
	}
}

// TestOneObject: goroutines that call New with the same bytes at the same time get one dictionary, and so does a later call while that
// dictionary is in use. The same holds after an earlier dictionary of these bytes was collected.
func TestOneObject(t *testing.T) {
	content := sample("one", 500)
	for range 300 {
		runtime.GC() // the dictionary of the round before is collected, and its cleanup runs while the next one is made
		var made [8]*Dictionary
		var calls sync.WaitGroup
		for i := range made {
			calls.Go(func() { made[i], _ = New(slices.Clone(content)) })
		}
		calls.Wait()
		runtime.GC() // that cleanup has time to run before the next call
		again := of(t, content)
		for _, d := range made {
			if d == nil || d != again {
				t.Fatalf("%p and %p have the same bytes", d, again)
			}
		}
		if other := of(t, content[1:]); other == again || other.Hash() == again.Hash() {
			t.Fatal("other bytes have the same object, or the same hash")
		}
		runtime.KeepAlive(&made)
	}
}

// TestForgotten: a dictionary that is not in use any more takes no memory.
func TestForgotten(t *testing.T) {
	content := sample("forgotten", 700)
	of(t, content)
	sum := sha256.Sum256(content)
	for range 10_000 { // the cleanup may run after several collections
		runtime.GC()
		dictionaries.Lock()
		_, known := dictionaries.byContent[sum]
		dictionaries.Unlock()
		if !known {
			return
		}
	}
	t.Error("the content of a dictionary that is gone is still known")
}

// TestMadeOnce: a dictionary makes its decoder, its positions and its S2 dictionary once, and gives goroutines that ask at the same time
// the same ones. A nil dictionary has a decoder too.
func TestMadeOnce(t *testing.T) {
	d := of(t, sample("once", 900))
	for name, get := range map[string]func() any{
		"decoder":                     func() any { z, _ := d.ZstdDecoder(); return z },
		"decoder of a nil dictionary": func() any { z, _ := (*Dictionary)(nil).ZstdDecoder(); return z },
		"positions":                   func() any { return d.Positions() },
		"dictionary for blocks of S2": func() any { return d.S2() },
	} {
		var got [8]any
		var calls sync.WaitGroup
		for i := range got {
			calls.Go(func() { got[i] = get() })
		}
		calls.Wait()
		if got[0] == nil || slices.ContainsFunc(got[:], func(x any) bool { return x != got[0] }) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestCompressed: a document comes back from what it was compressed to against a dictionary, which is smaller than without one.
func TestCompressed(t *testing.T) {
	d := of(t, sample("packed", 4000))
	doc := sample("packed", 300)
	packed := make(map[*Dictionary][]byte)
	for _, with := range []*Dictionary{d, nil} {
		e, z := codec(t, with)
		packed[with] = e.EncodeAll(doc, nil)
		got, err := z.DecodeAll(packed[with], make([]byte, 0, len(doc)))
		if err != nil || !bytes.Equal(got, doc) {
			t.Errorf("zstd with dictionary %v: %.60q, %v", with != nil, got, err)
		}
	}
	if len(packed[d]) >= len(packed[nil]) {
		t.Errorf("zstd: %d bytes with a dictionary, %d without", len(packed[d]), len(packed[nil]))
	}
	block := d.S2().Encode(nil, doc)
	got, err := d.S2().Decode(nil, block)
	if err != nil || !bytes.Equal(got, doc) || len(block) >= len(s2.Encode(nil, doc)) {
		t.Errorf("S2: %d bytes, %.60q, %v", len(block), got, err)
	}
}

// TestDecoderBounds: a decoder writes no more than the destination that it is given holds, keeps no larger window than encoders write, and
// takes damaged frames for such, without a panic.
func TestDecoderBounds(t *testing.T) {
	d := of(t, sample("bounds", 2000))
	doc := sample("other", 3000)
	for _, with := range []*Dictionary{d, nil} {
		e, z := codec(t, with)
		frame := e.EncodeAll(doc, nil)
		for _, room := range []int{0, 1, len(doc) - 1} {
			if got, err := z.DecodeAll(frame, make([]byte, 0, room)); err == nil {
				t.Errorf("dictionary %v: %d bytes come into %d", with != nil, len(got), room)
			}
		}
		// A frame of one byte, with a window of 32 and of 64 MiB.
		head := []byte{0x28, 0xB5, 0x2F, 0xFD, 0}
		for window, want := range map[byte]error{15 << 3: nil, 16 << 3: zstd.ErrWindowSizeExceeded} {
			small := append(slices.Clone(head), window, 1<<3|1, 0, 0, 'x')
			if got, err := z.DecodeAll(small, make([]byte, 0, 1)); err != want || want == nil && string(got) != "x" {
				t.Errorf("dictionary %v: window %#x: %q, %v, want %v", with != nil, window, got, err, want)
			}
		}
		for at := range frame {
			if _, err := z.DecodeAll(frame[:at], make([]byte, 0, len(doc))); err == nil && at > 0 {
				t.Errorf("dictionary %v: %d bytes of %d are taken for a frame", with != nil, at, len(frame))
			}
			bent := slices.Clone(frame)
			bent[at] ^= 0x55
			if got, err := z.DecodeAll(bent, make([]byte, 0, len(doc))); err == nil && len(got) > len(doc) {
				t.Errorf("dictionary %v: byte %d changed: %d bytes", with != nil, at, len(got))
			}
		}
	}
}
