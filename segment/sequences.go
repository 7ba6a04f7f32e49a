package segment

import (
	"encoding/binary"
	"math/bits"

	"github.com/cleavestore/cleave/internal/openfile"
)

// Versions lie in the order of keys. A search for those above a sequence skips most of
// the rest by the blocks of the offsets section. Each block has a ceiling: the highest
// sequence of its groups, less the lowest one of the file, in units of 2^shift, rounded
// down. shift is such that 32 bits are enough.

// ceilingShift returns the unit of ceilings.
func (p *Properties) ceilingShift() int { return max(0, bits.Len64(p.MaxSeq-p.MinSeq)-32) }

// ceiling encodes the highest sequence of a block.
func (p *Properties) ceiling(highest uint64) uint32 {
	return uint32((highest - p.MinSeq) >> p.ceilingShift())
}

// above says whether a block with this ceiling may have a sequence above after.
func (p *Properties) above(ceiling uint32, after uint64) bool {
	shift := p.ceilingShift()
	return after < p.MinSeq || (after-p.MinSeq)>>shift <= uint64(ceiling)
}

// Sequences calls visit with the versions whose sequence is above after and whose
// ordinals are from lo, inclusive, to hi, exclusive, in the order of ordinals. It
// decompresses nothing in their groups, and skips neighbours that have no such sequence.
func (r *Reader) Sequences(lo, hi uint32, after uint64, visit func(ordinal uint32, seq uint64)) error {
	hi = min(hi, uint32(r.props.Items))
	if lo >= hi || after >= r.props.MaxSeq {
		return nil
	}
	s := scratches.Get().(*scratch)
	defer s.free()
	return r.sequences(s, lo, hi, after, visit)
}

func (r *Reader) sequences(s *scratch, lo, hi uint32, after uint64, visit func(ordinal uint32, seq uint64)) (err error) {
	defer r.file.Unguard(openfile.Guard(), &err)
	at, _, ordinal, err := r.groupOf(s, lo)
	if err != nil {
		return err
	}
	var g group
	off := int64(0) // of the group at; 0: not known
	before := int64(0)
	for ; at < uint32(r.props.Groups) && ordinal < hi; at++ {
		if at%blockGroups == 0 || off == 0 {
			block := r.offsets.Off + int64(at/blockGroups)*blockLen
			b, err := r.table(s, block, blockLen)
			if err != nil {
				return err
			}
			if !r.props.above(binary.LittleEndian.Uint32(b[12:]), after) {
				members := uint32(0)
				for _, n := range b[48+at%blockGroups : blockLen] {
					members += uint32(n) + 1
				}
				ordinal += members
				at |= blockGroups - 1
				off = 0
				continue
			}
			if off == 0 {
				if off, ordinal, err = r.groupAt(s, at); err != nil {
					return err
				}
			}
		}
		if before == off || before == 0 {
			if err := r.warmAhead(s, off-1, off); err != nil {
				return err
			}
		}
		b, err := r.groupBytes(s, off)
		if err != nil {
			return err
		}
		if err := g.parse(b, off, &r.base, false); err != nil {
			return r.corrupt(off, err)
		}
		for i := range g.count {
			if o := ordinal + uint32(i); o >= lo && o < hi {
				if seq := g.sequence(i); seq > after {
					visit(o, seq)
				}
			}
		}
		ordinal += uint32(g.count)
		off += int64(g.size)
		before = off
	}
	return nil
}
