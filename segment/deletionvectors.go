package segment

import (
	"encoding/binary"
	"errors"
	"math"
)

// DeletionVector names the versions in one older file that a file overwrites. A section
// of the newer file has the vector of each older file for which it was known when the
// newer one was written. For these nobody looks up the keys of the newer file again.
type DeletionVector struct {
	File     uint64   // number of the older file
	Ordinals []uint32 // there, rising
	Seqs     []uint64 // of each the lowest sequence at which it is overwritten
}

// SetDeletionVectors makes Finish write a section of deletion vectors.
func (w *Writer) SetDeletionVectors(all []DeletionVector) {
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
	w.vectors = b
}

var errDeletionVectors = errors.New("deletion vectors: not lists of rising ordinals")

// DeletionVectors returns the deletion vectors of the file; false: it has no section of
// them. Each call reads the section.
func (r *Reader) DeletionVectors() ([]DeletionVector, bool, error) {
	f := Footer{Sections: r.props.Sections}
	s := f.section(SectionDeletionVectors)
	if s.Kind == 0 {
		return nil, false, nil
	}
	b, err := r.readTable(s.Off, s.Len)
	if err != nil {
		return nil, false, err
	}
	all, ok := decodeDeletionVectors(b)
	if !ok {
		return nil, false, r.corrupt(s.Off, errDeletionVectors)
	}
	return all, true, nil
}

func decodeDeletionVectors(b []byte) (all []DeletionVector, ok bool) {
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
		s := DeletionVector{File: number()}
		n := number()
		if ok = ok && n <= uint64(len(b))/2; !ok {
			return nil, false
		}
		s.Ordinals, s.Seqs = make([]uint32, n), make([]uint64, n)
		next, seq := uint64(0), uint64(0)
		for i := range s.Ordinals {
			next += number()
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
