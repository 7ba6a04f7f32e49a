package engine

import (
	"errors"
	"fmt"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/segment"
)

// verifyMemory is what the index of the documents may take that a verification
// makes at a time.
const verifyMemory = 48 << 20

// index compares the index of a file with one that is made anew of its
// documents, piece by piece: each term must stand for the versions that have it,
// and for no others.
func (v *verifier) index(f *file, name string) {
	section, ok := f.Index(true)
	if !ok {
		return
	}
	err := v.compareIndex(f, section, func(at int64, what string) { v.report(name, at, "%s", what) })
	if errors.Is(err, ErrTooNew) {
		return
	}
	v.check(name, f.named(err))
}

func (v *verifier) compareIndex(f *file, section segment.IndexBytes, report func(at int64, what string)) error {
	var corrupt *CorruptionError
	errors.As(section.Corrupt(0, fault.ErrCorrupt), &corrupt) // tells where the section lies
	at := corrupt.Offset
	r, err := index.Open(section)
	if err != nil {
		return err
	}
	text, err := r.Policy()
	if err != nil {
		return err
	}
	policy, err := index.Compile(text)
	if err != nil {
		return section.Corrupt(0, err)
	}
	items := uint32(f.Properties().Items)
	if r.Info().Items != items || r.Info().Fingerprint != policy.Fingerprint() {
		report(at, fmt.Sprintf("index: of %d versions, not %d, or of another policy than it says", r.Info().Items, items))
		return nil
	}
	walk := f.Walk()
	var builder *index.Builder
	lo, next := uint32(0), uint32(0)
	finish := func() error {
		var bytes []byte
		if err := builder.WriteTo(func(piece []byte) error {
			bytes = append(bytes, piece...)
			return nil
		}, items); err != nil {
			return err
		}
		made, err := index.Open(index.Memory(bytes))
		if err != nil {
			return err
		}
		err = index.Compare(r, made, lo, next, func(term []byte, more, less []uint32) bool {
			what := "a term of versions"
			if t, ok := index.DecodeTerm(term); ok { // values are not shown
				what = fmt.Sprintf("a %v at %v", t.Value.Type, t.Path)
			}
			for _, o := range more {
				report(at, fmt.Sprintf("index: %s is said of version %d, which has it not", what, o))
			}
			for _, o := range less {
				report(at, fmt.Sprintf("index: %s is not said of version %d, which has it", what, o))
			}
			return len(v.found) < maxFindings
		})
		builder, lo = nil, next
		return err
	}
	for walk.Next() && !v.done() {
		if builder == nil {
			builder = index.NewBuilder(policy, 0, nil)
		}
		builder.Note(next, walk.Version(), walk.Older())
		if !walk.Version().Deleted() {
			if err := builder.Add(next, walk.Version().Body); err != nil {
				return err
			}
		}
		if next++; builder.Memory() >= verifyMemory {
			if err := finish(); err != nil {
				return err
			}
		}
	}
	if err := walk.Err(); err != nil || builder == nil || v.done() {
		return err
	}
	return finish()
}
