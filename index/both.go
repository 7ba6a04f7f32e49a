package index

import (
	"encoding/binary"
	"math/bits"
	"runtime"
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

// appendTo appends the ordinals of all containers to dst.
func (f *frozen) appendTo(dst []uint32) []uint32 {
	var held chunkBits
	for f.next() {
		f.bits(&held)
		s := Set{base: uint32(f.key) << 16, words: held[:]}
		dst = s.AppendTo(dst)
	}
	return dst
}

// frames begins walks of two Large postings.
func (p *Posting) frames(q *Posting) (a, b frozen, err error) {
	if a, err = p.frozen(); err == nil {
		b, err = q.frozen()
	}
	return a, b, err
}

// nextBoth moves to the next containers that have ordinals of the same 65,536.
func nextBoth(a, b *frozen) bool {
	okA, okB := a.next(), b.next()
	for okA && okB && a.key != b.key {
		if a.key < b.key {
			okA = a.next()
		} else {
			okB = b.next()
		}
	}
	return okA && okB
}

// CountBoth returns how many ordinals two Large postings have in common. The library
// counts them, with vector instructions, unless both postings are sparse.
func (p *Posting) CountBoth(q *Posting) (n int, err error) {
	a, b, err := p.frames(q)
	if err != nil {
		return 0, err
	}
	if !a.sparse() || !b.sparse() {
		if viewA, viewB := a.view(), b.view(); viewA != nil && viewB != nil {
			n = int(viewA.AndCardinality(viewB))
			runtime.KeepAlive(a.all)
			runtime.KeepAlive(b.all)
			return n, nil
		}
	}
	return countBoth(&a, &b), nil
}

// countBoth is CountBoth for two sparse postings, of which AndCardinality of the
// library takes up to 5 times as long (BenchmarkCountBoth).
func countBoth(a, b *frozen) (n int) {
	var bitsA, bitsB chunkBits
	for nextBoth(a, b) {
		x, y := a, b
		if y.kind == frozenArray && (x.kind != frozenArray || len(x.data) < len(y.data)) {
			x, y = y, x // of two arrays the shorter one is made bits
		}
		y.bits(&bitsB)
		if x.kind == frozenArray {
			n += bitsB.count(x.data)
			continue
		}
		x.bits(&bitsA)
		for i := range bitsA {
			n += bits.OnesCount64(bitsA[i] & bitsB[i])
		}
	}
	return n
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
// have in common. And of the library takes up to 10 times as long, for two bitmaps 5
// times, and 0.7 of the time for a few ordinals and runs (BenchmarkAddBoth).
func (p *Posting) AddBoth(q *Posting, s *Set) error {
	f, g, err := p.frames(q)
	if err != nil {
		return err
	}
	var bitsA, bitsB chunkBits
	for nextBoth(&f, &g) {
		a, b := &f, &g
		base := uint32(a.key) << 16
		if uint64(base)+1<<16 <= uint64(s.lo) {
			continue
		}
		if base >= s.hi {
			break
		}
		if b.kind == frozenArray && (a.kind != frozenArray || len(b.data) < len(a.data)) {
			a, b = b, a
		}
		switch few := a.kind == frozenArray && len(a.data) < frozenWords; {
		case few && b.kind == frozenBitmap:
			for i := 0; i < len(a.data); i += 2 {
				if o := binary.LittleEndian.Uint16(a.data[i:]); b.has(o) {
					s.Add(base + uint32(o))
				}
			}
		case few:
			b.bits(&bitsB)
			for i := 0; i < len(a.data); i += 2 {
				if o := binary.LittleEndian.Uint16(a.data[i:]); bitsB[o>>6]>>(o&63)&1 != 0 {
					s.Add(base + uint32(o))
				}
			}
		case a.kind == frozenBitmap && b.kind == frozenBitmap:
			_, words, _ := s.chunk(a.key)
			from, to := s.wordsOf(base)
			for i := from; i < to; i++ {
				words[i-from] |= a.word(i) & b.word(i)
			}
			s.trim()
		default:
			a.bits(&bitsA)
			b.bits(&bitsB)
			_, words, _ := s.chunk(a.key)
			from, to := s.wordsOf(base)
			for i := from; i < to; i++ {
				words[i-from] |= bitsA[i] & bitsB[i]
			}
			s.trim()
		}
	}
	return nil
}

// Retain leaves in s what the posting has too. And of the library takes 1.5 to 5 times
// as long unless the posting is sparse (BenchmarkRetain).
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
	return nil
}
