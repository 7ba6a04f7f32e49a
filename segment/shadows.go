package segment

import (
	"encoding/binary"
	"errors"
	"math"
)

// Shadows names the versions in an older file that a file overwrites. The shadows
// section of a file has them for each older file for which they were known when the file
// was written. Then its keys need not be looked up there.
type Shadows struct {
	File     uint64   // number of the older file
	Ordinals []uint32 // there, rising
	Seqs     []uint64 // of each the lowest sequence at which it is overwritten
}

// SetShadows makes Finish write a shadows section.
func (w *Writer) SetShadows(all []Shadows) {
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
	w.shadows = b
}

var errShadows = errors.New("shadows: not lists of rising ordinals")

// Shadows returns what the shadows section says; false: the file has none. It
// reads the section anew each time.
func (r *Reader) Shadows() ([]Shadows, bool, error) {
	f := Footer{Sections: r.props.Sections}
	s := f.section(SectionShadows)
	if s.Kind == 0 {
		return nil, false, nil
	}
	b, err := r.readTable(s.Off, s.Len)
	if err != nil {
		return nil, false, err
	}
	all, ok := decodeShadows(b)
	if !ok {
		return nil, false, r.corrupt(s.Off, errShadows)
	}
	return all, true, nil
}

func decodeShadows(b []byte) (all []Shadows, ok bool) {
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
		s := Shadows{File: number()}
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
