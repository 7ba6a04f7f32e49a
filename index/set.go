package index

import "math/bits"

// Set is a set of ordinals of a range, a bit for each. The zero value is the
// empty set of the empty range. It is not safe for concurrent use.
//
// A bitmap of the library takes 15 to 80 times as long to add ordinals in any order and
// 13 to 100 times to look them up, and makes And, Or and AndNot 1.4 to 13 times as long.
// It is faster for sets of 1 in 500 ordinals, to count, and to walk over a sparse set
// (BenchmarkSet).
type Set struct {
	lo, hi uint32
	base   uint32 // lo, rounded down to a word
	words  []uint64
}

// Reset makes s the empty set of the range from lo, inclusive, to hi, exclusive.
// It keeps its memory.
func (s *Set) Reset(lo, hi uint32) {
	hi = max(lo, hi)
	s.lo, s.hi, s.base = lo, hi, lo&^63
	n := int((uint64(hi-s.base) + 63) / 64)
	if lo == hi {
		n = 0
	}
	if cap(s.words) < n {
		s.words = make([]uint64, n)
		return
	}
	s.words = s.words[:n]
	clear(s.words)
}

// Range returns the range of the set.
func (s *Set) Range() (lo, hi uint32) { return s.lo, s.hi }

// Add adds an ordinal; one outside of the range is ignored.
func (s *Set) Add(o uint32) {
	if o >= s.lo && o < s.hi {
		o -= s.base
		s.words[o/64] |= 1 << (o % 64)
	}
}

// Remove takes an ordinal out.
func (s *Set) Remove(o uint32) {
	if o >= s.lo && o < s.hi {
		o -= s.base
		s.words[o/64] &^= 1 << (o % 64)
	}
}

// Contains says whether an ordinal is in the set.
func (s *Set) Contains(o uint32) bool {
	if o < s.lo || o >= s.hi {
		return false
	}
	o -= s.base
	return s.words[o/64]&(1<<(o%64)) != 0
}

// AddRange adds the ordinals from lo, inclusive, to hi, exclusive, as far as
// they lie in the range.
func (s *Set) AddRange(lo, hi uint32) {
	lo, hi = max(lo, s.lo), min(hi, s.hi)
	if lo >= hi {
		return
	}
	lo, hi = lo-s.base, hi-1-s.base // hi inclusive
	first, last := lo/64, hi/64
	head, tail := ^uint64(0)<<(lo%64), ^uint64(0)>>(63-hi%64)
	if first == last {
		s.words[first] |= head & tail
		return
	}
	s.words[first] |= head
	for i := first + 1; i < last; i++ {
		s.words[i] = ^uint64(0)
	}
	s.words[last] |= tail
}

// countRange returns how many ordinals from lo, inclusive, to hi, exclusive, are
// in the set.
func (s *Set) countRange(lo, hi uint32) int {
	lo, hi = max(lo, s.lo), min(hi, s.hi)
	if lo >= hi {
		return 0
	}
	lo, hi = lo-s.base, hi-1-s.base
	first, last := lo/64, hi/64
	head, tail := ^uint64(0)<<(lo%64), ^uint64(0)>>(63-hi%64)
	if first == last {
		return bits.OnesCount64(s.words[first] & head & tail)
	}
	n := bits.OnesCount64(s.words[first]&head) + bits.OnesCount64(s.words[last]&tail)
	for _, w := range s.words[first+1 : last] {
		n += bits.OnesCount64(w)
	}
	return n
}

// chunk returns the first ordinal of the 65,536 with a key, which have some in
// the range, the words of the set that hold them, and whether all of them lie in
// the range.
func (s *Set) chunk(key uint16) (base uint32, words []uint64, whole bool) {
	base = uint32(key) << 16
	from, to := s.wordsOf(base)
	first := (int64(base) - int64(s.base)) / 64
	words = s.words[first+int64(from) : first+int64(to)]
	return base, words, base >= s.lo && uint64(base)+1<<16 <= uint64(s.hi)
}

// wordsOf returns which of the words of the 65,536 ordinals from base on the set
// has.
func (s *Set) wordsOf(base uint32) (from, to int) {
	first := (int64(base) - int64(s.base)) / 64
	return int(max(0, -first)), int(min(frozenWords, int64(len(s.words))-first))
}

// trim takes out what a word at either end has beyond the range.
func (s *Set) trim() {
	if n := len(s.words); n > 0 {
		s.words[0] &= ^uint64(0) << (s.lo - s.base)
		s.words[n-1] &= ^uint64(0) >> (63 - (s.hi-1-s.base)%64)
	}
}

// Fill adds all ordinals of the range.
func (s *Set) Fill() { s.AddRange(s.lo, s.hi) }

// Count returns the number of ordinals in the set.
func (s *Set) Count() int {
	n := 0
	for _, w := range s.words {
		n += bits.OnesCount64(w)
	}
	return n
}

// Empty says whether no ordinal is in the set.
func (s *Set) Empty() bool {
	for _, w := range s.words {
		if w != 0 {
			return false
		}
	}
	return true
}

// And leaves what is in t too, a set of the same range; Or adds what is in t;
// AndNot takes out what is in t.
func (s *Set) And(t *Set) {
	for i, w := range t.words[:len(s.words)] {
		s.words[i] &= w
	}
}

// Or adds what is in t, a set of the same range.
func (s *Set) Or(t *Set) {
	for i, w := range t.words[:len(s.words)] {
		s.words[i] |= w
	}
}

// AndNot takes out what is in t, a set of the same range.
func (s *Set) AndNot(t *Set) {
	for i, w := range t.words[:len(s.words)] {
		s.words[i] &^= w
	}
}

// Take makes s hold what t, whose range includes that of s, has in the range of s.
func (s *Set) Take(t *Set) {
	if len(s.words) > 0 {
		copy(s.words, t.words[(s.base-t.base)/64:])
		s.trim()
	}
}

// CountAnd returns how many ordinals are in t too, a set of the same range.
func (s *Set) CountAnd(t *Set) int {
	n := 0
	for i, w := range t.words[:len(s.words)] {
		n += bits.OnesCount64(s.words[i] & w)
	}
	return n
}

// Meets says whether an ordinal is in t too, whose range includes that of s.
func (s *Set) Meets(t *Set) bool {
	for i, w := range s.words {
		if w&t.words[int(s.base-t.base)/64+i] != 0 {
			return true
		}
	}
	return false
}

// Next returns the first ordinal of the set at or after o.
func (s *Set) Next(o uint32) (uint32, bool) {
	o = max(o, s.lo)
	if o >= s.hi {
		return 0, false
	}
	o -= s.base
	i := int(o / 64)
	w := s.words[i] &^ (1<<(o%64) - 1)
	for w == 0 {
		if i++; i == len(s.words) {
			return 0, false
		}
		w = s.words[i]
	}
	return s.base + uint32(i*64+bits.TrailingZeros64(w)), true
}

// Prev returns the last ordinal of the set at or before o.
func (s *Set) Prev(o uint32) (uint32, bool) {
	if s.lo == s.hi || o < s.lo {
		return 0, false
	}
	o = min(o, s.hi-1) - s.base
	i := int(o / 64)
	w := s.words[i] & (^uint64(0) >> (63 - o%64))
	for w == 0 {
		if i--; i < 0 {
			return 0, false
		}
		w = s.words[i]
	}
	return s.base + uint32(i*64+63-bits.LeadingZeros64(w)), true
}

// AppendTo appends the ordinals of the set to dst.
func (s *Set) AppendTo(dst []uint32) []uint32 {
	for i, w := range s.words {
		for ; w != 0; w &= w - 1 {
			dst = append(dst, s.base+uint32(i*64+bits.TrailingZeros64(w)))
		}
	}
	return dst
}
