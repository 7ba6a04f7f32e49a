package segment

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/s2"
)

// prefixDict is the dictionary of the tests of decodePrefix.
func prefixDict(t testing.TB) *Dictionary {
	t.Helper()
	d, err := NewDictionary(bytes.Repeat([]byte(`{"name":"Protein","units":"g","value":12.5},`), 40))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// prefixText makes text that repeats itself, the dictionary and nothing.
func prefixText(rng *rand.Rand, dict *Dictionary) (text []byte) {
	for n := rng.IntN(12); n >= 0; n-- {
		switch rng.IntN(4) {
		case 0:
			from := rng.IntN(len(dict.bytes))
			text = append(text, dict.bytes[from:from+rng.IntN(len(dict.bytes)-from)]...)
		case 1:
			for range rng.IntN(100) {
				text = append(text, byte(rng.Uint32()))
			}
		case 2:
			text = append(text, bytes.Repeat([]byte{byte(rng.Uint32())}, rng.IntN(70_000)>>rng.IntN(16))...)
		case 3:
			if len(text) > 0 {
				from := rng.IntN(len(text))
				text = append(text, text[from:]...)
			}
		}
	}
	return text
}

func TestDecodePrefix(t *testing.T) {
	dict := prefixDict(t)
	rng := newRand(t)
	for range 2000 {
		text := prefixText(rng, dict)
		for _, of := range []struct {
			dict  *Dictionary
			block []byte
		}{{dict, dict.s2.Encode(nil, text)}, {nil, s2.Encode(nil, text)}, {nil, s2.EncodeBest(nil, text)}} {
			for _, need := range []int{0, rng.IntN(len(text) + 1), len(text)} {
				dst := make([]byte, len(text))
				if !decodePrefix(dst, of.block, of.dict, need) || !bytes.Equal(dst[:need], text[:need]) {
					t.Fatalf("%d of %d bytes are not those encoded (dictionary: %v)", need, len(text), of.dict != nil)
				}
			}
		}
	}
}

// FuzzDecodePrefix decodes any bytes: what the library decodes is the same, and
// nothing panics.
func FuzzDecodePrefix(f *testing.F) {
	dict := prefixDict(f)
	rng := rand.New(rand.NewPCG(1, 0))
	for range 20 {
		f.Add(dict.s2.Encode(nil, prefixText(rng, dict)), 30)
	}
	f.Fuzz(func(t *testing.T, block []byte, need int) {
		n, err := s2.DecodedLen(block)
		if err != nil || n > 1<<20 {
			return
		}
		need = max(0, min(need, n))
		check := func(dict *Dictionary, want []byte, err error) error {
			got := make([]byte, n)
			if ok := decodePrefix(got, block, dict, need); err == nil && (!ok || !bytes.Equal(got[:need], want[:need])) {
				return fmt.Errorf("%d of %d bytes differ: decoded %v", need, n, ok)
			}
			return nil
		}
		plain, plainErr := s2.Decode(nil, block)
		if err := check(nil, plain, plainErr); err != nil {
			t.Error(err)
		}
		with, withErr := dict.s2.Decode(nil, block)
		if err := check(dict, with, withErr); err != nil {
			t.Error("with a dictionary:", err)
		}
	})
}
