package lz

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/s2"

	"github.com/cleavestore/cleave/internal/randtest"
)

// dictionary is a dictionary with what encoders want of it.
type dictionary struct {
	bytes []byte // with Spare bytes behind
	s2    *s2.Dict
}

func newDictionary(tb testing.TB, b []byte) *dictionary {
	tb.Helper()
	d := &dictionary{bytes: append(make([]byte, 0, len(b)+Spare), b...)}
	if d.s2 = s2.MakeDict(d.bytes, nil); d.s2 == nil {
		tb.Fatalf("dictionary of %d bytes refused", len(b))
	}
	return d
}

func (d *dictionary) encoder() *Encoder { return NewEncoder(d.bytes, NewPositions(d.bytes)) }

// reference decodes a block byte by byte, as its description says; ok is false
// if it is malformed.
func reference(block, dict []byte, n int) (out []byte, ok bool) {
	size, at := binary.Uvarint(block)
	if at <= 0 || size != uint64(n) {
		return nil, false
	}
	block = block[at:]
	take := func() (b int) {
		if len(block) == 0 {
			ok = false
			return 0
		}
		b, block = int(block[0]), block[1:]
		return b
	}
	for ok = true; len(out) < n; {
		tag := take()
		offset := take()
		offset |= take() << 8
		literals, match := tag%4, tag/4+2
		if tag/4 == 63 {
			literals = take()
			match = tag%4*256 + take()
		}
		for ; literals > 0 && ok; literals-- {
			out = append(out, byte(take()))
		}
		from := len(out) - offset
		if !ok || len(out)+match > n || match > 0 && (offset == 0 || from < 0 && (from+len(dict) < 0 || from+match > 0)) {
			return nil, false
		}
		for ; match > 0; match-- {
			if from < 0 {
				out = append(out, dict[len(dict)+from])
			} else {
				out = append(out, out[from])
			}
			from++
		}
	}
	return out, len(block) == 0
}

// vocabulary makes texts of repetitions, near and far, and of noise between them.
type vocabulary struct {
	rng   *rand.Rand
	words [][]byte
}

func newVocabulary(rng *rand.Rand) *vocabulary {
	words := make([][]byte, 300)
	for i := range words {
		words[i] = make([]byte, 1+rng.IntN(60))
		for j := range words[i] {
			words[i][j] = byte(rng.IntN(256))
		}
	}
	return &vocabulary{rng, words}
}

func (t *vocabulary) make(n int) (b []byte) {
	for len(b) < n {
		switch t.rng.IntN(12) {
		case 0: // a short period
			w := t.words[t.rng.IntN(len(t.words))]
			b = append(b, bytes.Repeat(w[:1+t.rng.IntN(min(len(w), 20))], 1+t.rng.IntN(40))...)
		case 1: // nothing like what came before
			for range t.rng.IntN(100) {
				b = append(b, byte(t.rng.IntN(256)))
			}
		default:
			b = append(b, t.words[t.rng.IntN(len(t.words))]...)
		}
	}
	return b[:n]
}

// input makes a dictionary and what to encode against it, at most MaxRaw bytes.
func (t *vocabulary) input(tb testing.TB) (*dictionary, []byte) {
	tb.Helper()
	d := newDictionary(tb, t.make(s2.MinDictSize+t.rng.IntN(20000)))
	if t.rng.IntN(50) == 0 {
		return d, bytes.Repeat(t.make(1+t.rng.IntN(40)), 800)
	}
	return d, t.make(1 + t.rng.IntN(3000))
}

// damagedBlock returns a copy of a block with some bytes changed, or an end of it
// cut off; now and then it is the same.
func damagedBlock(rng *rand.Rand, block []byte) []byte {
	b := bytes.Clone(block)
	if rng.IntN(4) == 0 {
		b = b[:rng.IntN(len(b)+1)]
	}
	for range rng.IntN(3) {
		if len(b) > 3 {
			b[3+rng.IntN(len(b)-3)] = byte(rng.IntN(256))
		}
	}
	return b
}

// guarded returns a copy of b with just that much capacity behind it, and what says
// whether what lies there, and behind it, is as it was.
func guarded(b []byte, room int) (c []byte, intact func() bool) {
	all := append(bytes.Clone(b), bytes.Repeat([]byte{0xa5}, room+64)...)
	return all[: len(b) : len(b)+room], func() bool { return bytes.Count(all[len(b):], []byte{0xa5}) == room+64 }
}

// decodePairs is Decode as it is where there is no assembly.
func decodePairs(dst, src, dict []byte) bool {
	size, s := binary.Uvarint(src)
	b := block{dst: dst, src: src, dict: dict, s: s}
	for s > 0 && b.d < len(dst) && b.pair() {
	}
	return s > 0 && size == uint64(len(dst)) && b.d == len(dst) && b.s == len(src)
}

// check decodes a block as the reference does, the whole or its beginning, with
// and without bytes behind it, and nothing is written behind the end.
func check(t *testing.T, block, dict []byte, n, need int) (ok bool) {
	t.Helper()
	want, valid := reference(block, dict, n)
	for _, room := range [...]int{0, 19, 20, 21, 100} {
		src, _ := guarded(block, room)
		dst, intact := guarded(make([]byte, n), 0)
		if decodePairs(dst, src, dict) != valid || valid && !bytes.Equal(dst, want) || !intact() {
			t.Fatalf("block of %d bytes, pair by pair: not what the reference says, %t; rest intact %t", len(block), valid, intact())
		}
		clear(dst)
		at, ok := Decode(dst, src, dict, n)
		if ok != valid || ok && (at != n || !bytes.Equal(dst, want)) || !intact() {
			t.Fatalf("block of %d bytes, %d behind: decodes %t, %d of %d bytes, the reference says %t; rest intact %t", len(block), room, ok, at, n, valid, intact())
		}
		clear(dst)
		at, ok = Decode(dst, src, dict, need)
		if valid && (!ok || at < need || !bytes.HasPrefix(want, dst[:at])) || !intact() {
			t.Fatalf("beginning of %d bytes of %d: %t, %d bytes; rest intact %t", need, n, ok, at, intact())
		}
	}
	return valid
}

// randomPairs makes a block of any pairs that are well formed but for what n
// bytes and the dictionary allow, which it mostly keeps to.
func randomPairs(rng *rand.Rand, dict, n int) []byte {
	block := binary.AppendUvarint(nil, uint64(n))
	for made := 0; made < n; {
		literals, match := rng.IntN(4), 2+rng.IntN(63)
		switch rng.IntN(8) {
		case 0:
			literals, match = rng.IntN(256), rng.IntN(1024)
		case 1:
			literals, match = rng.IntN(20), rng.IntN(70)
		case 2:
			match = 0
		}
		literals = min(literals, n-made)
		match = min(match, n-made-literals)
		offset := 1 + rng.IntN(dict+made+literals+rng.IntN(2)*rng.IntN(5))
		if rng.IntN(3) == 0 {
			offset = 1 + rng.IntN(min(40, dict+made+literals))
		}
		if gap := offset - made - literals; gap > 0 && match > gap && rng.IntN(200) > 0 {
			match = gap
		}
		noise := make([]byte, literals, literals+4)
		for i := range noise {
			noise[i] = byte(rng.Uint32())
		}
		pair := make([]byte, 2*literals+64)
		if literals+match > 0 {
			block = append(block, pair[:putPair(pair, noise, offset, match)]...)
		}
		made += literals + match
	}
	return block
}

func TestLZ(t *testing.T) {
	rng := randtest.New(t)
	text := newVocabulary(rng)
	valid, refused := 0, 0
	count := func(ok bool) {
		if ok {
			valid++
		} else {
			refused++
		}
	}
	for range randtest.Lone(3000) {
		d, raw := text.input(t)
		block := encode(d.encoder(), raw)
		if !check(t, block, d.bytes, len(raw), rng.IntN(len(raw)+1)) {
			t.Fatalf("block of %d bytes for %d refused", len(block), len(raw))
		}
		if rng.IntN(2) == 0 {
			block = randomPairs(rng, len(d.bytes), len(raw))
			count(check(t, block, d.bytes, len(raw), rng.IntN(len(raw)+1)))
		}
		for range 20 {
			b := damagedBlock(rng, block)
			count(check(t, b, d.bytes, len(raw), rng.IntN(len(raw)+1)))
		}
	}
	if valid < 1000 || refused < 1000 {
		t.Errorf("the test reached too little: %d valid, %d refused", valid, refused)
	}
}

// sampleDict is the dictionary of the tests of Decode.
func sampleDict(t testing.TB) *dictionary {
	t.Helper()
	return newDictionary(t, bytes.Repeat([]byte(`{"name":"Protein","units":"g","value":12.5},`), 40))
}

// sampleText makes text that repeats itself, the dictionary and nothing.
func sampleText(rng *rand.Rand, dict *dictionary) (text []byte) {
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

func TestLZRefuses(t *testing.T) {
	dict := newDictionary(t, []byte("0123456789abcdef")).bytes
	for name, block := range map[string][]byte{
		"empty":                     {},
		"another length":            {9, 63 << 2, 0, 0, 10, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10},
		"no pair":                   {10},
		"pair cut short":            {10, 8 << 2, 1},
		"wide pair cut short":       {10, 63 << 2, 0, 0, 10},
		"literals cut short":        {10, 63 << 2, 0, 0, 10, 0, 1, 2, 3},
		"literals beyond the end":   {10, 63 << 2, 0, 0, 11, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11},
		"match beyond the end":      {10, 9 << 2, 16, 0},
		"match at distance 0":       {10, 7<<2 | 1, 0, 0, 1},
		"match before a dictionary": {10, 8 << 2, 17, 0},
		"match past a dictionary":   {10, 8 << 2, 9, 0},
		"pairs after the end":       {10, 8 << 2, 16, 0, 0, 1, 0},
	} {
		if _, ok := Decode(make([]byte, 10), block, dict, 10); ok {
			t.Errorf("%s: decoded", name)
		}
	}
	if _, ok := Decode(make([]byte, 10), []byte{10, 8 << 2, 16, 0}, dict, 10); !ok {
		t.Error("a match with the dictionary is refused")
	}
	if _, ok := Decode(make([]byte, 10), []byte{10, 8 << 2, 16, 0}, nil, 10); ok {
		t.Error("a match with no dictionary: decoded")
	}
}

// FuzzLZ decodes any bytes: as the reference does, and nothing panics or is
// written behind the end.
func FuzzLZ(f *testing.F) {
	dict := sampleDict(f)
	rng := rand.New(rand.NewPCG(1, 0))
	e := dict.encoder()
	for range 20 {
		if text := sampleText(rng, dict); len(text) > 0 && len(text) <= MaxRaw {
			f.Add(encode(e, text), 30)
		}
		f.Add(randomPairs(rng, len(dict.bytes), 1+rng.IntN(2000)), 30)
	}
	f.Fuzz(func(t *testing.T, block []byte, need int) {
		n, err := s2.DecodedLen(block) // the same varint
		if err != nil || n > 1<<16 {
			return
		}
		need = max(0, min(need, n))
		check(t, block, nil, n, need)
		check(t, block, dict.bytes, n, need)
	})
}
