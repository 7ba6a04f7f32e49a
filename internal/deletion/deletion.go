// Package deletion has deletion vectors: which versions of an older source, a memtable or a file, a
// newer one overwrites. Segment files have those of older files:
//
//	vectors = count (file ordinals (distance change)*)*
//
// All numbers are varints: count of the files, number of a file, count of its ordinals, and of each
// ordinal the distance to the one before plus one, and the signed change of the sequence. Decode bounds what it
// makes by the bytes that it is given, and never panics.
package deletion

import (
	"encoding/binary"
	"math"
)

// FileVector is what a file overwrites in the older file with a number.
type FileVector struct {
	File uint64
	Vector
}

// Encode returns the encoding of vectors.
func Encode(all []FileVector) []byte {
	b := binary.AppendUvarint(make([]byte, 0, 16), uint64(len(all)))
	for _, s := range all {
		b = binary.AppendUvarint(b, s.File)
		b = binary.AppendUvarint(b, uint64(len(s.Ordinals)))
		next, last := uint32(0), uint64(0)
		for i, o := range s.Ordinals {
			b = binary.AppendUvarint(b, uint64(o-next))
			b = binary.AppendVarint(b, int64(s.Seqs[i]-last))
			next, last = o+1, s.Seqs[i]
		}
	}
	return b
}

// Decode decodes vectors; false: b is not what Encode makes.
func Decode(b []byte) (all []FileVector, ok bool) {
	number := func() (n uint64) {
		n, size := binary.Uvarint(b)
		if ok = ok && size > 0; ok {
			b = b[size:]
		}
		return n
	}
	ok = true
	files := number()
	if ok = ok && files <= uint64(len(b))/2; !ok {
		return nil, false
	}
	for range files {
		s := FileVector{File: number()}
		n := number()
		if ok = ok && n <= uint64(len(b))/2; !ok {
			return nil, false
		}
		s.Ordinals, s.Seqs = make([]uint32, n), make([]uint64, n)
		next, seq := uint64(0), uint64(0)
		for i := range s.Ordinals {
			next += min(number(), math.MaxUint32)
			d, size := binary.Varint(b)
			if ok = ok && size > 0 && next < math.MaxUint32; !ok {
				return nil, false
			}
			b = b[size:]
			seq += uint64(d)
			s.Ordinals[i], s.Seqs[i] = uint32(next), seq
			next++
		}
		all = append(all, s)
	}
	return all, len(b) == 0
}
