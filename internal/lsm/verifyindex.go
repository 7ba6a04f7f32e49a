package lsm

import (
	"context"
	"errors"
	"fmt"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/pacing"
	"github.com/cleavestore/cleave/segment"
)

const (
	// verifyMemory bounds the memory of the index that a check builds at a time.
	verifyMemory = 48 << 20
	// maxIndexFindings is how many terms that are wrong a comparison reports.
	maxIndexFindings = 1000
)

// CheckIndex compares the index of a segment file, if it has one, with an index that is
// built anew from its documents: each term must have the versions that contain it, and
// no others. report is called with what is wrong and the offset of the index in the
// file; values are not shown. The error, if any, is that of reading the file.
func CheckIndex(ctx context.Context, r *segment.Reader, report func(offset int64, what string)) error {
	section, ok := r.Index(true)
	if !ok {
		return nil
	}
	v := indexVerifier{r: r, report: report}
	var place *fault.CorruptionError
	errors.As(section.Corrupt(0, fault.ErrCorrupt), &place)
	v.at = place.Offset
	var err error
	if v.stored, err = index.Open(section); err != nil {
		return err
	}
	text, err := v.stored.Policy()
	if err != nil {
		return err
	}
	if v.policy, err = index.Compile(text); err != nil {
		return section.Corrupt(0, err)
	}
	info := v.stored.Info()
	if uint64(info.Items) != r.Properties().Items || info.Fingerprint != v.policy.Fingerprint() {
		report(v.at, fmt.Sprintf("index: of %d versions, where there are %d, or not of the policy that it names", info.Items, r.Properties().Items))
		return nil
	}
	return v.run(ctx)
}

// indexVerifier is the check of one index.
type indexVerifier struct {
	r      *segment.Reader
	stored *index.Reader
	policy *index.Compiled
	at     int64
	report func(int64, string)
}

// run builds the index of the documents in parts that memory allows, and compares each
// part.
func (v *indexVerifier) run(ctx context.Context) error {
	walk := v.r.Walk()
	var builder *index.Builder
	lo, next := uint32(0), uint32(0)
	var deleted DeletedBefore
	for walk.Next() {
		if builder == nil {
			builder = index.NewBuilder(v.policy, 0, nil)
			builder.Written, builder.Breathe = v.stored.NotesWritten(), ctx.Err
		}
		hidden := deleted.Hides(walk.Key(), walk.Version())
		builder.Note(next, walk.Version(), walk.Older() || hidden)
		if walk.Version().IsDocument() {
			if err := builder.Add(next, walk.Version().Body); err != nil {
				return err
			}
		}
		if next++; builder.Memory() >= verifyMemory {
			if err := v.compare(ctx, builder, lo, next); err != nil {
				return err
			}
			builder, lo = nil, next
		}
		if next%pacing.Piece == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if err := walk.Err(); err != nil || builder == nil {
		return err
	}
	return v.compare(ctx, builder, lo, next)
}

// compare compares the stored index with the built one for the versions from lo to hi.
func (v *indexVerifier) compare(ctx context.Context, b *index.Builder, lo, hi uint32) error {
	defer b.Close()
	var bytes []byte
	if err := b.WriteTo(func(piece []byte) error {
		bytes = append(bytes, piece...)
		return nil
	}, v.stored.Info().Items); err != nil {
		return err
	}
	built, err := index.Open(index.Memory(bytes))
	if err != nil {
		return err
	}
	found := 0
	return index.Compare(ctx, v.stored, built, lo, hi, func(term []byte, more, less []uint32) bool {
		what := v.policy.Describe(term)
		if len(more) > 0 {
			v.report(v.at, fmt.Sprintf("index: %s is said of version %d, which has it not", what, more[0]))
		}
		if len(less) > 0 {
			v.report(v.at, fmt.Sprintf("index: %s is not said of version %d, which has it", what, less[0]))
		}
		found++
		return found < maxIndexFindings
	})
}
