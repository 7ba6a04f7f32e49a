package index

import (
	"encoding/binary"
	"math/bits"
	"sort"
)

// A Large posting is a roaring bitmap in the frozen format of CRoaring, but for
// the number of ordinals from which on a container is a bitmap:
//
//	│ bitmaps 8192 each │ runs 4 each │ arrays 2 an ordinal │
//	│ keys 2 each │ counts 2 each │ types 1 each │ header 4 │
//
//	header  0x35C6 or in 15 bits, containers n in 17
//	type    1 bitmap, 2 array, 3 runs
//	count   ordinals - 1, of runs their number
//	run     first 2 | length - 1, 2
//
// A container holds the ordinals whose upper 16 bits are its key. Keys rise.
// Those of one type lie behind each other in the order of keys.
const (
	frozenBitmap = 1
	frozenArray  = 2
	frozenRuns   = 3

	frozenCookie = 13766
	frozenWords  = 1024
)

// frozen walks over the containers of a posting. What it reads lies within the
// posting, whatever the bytes are.
type frozen struct {
	p       *Posting
	keys    []byte
	counts  []byte
	types   []byte
	bitmaps []byte // what is left of them, and of runs and arrays
	runs    []byte
	arrays  []byte
	i       int

	kind byte // of the container at hand
	key  uint16
	data []byte
	last int // key before
	err  error
}

// frozen begins a walk. It checks the frame of the bitmap: that its parts take
// all of its bytes, and that it has as many ordinals as the dictionary says.
func (p *Posting) frozen() (f frozen, err error) {
	b, err := p.r.view(p.at, p.size)
	if err != nil {
		return f, err
	}
	le := binary.LittleEndian
	if len(b) < 4 {
		return f, p.r.corrupt(p.at, errFrozen)
	}
	header := le.Uint32(b[len(b)-4:])
	b = b[:len(b)-4]
	n := int(header >> 15)
	if header&0x7FFF != frozenCookie || n > len(b)/5 {
		return f, p.r.corrupt(p.at, errFrozen)
	}
	f = frozen{p: p, i: -1, last: -1}
	f.types, b = b[len(b)-n:], b[:len(b)-n]
	f.counts, b = b[len(b)-2*n:], b[:len(b)-2*n]
	f.keys, b = b[len(b)-2*n:], b[:len(b)-2*n]
	var bitmaps, runs, arrays int
	ordinals := uint64(0)
	for i, t := range f.types {
		count := int(le.Uint16(f.counts[2*i:]))
		switch t {
		case frozenBitmap:
			bitmaps++
			ordinals += uint64(count) + 1
		case frozenArray:
			arrays += count + 1
			ordinals += uint64(count) + 1
		case frozenRuns:
			runs += count
		default:
			return f, p.r.corrupt(p.at, errFrozen)
		}
	}
	if 8*frozenWords*bitmaps+4*runs+2*arrays != len(b) {
		return f, p.r.corrupt(p.at, errFrozen)
	}
	f.bitmaps, b = b[:8*frozenWords*bitmaps], b[8*frozenWords*bitmaps:]
	f.runs, f.arrays = b[:4*runs], b[4*runs:]
	for i := 2; i < len(f.runs); i += 4 {
		ordinals += uint64(le.Uint16(f.runs[i:])) + 1
	}
	if ordinals != uint64(p.n) {
		return f, p.r.corrupt(p.at, errUnwanted)
	}
	return f, nil
}

// next moves to the next container.
func (f *frozen) next() bool {
	if f.err != nil {
		return false
	}
	if f.i++; f.i >= len(f.types) {
		return false
	}
	le := binary.LittleEndian
	f.kind, f.key = f.types[f.i], le.Uint16(f.keys[2*f.i:])
	if int(f.key) <= f.last || uint64(f.key)<<16 >= uint64(f.p.r.info.Items) {
		f.err = f.p.r.corrupt(f.p.at, errFrozen)
		return false
	}
	f.last = int(f.key)
	count := int(le.Uint16(f.counts[2*f.i:]))
	switch f.kind {
	case frozenBitmap:
		f.data, f.bitmaps = f.bitmaps[:8*frozenWords], f.bitmaps[8*frozenWords:]
	case frozenArray:
		f.data, f.arrays = f.arrays[:2*(count+1)], f.arrays[2*(count+1):]
	case frozenRuns:
		f.data, f.runs = f.runs[:4*count], f.runs[4*count:]
	}
	return true
}

// nextIn is next for containers that may hold ordinals from lo to hi.
func (f *frozen) nextIn(lo, hi uint32) bool {
	for f.next() {
		base := uint32(f.key) << 16
		if base >= hi {
			return false
		}
		if uint64(base)+1<<16 > uint64(lo) {
			return true
		}
	}
	return false
}

// cut leaves, of an array container of the ordinals from base on, about those
// from lo to hi.
func (f *frozen) cut(base, lo, hi uint32) {
	le := binary.LittleEndian
	n := len(f.data) / 2
	place := func(o int64) int {
		return sort.Search(n, func(i int) bool { return int64(le.Uint16(f.data[2*i:])) >= o })
	}
	from, to := place(int64(lo)-int64(base)), place(int64(hi)-int64(base))
	f.data = f.data[2*from : 2*max(from, to)]
}

// countIn returns how many ordinals of the container are in a set, in whose range
// some of its 65,536 lie.
func (f *frozen) countIn(s *Set) (count int) {
	base, words, whole := s.chunk(f.key)
	switch f.kind {
	case frozenBitmap:
		from, to := s.wordsOf(base)
		for i := from; i < to; i++ {
			count += bits.OnesCount64(words[i-from] & f.word(i))
		}
	case frozenArray:
		if whole {
			return (*chunkBits)(words).count(f.data)
		}
		f.cut(base, s.lo, s.hi)
		for i := 0; i+1 < len(f.data); i += 2 {
			if s.Contains(base + uint32(binary.LittleEndian.Uint16(f.data[i:]))) {
				count++
			}
		}
	case frozenRuns:
		for i := 0; i < len(f.data); i += 4 {
			from, to := f.run(i)
			count += s.countRange(base+from, base+to)
		}
	}
	return count
}

// hasIn says whether an array container has an ordinal, given its lower 16 bits.
func (f *frozen) hasIn(o uint16) bool {
	le := binary.LittleEndian
	lo, hi := 0, len(f.data)/2
	for lo < hi {
		mid := (lo + hi) / 2
		if le.Uint16(f.data[2*mid:]) < o {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo < len(f.data)/2 && le.Uint16(f.data[2*lo:]) == o
}

// word returns 64 bits of a bitmap.
func (f *frozen) word(i int) uint64 { return binary.LittleEndian.Uint64(f.data[8*i:]) }

// run returns the run at data[i:]: from inclusive, to exclusive.
func (f *frozen) run(i int) (from, to uint32) {
	from = uint32(binary.LittleEndian.Uint16(f.data[i:]))
	return from, min(from+uint32(binary.LittleEndian.Uint16(f.data[i+2:]))+1, 1<<16)
}

// each calls visit with the ordinals of the container, in order.
func (f *frozen) each(visit func(uint32)) error {
	base, items := uint32(f.key)<<16, f.p.r.info.Items
	le := binary.LittleEndian
	switch f.kind {
	case frozenBitmap:
		for i := range frozenWords {
			for w := f.word(i); w != 0; w &= w - 1 {
				o := base + uint32(i*64+bits.TrailingZeros64(w))
				if o >= items {
					return f.p.r.corrupt(f.p.at, errOrdinal)
				}
				visit(o)
			}
		}
	case frozenArray:
		for i := 0; i < len(f.data); i += 2 {
			o := base + uint32(le.Uint16(f.data[i:]))
			if o >= items {
				return f.p.r.corrupt(f.p.at, errOrdinal)
			}
			visit(o)
		}
	case frozenRuns:
		for i := 0; i < len(f.data); i += 4 {
			from, to := f.run(i)
			if base+to > items {
				return f.p.r.corrupt(f.p.at, errOrdinal)
			}
			for o := base + from; o < base+to; o++ {
				visit(o)
			}
		}
	}
	return nil
}
