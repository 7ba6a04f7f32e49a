package index

import (
	"encoding/binary"
	"math/bits"
)

// What two postings have in common is found container by container, without a
// set of either.

// chunkBits are the ordinals of one container as bits.
type chunkBits [8 * frozenWords]byte

// bits returns the container at hand as bits, made in buf if it is none.
func (f *frozen) bits(buf *chunkBits) *chunkBits {
	if f.kind == frozenBitmap {
		return (*chunkBits)(f.data)
	}
	clear(buf[:])
	le := binary.LittleEndian
	if f.kind == frozenArray {
		for i := 0; i+1 < len(f.data); i += 2 {
			o := le.Uint16(f.data[i:])
			buf[o>>3] |= 1 << (o & 7)
		}
		return buf
	}
	for i := 0; i+3 < len(f.data); i += 4 {
		from, to := f.run(i)
		for ; from < to && from&7 != 0; from++ {
			buf[from>>3] |= 1 << (from & 7)
		}
		for ; from+8 <= to; from += 8 {
			buf[from>>3] = 0xFF
		}
		for ; from < to; from++ {
			buf[from>>3] |= 1 << (from & 7)
		}
	}
	return buf
}

func (b *chunkBits) word(i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }

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
	var bufA, bufB chunkBits
	err = p.both(q, func(a, b *frozen) {
		if b.kind == frozenArray && (a.kind != frozenArray || len(b.data) < len(a.data)) {
			a, b = b, a
		}
		if a.kind == frozenArray {
			n += countArray(a.data, b.bits(&bufB))
			return
		}
		x, y := a.bits(&bufA), b.bits(&bufB)
		for i := range frozenWords {
			n += bits.OnesCount64(x.word(i) & y.word(i))
		}
	})
	return n, err
}

// countArray returns how many ordinals of an array container are among others.
func countArray(data []byte, others *chunkBits) (n int) {
	for ; len(data) >= 8; data = data[8:] {
		four := binary.LittleEndian.Uint64(data)
		a, b, c, d := uint16(four), uint16(four>>16), uint16(four>>32), uint16(four>>48)
		n += int(others[a>>3]>>(a&7)&1) + int(others[b>>3]>>(b&7)&1) + int(others[c>>3]>>(c&7)&1) + int(others[d>>3]>>(d&7)&1)
	}
	for ; len(data) >= 2; data = data[2:] {
		o := binary.LittleEndian.Uint16(data)
		n += int(others[o>>3] >> (o & 7) & 1)
	}
	return n
}

// AddBoth adds to s the ordinals, of those in its range, that two Large postings
// have in common.
func (p *Posting) AddBoth(q *Posting, s *Set) error {
	var bufA, bufB chunkBits
	return p.both(q, func(a, b *frozen) {
		base := uint32(a.key) << 16
		if base >= s.hi || uint64(base)+1<<16 <= uint64(s.lo) {
			return
		}
		if b.kind == frozenArray && (a.kind != frozenArray || len(b.data) < len(a.data)) {
			a, b = b, a
		}
		if a.kind == frozenArray {
			others := b.bits(&bufB)
			for i := 0; i+1 < len(a.data); i += 2 {
				if o := binary.LittleEndian.Uint16(a.data[i:]); others[o>>3]>>(o&7)&1 != 0 {
					s.Add(base + uint32(o))
				}
			}
			return
		}
		x, y := a.bits(&bufA), b.bits(&bufB)
		for i := range frozenWords {
			for w := x.word(i) & y.word(i); w != 0; w &= w - 1 {
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
	var buf chunkBits
	first := int(s.base / 64) // word of the ordinals that is the first of s
	done := 0                 // words of s
	for f.nextIn(s.lo, s.hi) {
		chunk := int(f.key)*frozenWords - first // its first word in s, may lie before
		from, to := max(chunk, done), min(chunk+frozenWords, len(s.words))
		clear(s.words[done:from])
		b := f.bits(&buf)
		for i := from; i < to; i++ {
			s.words[i] &= b.word(i - chunk)
		}
		done = to
	}
	clear(s.words[done:])
	return f.err
}
