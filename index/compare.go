package index

import (
	"bytes"
	"context"
	"slices"
)

// Compare calls report for each term that two indexes of one file do not have for
// the same ordinals from lo, inclusive, to hi, exclusive: more are those that
// only a has, less those that only b has. report returns false to end it, which ctx does too.
func Compare(ctx context.Context, a, b *Reader, lo, hi uint32, report func(term []byte, more, less []uint32) bool) error {
	ended := func(int) error { return ctx.Err() }
	x, y := newTaken(cutTo(a, lo, hi), ended), newTaken(cutTo(b, lo, hi), ended)
	moreX, err := x.nextFrom(nil)
	if err != nil {
		return err
	}
	moreY, err := y.nextFrom(nil)
	for err == nil && (moreX || moreY) {
		if err = ctx.Err(); err != nil {
			return err
		}
		c := 0
		switch {
		case !moreY:
			c = -1
		case !moreX:
			c = 1
		default:
			c = bytes.Compare(x.key(), y.key())
		}
		var more, less []uint32
		if c <= 0 {
			more = x.ordinals
		}
		if c >= 0 {
			less = y.ordinals
		}
		if !slices.Equal(more, less) {
			key := y.key
			if c <= 0 {
				key = x.key
			}
			if !report(key(), without(more, less), without(less, more)) {
				return nil
			}
		}
		if c <= 0 {
			if moreX, err = x.next(); err != nil {
				return err
			}
		}
		if c >= 0 {
			moreY, err = y.next()
		}
	}
	return err
}

// cutTo takes all terms of an index for a range of ordinals.
func cutTo(r *Reader, lo, hi uint32) input {
	remap := Remap{First: lo, New: make([]uint32, hi-lo)}
	for i := range remap.New {
		remap.New[i] = lo + uint32(i)
	}
	return input{r, remap}
}

// without returns what is in a and not in b, both sorted.
func without(a, b []uint32) []uint32 {
	var out []uint32
	for _, o := range a {
		if _, ok := slices.BinarySearch(b, o); !ok {
			out = append(out, o)
		}
	}
	return out
}
