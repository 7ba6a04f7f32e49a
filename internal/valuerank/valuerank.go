// Package valuerank orders documents by their values at a path without reading them: the rank of
// an ordinal of an index is the place of its value among all that the path has there.
//
// # Invariants
//
//  1. Of two ordinals with different ranks, the one with the lower rank comes first in the order
//     of the path. Ordinals with one rank have values that are equal in that order.
//  2. There are no ranks where terms do not tell the order: of strings that were cut.
package valuerank

import (
	"cmp"
	"context"
	"slices"

	"github.com/cleavestore/cleave/index"
)

// None is the rank of an ordinal without a value.
const None = 0

// Of returns the ranks of all ordinals, and how many terms it has walked over. It returns no ranks,
// but a slice that is not nil, if the terms do not tell the order. cur is a cursor over an index of so
// many items.
func Of(ctx context.Context, cur *index.Cursor, items uint32, path index.Path) (ranks []uint32, terms int64, err error) {
	ranks = make([]uint32, items)
	span := index.Exists(path)
	var list []uint32
	var last index.Type
	rank := uint32(None)
	for ok := cur.Seek(span.From); ok && string(cur.Key()) < string(span.To); ok = cur.Next() {
		if terms++; terms%1024 == 0 && ctx.Err() != nil {
			return nil, terms, ctx.Err()
		}
		term, known := cur.Term()
		if !known || term.Cut {
			return []uint32{}, terms, nil
		}
		// All arrays are equal in an order, and so are all objects.
		if last != term.Value.Type || term.Value.Type < index.Array {
			rank++
		}
		last = term.Value.Type
		if list, err = cur.Posting().AppendTo(list[:0]); err != nil {
			return nil, terms, err
		}
		for _, o := range list {
			ranks[o] = rank
		}
	}
	return ranks, terms, cur.Err()
}

// Point is a place among ordinals in the order of their ranks.
type Point struct {
	Rank uint32
	// Equal says that Rank is that of the value of the point; then ordinals of this rank come
	// behind the point from the ordinal From on. Else they come behind it in a rising order, and
	// before it in a falling one.
	Equal bool
	From  uint32
}

// Behind takes out of a list the ordinals that come before a point.
func Behind(list, ranks []uint32, falling bool, p Point) []uint32 {
	return slices.DeleteFunc(list, func(o uint32) bool {
		switch r := ranks[o]; {
		case r != p.Rank:
			return r < p.Rank != falling
		case p.Equal:
			return o < p.From
		}
		return falling
	})
}

// Sort puts a list in the order of ranks, and ordinals of one rank in their own order.
func Sort(list, ranks []uint32, falling bool) {
	slices.SortFunc(list, func(a, b uint32) int {
		c := cmp.Compare(ranks[a], ranks[b])
		if falling {
			c = -c
		}
		return cmp.Or(c, cmp.Compare(a, b))
	})
}
