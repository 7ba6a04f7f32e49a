package index

import (
	"encoding/binary"
	"math/bits"
)

// What two postings have in common is found container by container, without a
// set of either.

// chunkBits are the ordinals of one container as bits.
type chunkBits [frozenWords]uint64

// bits makes the container at hand bits.
func (f *frozen) bits(to *chunkBits) {
	if f.kind == frozenBitmap {
		for i := range to {
			to[i] = f.word(i)
		}
		return
	}
	clear(to[:])
	if f.kind == frozenArray {
		to.add(f.data)
		return
	}
	s := Set{hi: 1 << 16, words: to[:]}
	for i := 0; i+3 < len(f.data); i += 4 {
		s.AddRange(f.run(i))
	}
}

// add adds the ordinals of an array container.
func (b *chunkBits) add(data []byte) {
	le := binary.LittleEndian
	for ; len(data) >= 8; data = data[8:] {
		four := le.Uint64(data)
		o, p, q, r := uint16(four), uint16(four>>16), uint16(four>>32), uint16(four>>48)
		b[o>>6] |= 1 << (o & 63)
		b[p>>6] |= 1 << (p & 63)
		b[q>>6] |= 1 << (q & 63)
		b[r>>6] |= 1 << (r & 63)
	}
	for ; len(data) >= 2; data = data[2:] {
		o := le.Uint16(data)
		b[o>>6] |= 1 << (o & 63)
	}
}

// both calls visit with the containers of two Large postings that have ordinals
// of the same 65,536.
func (p *Posting) both(q *Posting, visit func(a, b *frozen)) error {
	a, err := p.frozen()
	if err != nil {
		return err
	}
	b, err := q.frozen()
	if err != nil {
		return err
	}
	for okA, okB := a.next(), b.next(); okA && okB; {
		switch {
		case a.key < b.key:
			okA = a.next()
		case b.key < a.key:
			okB = b.next()
		default:
			visit(&a, &b)
			okA, okB = a.next(), b.next()
		}
	}
	if a.err != nil {
		return a.err
	}
	return b.err
}

// CountBoth returns how many ordinals two Large postings have in common.
func (p *Posting) CountBoth(q *Posting) (n int, err error) {
	var bitsA, bitsB chunkBits
	err = p.both(q, func(a, b *frozen) {
		if a.kind == frozenBitmap && b.kind == frozenBitmap {
			for i := range frozenWords {
				n += bits.OnesCount64(a.word(i) & b.word(i))
			}
			return
		}
		if b.kind == frozenArray && (a.kind != frozenArray || len(a.data) < len(b.data)) {
			a, b = b, a // of two arrays the shorter one is made bits
		}
		b.bits(&bitsB)
		if a.kind == frozenArray {
			n += bitsB.count(a.data)
			return
		}
		if a.kind == frozenBitmap {
			for i := range bitsB {
				n += bits.OnesCount64(a.word(i) & bitsB[i])
			}
			return
		}
		a.bits(&bitsA)
		for i := range bitsA {
			n += bits.OnesCount64(bitsA[i] & bitsB[i])
		}
	})
	return n, err
}

// count returns how many ordinals of an array container are among the bits.
func (b *chunkBits) count(data []byte) (n int) {
	le := binary.LittleEndian
	var sum uint64
	for ; len(data) >= 8; data = data[8:] {
		four := le.Uint64(data)
		o, p, q, r := uint16(four), uint16(four>>16), uint16(four>>32), uint16(four>>48)
		sum += b[o>>6]>>(o&63)&1 + b[p>>6]>>(p&63)&1 + b[q>>6]>>(q&63)&1 + b[r>>6]>>(r&63)&1
	}
	for ; len(data) >= 2; data = data[2:] {
		o := le.Uint16(data)
		sum += b[o>>6] >> (o & 63) & 1
	}
	return int(sum)
}

// AddBoth adds to s the ordinals, of those in its range, that two Large postings
// have in common.
func (p *Posting) AddBoth(q *Posting, s *Set) error {
	var bitsA, bitsB chunkBits
	return p.both(q, func(a, b *frozen) {
		base := uint32(a.key) << 16
		if base >= s.hi || uint64(base)+1<<16 <= uint64(s.lo) {
			return
		}
		if a.kind == frozenBitmap && b.kind == frozenBitmap {
			_, words, whole := s.chunk(a.key)
			from, to := s.wordsOf(base)
			for i := from; i < to; i++ {
				words[i-from] |= a.word(i) & b.word(i)
			}
			if !whole {
				s.trim()
			}
			return
		}
		if b.kind == frozenArray && (a.kind != frozenArray || len(a.data) < len(b.data)) {
			a, b = b, a
		}
		b.bits(&bitsB)
		if a.kind == frozenArray {
			for i := 0; i+1 < len(a.data); i += 2 {
				if o := binary.LittleEndian.Uint16(a.data[i:]); bitsB[o>>6]>>(o&63)&1 != 0 {
					s.Add(base + uint32(o))
				}
			}
			return
		}
		a.bits(&bitsA)
		for i := range bitsA {
			for w := bitsA[i] & bitsB[i]; w != 0; w &= w - 1 {
				s.Add(base + uint32(i*64+bits.TrailingZeros64(w)))
			}
		}
	})
}

// Retain leaves in s what the posting has too.
func (p *Posting) Retain(s *Set) error {
	if p.kind != Large {
		kept := make([]uint32, 0, p.n)
		err := p.each(func(o uint32) {
			if s.Contains(o) {
				kept = append(kept, o)
			}
		})
		clear(s.words)
		for _, o := range kept {
			s.Add(o)
		}
		return err
	}
	f, err := p.frozen()
	if err != nil {
		return err
	}
	var held chunkBits
	done := 0 // words of s
	for f.nextIn(s.lo, s.hi) {
		base, words, whole := s.chunk(f.key)
		from, to := s.wordsOf(base)
		first := int((int64(base) - int64(s.base)) / 64) // of the words of the container in those of s
		clear(s.words[done : first+from])
		done = first + to
		if f.kind == frozenBitmap {
			for i := from; i < to; i++ {
				words[i-from] &= f.word(i)
			}
			continue
		}
		if !whole && f.kind == frozenArray {
			f.cut(base, s.lo, s.hi)
		}
		f.bits(&held)
		for i := from; i < to; i++ {
			words[i-from] &= held[i]
		}
	}
	clear(s.words[done:])
	return f.err
}
