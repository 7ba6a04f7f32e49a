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
	all     []byte
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
}

// frozen begins a walk. It checks the frame of the posting: the containers take all
// of its bytes, keys rise and lie below the items of the file, the runs of a container
// rise and end within it, and there are as many ordinals as the dictionary says.
//
// Validate of the library cannot check this instead. It refuses a bitmap of fewer
// than 4,096 ordinals, of which a file has many, and compares every two runs of a
// container. It takes 14 to 230 times as long (BenchmarkFrame).
func (p *Posting) frozen() (f frozen, err error) {
	b, err := p.r.view(p.at, p.size)
	if err != nil {
		return f, err
	}
	le := binary.LittleEndian
	f = frozen{all: b, i: -1}
	if len(b) < 4 {
		return f, p.r.corrupt(p.at, errFrozen)
	}
	header := le.Uint32(b[len(b)-4:])
	b = b[:len(b)-4]
	n := int(header >> 15)
	if header&0x7FFF != frozenCookie || n > len(b)/5 {
		return f, p.r.corrupt(p.at, errFrozen)
	}
	f.types, b = b[len(b)-n:], b[:len(b)-n]
	f.counts, b = b[len(b)-2*n:], b[:len(b)-2*n]
	f.keys, b = b[len(b)-2*n:], b[:len(b)-2*n]
	var bitmaps, runs, arrays int
	ordinals, last := uint64(0), -1
	for i, t := range f.types {
		key, count := int(le.Uint16(f.keys[2*i:])), int(le.Uint16(f.counts[2*i:]))
		if key <= last || uint64(key)<<16 >= uint64(p.r.info.Items) {
			return f, p.r.corrupt(p.at, errFrozen)
		}
		last = key
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
	inRuns, ok := f.checkRuns()
	if !ok {
		return f, p.r.corrupt(p.at, errFrozen)
	}
	if ordinals+inRuns != uint64(p.n) {
		return f, p.r.corrupt(p.at, errUnwanted)
	}
	return f, nil
}

// sparse says whether most bytes of a posting are arrays. It is called before the
// walk.
func (f *frozen) sparse() bool { return len(f.arrays) > len(f.bitmaps)+len(f.runs) }

// checkRuns returns how many ordinals the runs have, and whether those of each
// container rise and end within it.
func (f *frozen) checkRuns() (ordinals uint64, ok bool) {
	le := binary.LittleEndian
	runs := f.runs
	for i, t := range f.types {
		if t != frozenRuns {
			continue
		}
		n := 4 * int(le.Uint16(f.counts[2*i:]))
		next := uint32(0) // ordinal of the container
		for own := runs[:n]; len(own) >= 4; own = own[4:] {
			from, more := uint32(le.Uint16(own)), uint32(le.Uint16(own[2:]))
			if from < next || from+more >= 1<<16 {
				return 0, false
			}
			next = from + more + 1
			ordinals += uint64(more) + 1
		}
		if n == 0 {
			return 0, false
		}
		runs = runs[n:]
	}
	return ordinals, true
}

// next moves to the next container.
func (f *frozen) next() bool {
	if f.i++; f.i >= len(f.types) {
		return false
	}
	le := binary.LittleEndian
	f.kind, f.key = f.types[f.i], le.Uint16(f.keys[2*f.i:])
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
// some of its 65,536 lie. The library has to make the set a bitmap first. It takes 0.7
// to 1.5 times as long for a dense posting in a dense set, else up to 60 times
// (BenchmarkCountIn).
func (f *frozen) countIn(s *Set) (count int) {
	base, words, whole := s.chunk(f.key)
	switch f.kind {
	case frozenBitmap:
		from, to := s.wordsOf(base)
		return countBits(words, f.data[8*from:8*to])
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

// countBits returns how many bits of a bitmap are in words, of which it has as many.
func countBits(words []uint64, bitmap []byte) (n int) {
	le := binary.LittleEndian
	for ; len(words) >= 4 && len(bitmap) >= 32; words, bitmap = words[4:], bitmap[32:] {
		n += bits.OnesCount64(words[0]&le.Uint64(bitmap)) + bits.OnesCount64(words[1]&le.Uint64(bitmap[8:])) +
			bits.OnesCount64(words[2]&le.Uint64(bitmap[16:])) + bits.OnesCount64(words[3]&le.Uint64(bitmap[24:]))
	}
	for ; len(words) > 0 && len(bitmap) >= 8; words, bitmap = words[1:], bitmap[8:] {
		n += bits.OnesCount64(words[0] & le.Uint64(bitmap))
	}
	return n
}

// has says whether an array or bitmap container has an ordinal, given its lower
// 16 bits.
func (f *frozen) has(o uint16) bool {
	if f.kind == frozenBitmap {
		return f.word(int(o>>6))>>(o&63)&1 != 0
	}
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
	return from, from + uint32(binary.LittleEndian.Uint16(f.data[i+2:])) + 1
}
