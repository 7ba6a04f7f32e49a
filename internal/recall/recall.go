// Package recall finds the place in a query that a continuation stands for. A short one names an item and its place in the
// order by sums: they are looked up as the page before saw them.
package recall

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cleavestore/cleave/internal/continuation"
	"github.com/cleavestore/cleave/internal/exec"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/query"
	"github.com/cleavestore/cleave/partmap"
)

// Query says what a continuation must belong to.
type Query struct {
	Select   *query.Select
	Snapshot exec.Snapshot
	Hash     uint64
	Groups   bool                      // it names no item
	Holds    func(pk partmap.Key) bool // whether the scope has a logical partition
}

// Place reads a continuation and returns the place that it stands for, and what that cost, in request units.
func Place(ctx context.Context, h exec.Host, text string, of *Query) (at *continuation.Position, charge float64, err error) {
	if at, err = continuation.Parse(text, of.Hash); err != nil {
		return nil, 0, err
	}
	bad := func(why string) (*continuation.Position, float64, error) {
		return nil, charge, fmt.Errorf("%w: %s", continuation.ErrBad, why)
	}
	byHash := at.Short != nil && at.Short.Item
	if byHash == of.Groups && byHash || !byHash && (at.Key.Valid() == of.Groups || at.Key.Valid() && at.Key.Len() != h.Levels()) {
		return bad("not what Continue gave")
	}
	r := recaller{ctx: ctx, h: h, o: exec.ScanOptions{Snapshot: of.Snapshot, Borrow: true, Charge: &charge}}
	if byHash {
		found, err := r.item(at)
		if err != nil {
			return nil, charge, err
		}
		if !found {
			return nil, charge, continuation.ErrGone
		}
	}
	if !of.Groups && !of.Holds(at.Key) {
		return bad("it leads out of the scope")
	}
	if at.Short != nil && at.Short.Order && !of.Groups && len(of.Select.OrderBy) > 0 { // package sql finds its own orders
		found, err := r.order(at, of.Select)
		if err != nil {
			return nil, charge, err
		}
		if !found {
			return nil, charge, continuation.ErrGone
		}
	}
	return at, charge, nil
}

// recaller finds places of short continuations.
type recaller struct {
	ctx context.Context
	h   exec.Host
	o   exec.ScanOptions
}

// item finds the item of a position. Its logical partition is the only one with its EPK;
// if others have the same, they are searched too.
func (r *recaller) item(at *continuation.Position) (found bool, err error) {
	epk, err := partmap.EPKFromBytes(at.Short.EPK)
	if err != nil {
		return false, fmt.Errorf("%w: not what Continue gave", continuation.ErrBad)
	}
	is := func(row *exec.Row) bool {
		if found = continuation.DigestOf(row.Key.Encoded(), []byte(row.ID)) == at.Short.ItemSum; found {
			at.Key, at.ID = partmap.FromTrusted(slices.Clone(row.Key.Encoded())), strings.Clone(row.ID)
		}
		return !found
	}
	begun, failed := false, error(nil)
	err = exec.ScanRange(r.ctx, r.h, partmap.Range{Min: epk, Max: partmap.MaxEPK()}, &r.o, func(row *exec.Row) bool {
		if here := row.Key.EPK(); here.Compare(&epk) != 0 {
			return false
		}
		if !is(row) {
			return false
		}
		if begun {
			return true
		}
		begun = true
		// Most often this is the key: go to the id.
		ids := item.IDRange{}
		ids.Prefix(at.Short.ID)
		pk := partmap.FromTrusted(slices.Clone(row.Key.Encoded()))
		failed = exec.ScanKey(r.ctx, r.h, pk, ids, &r.o, is)
		return failed == nil && !found
	})
	return found, errors.Join(err, failed)
}

// order reads the order key of the item of a position in its document.
func (r *recaller) order(at *continuation.Position, s *query.Select) (found bool, err error) {
	ids := item.IDRange{}
	ids.From(at.ID, false)
	ids.To(at.ID, false)
	err = exec.ScanKey(r.ctx, r.h, at.Key, ids, &r.o, func(row *exec.Row) bool {
		eval := query.Compile(&query.Filter{}, s.OrderPaths()).Evaluator()
		eval.Match(row.Body)
		var keys [][]byte
		if s.ByElement {
			elements := query.ElementKeys{Falling: s.OrderBy[0].Falling}
			keys = elements.Of(&eval.Wanted[0])
		} else {
			keys = [][]byte{s.AppendOrder(nil, eval)}
		}
		for _, key := range keys {
			if continuation.DigestOf(key) == at.Short.OrderSum {
				at.Order, found = bytes.Clone(key), true
			}
		}
		return false
	})
	return found, err
}
