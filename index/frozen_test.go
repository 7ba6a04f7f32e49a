package index

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/randtest"
)

// frozenParts is a bitmap as it is written, right or wrong.
type frozenParts struct {
	bitmaps      []uint64
	runs, arrays []uint16
	keys, counts []uint16
	types        []byte
	header       uint32 // 0: the right one
}

func (f *frozenParts) bytes() (b []byte) {
	le := binary.LittleEndian
	for _, w := range f.bitmaps {
		b = le.AppendUint64(b, w)
	}
	for _, part := range [][]uint16{f.runs, f.arrays, f.keys, f.counts} {
		for _, v := range part {
			b = le.AppendUint16(b, v)
		}
	}
	b = append(b, f.types...)
	if f.header == 0 {
		f.header = frozenCookie | uint32(len(f.types))<<15
	}
	return le.AppendUint32(b, f.header)
}

// large returns a posting of a file with so many items, off bytes beyond where a
// view of the library can begin.
func large(b []byte, n, items uint32, off int) *Posting {
	src := append(make([]byte, off, off+len(b)+8), b...)[off:]
	return &Posting{r: &Reader{src: Memory(src), info: Info{Items: items, Bytes: int64(len(b))}}, n: n, kind: Large, size: int64(len(b))}
}

// TestViews reads postings of all kinds of containers where the library has views
// of them, and where it has none.
func TestViews(t *testing.T) {
	rng := randtest.New(t)
	const items = 200_000
	var all [][]uint32
	for _, one := range []int{2, 25, 100, 300} {
		var list []uint32
		for o := range uint32(items) {
			if rng.IntN(one) == 0 {
				list = append(list, o)
			}
		}
		all = append(all, list)
	}
	var runs []uint32
	for o := range uint32(items) {
		if o/1000%3 == 0 {
			runs = append(runs, o)
		}
	}
	all = append(all, runs)
	for _, list := range all {
		b := new(frozenWriter).append(nil, list)
		for _, off := range []int{0, 1, 4} {
			p := large(b, uint32(len(list)), items, off)
			f, err := p.frozen()
			if err != nil {
				t.Fatal(err)
			}
			if (f.view() != nil) != (hasViews && off == 0) {
				t.Errorf("%d bytes beyond a multiple of 8 there is a view: %t", off, f.view() != nil)
			}
			if got, err := p.AppendTo([]uint32{7}); err != nil || got[0] != 7 || !slices.Equal(got[1:], list) {
				t.Errorf("%d bytes beyond a multiple of 8: %d ordinals, %v, not %d", off, len(got)-1, err, len(list))
			}
			for _, other := range all {
				both := 0
				for _, o := range other {
					if _, ok := slices.BinarySearch(list, o); ok {
						both++
					}
				}
				q := large(new(frozenWriter).append(nil, other), uint32(len(other)), items, off)
				if n, err := p.CountBoth(q); n != both || err != nil {
					t.Errorf("%d bytes beyond a multiple of 8: %d in both, %v, not %d", off, n, err, both)
				}
			}
		}
	}
}

// TestFrozenOfSet: a set is written as the list of its ordinals is. Its range ends in the midst of
// a word, and of a container.
func TestFrozenOfSet(t *testing.T) {
	rng := randtest.New(t)
	var ofList, ofSet frozenWriter // which keep their memory
	for _, items := range []uint32{1, 64, 1000, 1 << 16, 1<<16 + 1, 150_003} {
		for _, one := range []int{1, 2, 25, 40, 3000} {
			for _, length := range []int{1, 20, 30, 50, 1 << 16} { // of runs, at most
				var set Set
				set.Reset(0, items)
				for at := 0; at < int(items); {
					n := 1 + rng.IntN(length)
					if rng.IntN(one) == 0 {
						set.AddRange(uint32(at), uint32(at+n))
					}
					at += n
				}
				want := ofList.append([]byte{7}, set.AppendTo(nil))
				if got := ofSet.appendSet([]byte{7}, &set); !bytes.Equal(got, want) {
					t.Fatalf("%d of %d items: %d bytes, not the %d of the list", set.Count(), items, len(got), len(want))
				}
			}
		}
	}
}

// TestForgedBitmaps reads bitmaps that nobody writes.
func TestForgedBitmaps(t *testing.T) {
	const items = 150_000
	ones := slices.Repeat([]uint64{^uint64(0)}, frozenWords)
	some := slices.Clone(ones)
	clear(some[10:])
	rising := make([]uint16, 600)
	for i := range rising {
		rising[i] = uint16(3 * i)
	}
	falling := slices.Clone(rising)
	slices.Reverse(falling)
	twice := slices.Clone(rising)
	twice[1] = twice[0]
	array := func(content []uint16, key uint16) frozenParts {
		return frozenParts{arrays: content, keys: []uint16{key}, counts: []uint16{uint16(len(content) - 1)}, types: []byte{frozenArray}}
	}
	bitmap := func(words []uint64, count uint16) frozenParts {
		return frozenParts{bitmaps: words, keys: []uint16{0}, counts: []uint16{count}, types: []byte{frozenBitmap}}
	}
	inRuns := func(pairs ...uint16) frozenParts {
		return frozenParts{runs: pairs, keys: []uint16{0}, counts: []uint16{uint16(len(pairs) / 2)}, types: []byte{frozenRuns}}
	}
	tail := array(rising, 2) // from 131,072 on
	tail.arrays = append(slices.Clone(rising[:599]), 60_000)
	good := array(rising, 0)
	fields := func(change func(f *frozenParts)) frozenParts {
		f := good
		change(&f)
		return f
	}
	// Contents are seen when they are listed, what else is wrong always.
	contents := []string{"more bits than ordinals", "fewer bits", "falling array", "one ordinal twice", "beyond the items"}
	for name, c := range map[string]struct {
		f frozenParts
		n uint32
	}{
		"more bits than ordinals":  {bitmap(ones, 2999), 3000},
		"fewer bits":               {bitmap(some, 2999), 3000},
		"falling array":            {array(falling, 0), 600},
		"one ordinal twice":        {array(twice, 0), 600},
		"beyond the items":         {tail, 600},
		"a key beyond the items":   {array(rising, 3), 600},
		"a run past the end":       {inRuns(65_000, 999), 1000},
		"falling runs":             {inRuns(3000, 499, 0, 499), 1000},
		"runs that overlap":        {inRuns(0, 599, 300, 599), 1200},
		"no runs":                  {frozenParts{runs: nil, arrays: rising, keys: []uint16{0, 1}, counts: []uint16{0, 599}, types: []byte{frozenRuns, frozenArray}}, 600},
		"keys that fall":           {frozenParts{arrays: append(slices.Clone(rising), rising...), keys: []uint16{1, 0}, counts: []uint16{599, 599}, types: []byte{frozenArray, frozenArray}}, 1200},
		"one key twice":            {frozenParts{arrays: append(slices.Clone(rising), rising...), keys: []uint16{1, 1}, counts: []uint16{599, 599}, types: []byte{frozenArray, frozenArray}}, 1200},
		"another number":           {good, 601},
		"an unknown type":          {fields(func(f *frozenParts) { f.types = []byte{4} }), 600},
		"a longer array":           {fields(func(f *frozenParts) { f.counts = []uint16{700} }), 701},
		"a shorter array":          {fields(func(f *frozenParts) { f.counts = []uint16{510} }), 511},
		"more containers":          {fields(func(f *frozenParts) { f.header = frozenCookie | 2<<15 }), 600},
		"the most containers":      {fields(func(f *frozenParts) { f.header = frozenCookie | 0x1FFFF<<15 }), 600},
		"no containers":            {frozenParts{}, 600},
		"another cookie":           {fields(func(f *frozenParts) { f.header = 12347 | 1<<15 }), 600},
		"a cookie of a big-endian": {fields(func(f *frozenParts) { f.header = 0xC6350000 }), 600},
	} {
		for _, off := range []int{0, 1} {
			p := large(c.f.bytes(), c.n, items, off)
			q := large(new(frozenWriter).append(nil, drawnBelow(items)), uint32(len(drawnBelow(items))), items, off)
			if got, err := p.AppendTo(nil); !errors.Is(err, fault.ErrCorrupt) && (hasViews && off == 0 || name != "falling array") {
				t.Errorf("%s, %d bytes beyond a multiple of 8: %d ordinals, %v", name, off, len(got), err)
			}
			check := func(err error) {
				t.Helper()
				if err != nil && !errors.Is(err, fault.ErrCorrupt) {
					t.Errorf("%s: %v", name, err)
				}
			}
			for _, hi := range []uint32{items, 1000} {
				s := setBelow(hi)
				check(p.AddTo(s))
				_, err := p.CountIn(s)
				check(err)
				_, err = p.countOf([]uint32{1, 3, 999}, s)
				check(err)
				check(p.Retain(s))
				check(p.AddBoth(q, s))
				check(q.AddBoth(p, s))
				check(p.AddBoth(p, s))
			}
			for _, pair := range [][2]*Posting{{p, q}, {q, p}, {p, p}} {
				n, err := pair[0].CountBoth(pair[1])
				if check(err); err == nil && !slices.Contains(contents, name) {
					t.Errorf("%s: %d in both", name, n)
				}
			}
		}
	}
}

func setBelow(hi uint32) *Set {
	var s Set
	s.Reset(0, hi)
	return &s
}

// drawnBelow returns about half of the ordinals below a number.
func drawnBelow(items uint32) (list []uint32) {
	rng := rand.New(rand.NewPCG(5, 6))
	for o := range items {
		if rng.IntN(2) == 0 {
			list = append(list, o)
		}
	}
	return list
}
