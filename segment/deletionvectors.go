package segment

import (
	"errors"

	"github.com/cleavestore/cleave/internal/deletion"
)

// SetDeletionVectors makes Finish write a section of deletion vectors: of each older file for which it
// is known which of its versions this file overwrites. For these nobody looks up the keys of this file again.
func (w *Writer) SetDeletionVectors(all []deletion.FileVector) { w.vectors = deletion.Encode(all) }

var errDeletionVectors = errors.New("deletion vectors: not lists of rising ordinals")

// DeletionVectors returns the deletion vectors of the file; false: it has no section of
// them. Each call reads the section.
func (r *Reader) DeletionVectors() ([]deletion.FileVector, bool, error) {
	f := Footer{Sections: r.props.Sections}
	s := f.section(SectionDeletionVectors)
	if s.Kind == 0 {
		return nil, false, nil
	}
	b, err := r.readTable(s.Off, s.Len)
	if err != nil {
		return nil, false, err
	}
	all, ok := deletion.Decode(b)
	if !ok {
		return nil, false, r.corrupt(s.Off, errDeletionVectors)
	}
	return all, true, nil
}
