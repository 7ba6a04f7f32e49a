package index

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/forge"
	"github.com/cleavestore/cleave/internal/randtest"
)

// An index has no checksums of its own: those of its segment cover it. So any
// bytes are a forged index with right checksums.

// counted counts the bytes that are read of an index.
type counted struct {
	Source
	n int64
}

func (c *counted) View(off, n int64) ([]byte, error) {
	c.n += n
	return c.Source.View(off, n)
}

func forgedDocs() []string {
	docs := slices.Repeat([]string{`{"a":1,"b":["x",{"c":null}],"d":"red"}`, `{"a":2.5,"b":{}}`}, 600)
	g := &generator{Rand: rand.New(rand.NewPCG(3, 4))}
	for range 300 {
		docs = append(docs, g.document())
	}
	return docs
}

// readForged reads all of a forged index in all ways. It may answer wrong, but
// reads no more than so often the bytes that it has.
func readForged(t testing.TB, b []byte, keys [][]byte) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil && !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, fault.ErrTooNew) {
			t.Fatal(err)
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	src := &counted{Source: Memory(b)}
	r, err := Open(src)
	if check(err); err != nil {
		return
	}
	_, err = r.Policy()
	check(err)
	size := int64(len(b))
	spend := func(what string, times int64) {
		t.Helper()
		if src.n > times*size+1<<16 {
			t.Fatalf("%s reads %d bytes of an index of %d", what, src.n, size)
		}
		src.n = 0
	}
	var set Set
	set.Reset(0, min(r.Info().Items, 1<<16))
	check(r.Union(context.Background(), Documents(), &set))
	spend("union", 4)
	check(r.Union(context.Background(), Span{From: []byte{0}, To: []byte{0xFF}}, &set))
	spend("union of everything", 4)
	set.Fill()
	_, err = r.CountIn(context.Background(), Span{From: []byte{0}, To: []byte{0xFF}}, &set)
	check(err)
	spend("count", 4)
	c := r.Cursor()
	n := 0
	var last []byte
	for ok := c.First(); ok; ok = c.Next() {
		if n++; n > len(b) {
			t.Fatal("more terms than bytes")
		}
		if n > 1 && string(c.Key()) <= string(last) {
			t.Fatalf("%q follows %q", c.Key(), last)
		}
		last = append(last[:0], c.Key()...)
		p := c.Posting()
		check(p.AddTo(&set))
		if p.Len() < 1<<16 {
			_, err := p.AppendTo(nil)
			check(err)
		}
		if p.Kind() == Large {
			_, err := p.CountBoth(p)
			check(err)
		}
	}
	check(c.Err())
	spend("a cursor", 8)
	for _, key := range keys {
		_, _, err := r.Lookup(key)
		check(err)
		if c.Seek(key) && string(c.Key()) < string(key) && n == 0 {
			t.Fatal("seek goes before its key")
		}
		for _, reset := range [...]bool{false, true} {
			if reset {
				c.Reset(r) // so that the block is opened anew
			}
			if ok := c.Seek(key); ok && string(c.Key()) < string(key) {
				t.Fatalf("seek of %q goes to %q", key, c.Key())
			} else if ok {
				if last = append(last[:0], c.Key()...); c.Next() && string(c.Key()) <= string(last) {
					t.Fatalf("%q follows %q", c.Key(), last)
				}
			}
			if ok := c.SeekBefore(key); ok && string(c.Key()) >= string(key) {
				t.Fatalf("seek before %q goes to %q", key, c.Key())
			} else if ok {
				if last = append(last[:0], c.Key()...); c.Prev() && string(c.Key()) >= string(last) {
					t.Fatalf("%q is before %q", c.Key(), last)
				}
			}
		}
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 32<<20 {
		t.Fatalf("%d bytes for an index of %d", took, len(b))
	}
}

// termsOf returns some of the terms of an index.
func termsOf(t testing.TB, b []byte) (keys [][]byte) {
	c := mustOpen(t, b).Cursor()
	n := 0
	for ok := c.First(); ok; ok = c.Next() {
		if n++; n%7 == 1 {
			keys = append(keys, slices.Clone(c.Key()))
		}
	}
	return keys
}

func forgedIndex(t testing.TB) []byte {
	p, err := Compile(All())
	if err != nil {
		t.Fatal(err)
	}
	return build(t, p, forgedDocs(), 0, nil)
}

// TestForged changes the bytes of an index one by one, in several ways, and
// reads.
func TestForged(t *testing.T) {
	rng := randtest.New(t)
	good := forgedIndex(t)
	keys := termsOf(t, good)
	readForged(t, good, keys)
	for i := range good {
		// All of them take minutes; FuzzForged goes on. The fences and the trailer are
		// what finds everything else.
		if i < len(good)-1200 && rng.IntN(40) > 0 || rng.IntN(3) > 0 {
			continue
		}
		b := slices.Clone(good)
		forge.Change(b, i, byte(rng.Uint32()), rng.Uint64())
		readForged(t, b, keys)
	}
}

// TestFencesOfOneBlock: many fences that name one block.
func TestFencesOfOneBlock(t *testing.T) {
	good := forgedIndex(t)
	r := mustOpen(t, good)
	f, err := r.fence(0)
	if err != nil {
		t.Fatal(err)
	}
	const fences = 16384
	le := binary.LittleEndian
	b := slices.Clone(good[:r.table])
	for range fences {
		b = le.AppendUint64(b, uint64(f.off))
		b = le.AppendUint32(b, uint32(f.size))
		b = le.AppendUint32(b, 0)
	}
	b = append(b, good[r.policy:]...)
	trailer := b[len(b)-trailerLen:]
	le.PutUint64(trailer[24+8*4:], uint64(r.policy+int64(len(b)-len(good))))
	src := &counted{Source: Memory(b)}
	if r, err = Open(src); err != nil {
		t.Fatal(err)
	}
	c := r.Cursor()
	for ok := c.First(); ok; ok = c.Next() {
	}
	if !errors.Is(c.Err(), fault.ErrCorrupt) {
		t.Errorf("%v after reading %d bytes of %d", c.Err(), src.n, len(b))
	}
}

// TestTermsOfOneBitmap: many terms that name one bitmap.
func TestTermsOfOneBitmap(t *testing.T) {
	good := forgedIndex(t)
	r := mustOpen(t, good)
	c := r.Cursor()
	var large []Posting
	for ok := c.First(); ok; ok = c.Next() {
		if p := *c.Posting(); p.kind == Large {
			large = append(large, p)
		}
	}
	if len(large) < 3 {
		t.Fatalf("%d large postings", len(large))
	}
	// The terms of a block are written anew, each with the first bitmap.
	f, err := r.fence(0)
	if err != nil {
		t.Fatal(err)
	}
	block := good[f.off : f.off+f.size]
	var terms []byte
	for i := byte(1); len(terms)+12 < len(block); i++ {
		terms = append(terms, 0, 1, i)
		terms = binary.AppendUvarint(terms, uint64(large[0].n))
		terms = binary.AppendUvarint(terms, uint64(large[0].at/frozenAlign))
		terms = binary.AppendUvarint(terms, uint64(large[0].size))
	}
	b := slices.Clone(good)
	copy(b[f.off:], terms)
	// The block ends with them.
	fences := b[r.table:]
	binary.LittleEndian.PutUint32(fences[8:], uint32(len(terms)))
	src := &counted{Source: Memory(b)}
	if r, err = Open(src); err != nil {
		t.Fatal(err)
	}
	var set Set
	set.Reset(0, r.Info().Items)
	if err := r.Union(context.Background(), Span{From: []byte{0}, To: []byte{0xFF}}, &set); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("%v after reading %d bytes of %d", err, src.n, len(b))
	}
}

// TestTermsThatFall: terms and keys of fences that do not rise are damage for a cursor, which so comes
// to an end whatever it is used for.
func TestTermsThatFall(t *testing.T) {
	long := strings.Repeat("x", 60)
	docs := []string{`{"a":"` + long + `"}`, `{"a":"y"}`}
	good := build(t, mustCompile(t, All()), docs, 0, nil)
	at := bytes.Index(good, []byte{5, 1, 'y'}) // shared, bytes, the other byte
	if at < 0 {
		t.Fatal("no such term")
	}
	path := mustPath(t, "/a")
	seek := func(b []byte, text string) (string, error) {
		c := mustOpen(t, b).Cursor()
		if !c.Seek(Equal(path, StringValue(text)).From) {
			return "", c.Err()
		}
		return string(c.Key()[5:]), nil
	}
	for _, term := range [][]byte{{5, 1, 'b'}, {5, 1, 'x'}, {0, 1, 1}, {6, 1, 'b'}, {6, 1, 'x'}} {
		b := slices.Clone(good)
		copy(b[at:], term)
		c := mustOpen(t, b).Cursor()
		if !c.First() || c.Next() || !errors.Is(c.Err(), fault.ErrCorrupt) || c.Valid() {
			t.Errorf("%v: %v", term, c.Err())
		}
		if got, err := seek(b, long+"a"); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%v: seek goes to %q, %v", term, got, err)
		}
	}
	if got, err := seek(good, long+"a"); got != "y" || err != nil {
		t.Errorf("seek goes to %q, %v", got, err)
	}

	// The key of the second fence lies before the terms of the first block, or behind those of its own.
	good = forgedIndex(t)
	r := mustOpen(t, good)
	f, err := r.fence(0)
	if err != nil {
		t.Fatal(err)
	}
	for _, head := range []byte{0, 0xFF} {
		b := slices.Clone(good)
		b[r.keys+int64(len(f.key))] = head
		c := mustOpen(t, b).Cursor()
		for ok := c.First(); ok; ok = c.Next() {
		}
		if !errors.Is(c.Err(), fault.ErrCorrupt) {
			t.Errorf("key of a fence that begins with %d: %v", head, c.Err())
		}
		if head > 0 {
			continue
		}
		for ok := c.SeekBefore([]byte{0xFF}); ok; ok = c.Prev() {
		}
		if !errors.Is(c.Err(), fault.ErrCorrupt) {
			t.Errorf("key of a fence that begins with %d, backwards: %v", head, c.Err())
		}
	}
}

// TestBlockTooLarge: the largest block that a writer makes is read, and none that is much larger: the
// terms of a block may be a hundred times as long as it, together.
func TestBlockTooLarge(t *testing.T) {
	var list []uint32 // a long one
	for o := uint32(0); len(list) < largePosting-1; o += 1 << 22 {
		list = append(list, o)
	}
	read := func(more int) (size int, err error) {
		var b []byte
		w := newWriter(func(p []byte) error { b = append(b, p...); return nil })
		for i := 0; len(w.block) < blockBytes-16; i++ {
			if err := w.add(fmt.Appendf(nil, "a%04d", i), []uint32{0}); err != nil {
				t.Fatal(err)
			}
		}
		key := append([]byte("b"), make([]byte, blockBytes-1-len(w.block)-5)...) // up to the last byte
		for _, of := range []struct {
			key  []byte
			list []uint32
		}{{key, list[:1]}, {bytes.Repeat([]byte{'c'}, maxTermBytes), list}} {
			if err := w.add(of.key, of.list); err != nil {
				t.Fatal(err)
			}
		}
		for range more {
			w.block = append(w.block, 0, 1, 'd', 1, 0)
		}
		size = len(w.block)
		if err := w.finish(MaxItems, mustCompile(t, All()), false); err != nil {
			t.Fatal(err)
		}
		_, _, err = mustOpen(t, b).Count(t.Context(), Span{From: []byte{0}, To: []byte{0xFF}})
		return size, err
	}
	size, err := read(0)
	if want := blockBytes - 1 + maxTermBytes + 4*len(list); size < want || size > maxBlockBytes || err != nil {
		t.Errorf("block of %d bytes: %v", size, err)
	}
	if size, err := read(maxBlockBytes / 5); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("block of %d bytes: %v", size, err)
	}
}

// TestTextElsewhere: of a term that does not lie in the span, Text knows nothing.
func TestTextElsewhere(t *testing.T) {
	strings := OfType(mustPath(t, "/a"), String)
	for _, term := range [][]byte{nil, {1}, strings.From[:2], OfType(mustPath(t, "/bcdefg"), String).From} {
		if text, whole := Text(term, &strings); whole {
			t.Errorf("%q: %q", term, text)
		}
	}
}

// FuzzForged changes bytes of an index where the input says, and reads.
func FuzzForged(f *testing.F) {
	good := forgedIndex(f)
	keys := termsOf(f, good)
	f.Add([]byte{0, 0, 100, 1, 0, 1, 0, 2})
	f.Fuzz(func(t *testing.T, changes []byte) {
		b := slices.Clone(good)
		seed := uint64(len(changes))
		for ; len(changes) >= 4; changes = changes[4:] {
			at := int(changes[0])<<16 | int(changes[1])<<8 | int(changes[2])
			seed = seed*31 + uint64(changes[3])
			forge.Change(b, at%len(b), changes[3], seed*0x9e3779b97f4a7c15)
		}
		readForged(t, b, keys)
	})
}
