package sql

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"time"

	"github.com/cleavestore/cleave/internal/exec"
	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/sql/eval"
	"github.com/cleavestore/cleave/internal/sql/value"
)

// Source gives the documents of a statement: the results of Select. It is an Execution of
// exec. all says that there are no more.
type Source interface {
	Run(yield func(*exec.Row) bool) (all bool, err error)
}

// Begin fills in what exec is to do for a page of the statement: the results behind a
// position, nil for the first one, without the first offset of these, and at most limit, 0 for
// all. It returns the page. A nil Statement stands for q as it is.
func (s *Statement) Begin(q *exec.Query, after *exec.Position, offset, limit int) (*Page, error) {
	q.After = after
	sel := *q.Select
	q.Select = &sel
	p := &Page{s: s, skip: offset, left: limit, after: after}
	if after != nil && after.Row > 0 && (s.Whole() || s.way == mapped) {
		return nil, errBadOrder
	}
	if s.Whole() {
		sel.Offset, sel.Limit = offset, limit
		return p, nil
	}
	if s.ByElement() && (len(sel.OrderBy) != 1 || sel.OrderBy[0].Path.String() != s.Select.OrderBy[0].Path.String()) {
		return nil, fmt.Errorf("%w: query: its order is not that of its text", fault.ErrInvalid)
	}
	sel.Offset, sel.Limit = 0, 0
	if after != nil {
		p.skip = 0
	}
	if limit == 0 {
		p.left = int(^uint(0) >> 1)
	}
	q.Sorts, q.Sifts, q.Array = s.way == collected, s.sifts, s.array
	if s.way != mapped && s.way != joined {
		sel.OrderBy, q.After = nil, nil // the order of the statement counts
		return p, nil
	}
	switch {
	case limit == 0:
	case s.sure:
		sel.Offset, sel.Limit, p.skip = p.skip, limit, 0
	default:
		q.Ahead = p.ahead
	}
	// A page that ended inside a document begins with it.
	q.Inclusive = after != nil && after.Row > 0
	return p, nil
}

// ahead estimates how many documents have the results that are still wanted. It begins with
// few, since each may have many results, and then goes by what those so far had.
func (p *Page) ahead() int {
	const begin, growth, margin = 16, 2, 8
	wanted := int64(min(p.left, math.MaxInt-p.skip) + p.skip)
	if p.documents == 0 {
		if p.s.ByElement() {
			return int(wanted) // a row of exec has one result, or those of equal elements
		}
		return int(1 + wanted/begin)
	}
	likely := growth * p.documents
	if p.made > 0 && wanted < math.MaxInt64/margin/p.documents {
		likely = min(likely, wanted*p.documents/p.made)
	}
	return int(min(likely+likely/margin+1, math.MaxInt))
}

var errBadOrder = fmt.Errorf("%w: not what Continue gave", exec.ErrBadContinuation)

// Page is a page of the results of a statement that is being made.
type Page struct {
	s     *Statement
	skip  int
	left  int
	after *exec.Position

	documents int64 // that Run has seen
	made      int64 // results of these, before any is left out

	to      *exec.Progress
	begun   bool          // results were given, or all that are to be left out were passed over,
	at      exec.Position // up to here
	results int64
	give    func(*exec.Row) bool
	f       *eval.Frame

	elements elements
}

// Run gives the results to give, until that returns false or ctx ends. to learns how far it came. all
// says that there are no more.
func (p *Page) Run(ctx context.Context, from Source, to *exec.Progress, give func(*exec.Row) bool) (all bool, err error) {
	s := p.s
	if s.Whole() {
		return from.Run(give)
	}
	p.to, p.give = to, give
	defer func() { // exec counts documents, and tells their places
		p.settle()
		to.Stats.Results = p.results
	}()
	p.f = s.q.NewFrame(s.now(), s.clock)
	p.f.SetContext(ctx)
	switch s.way {
	case mapped, joined:
		return p.rows(from)
	case constant:
		return p.constant()
	}
	return p.collected(from)
}

// take gives a result at a position; false: no more are wanted.
func (p *Page) take(row *exec.Row, body []byte, at exec.Position) bool {
	if p.skip > 0 {
		p.skip--
		return true
	}
	p.left--
	p.results++
	p.begun, p.at = true, at
	p.settle()
	out := *row
	out.Body = body
	return p.give(&out) && p.left > 0
}

// ended notes that the results of the document at a place were given, or passed over.
func (p *Page) ended(at exec.Position) {
	if p.skip == 0 {
		p.begun, p.at = true, at
	}
	p.settle()
}

// settle says where the next page begins. exec has set that behind the present document. A page
// that ends before it has passed over all that is to be left out is begun anew.
func (p *Page) settle() {
	if p.begun {
		p.to.Set(p.at, p.results)
	} else {
		p.to.Unset()
	}
}

// result appends the JSON of the present result; false if there is none.
func (p *Page) result() ([]byte, bool) {
	v, ok := p.s.q.Result(p.f)
	if !ok {
		return nil, false
	}
	return v.Append(nil), true
}

// rows gives the results of each document. Of a mapped statement it has at most one.
func (p *Page) rows(from Source) (bool, error) {
	var failure error
	all, err := from.Run(func(row *exec.Row) bool {
		at := *p.to.Position() // exec has set it
		p.documents++
		given := p.given(&at)
		more := true
		if list, ok := p.elements.of(row, at.Order); ok {
			return p.giveAll(row, list, at, given)
		}
		// A result waits until it is known whether the document has another one.
		var n uint64
		var waits []byte
		rows := 0
		p.f.SetSeq(row.Seq)
		failure = p.s.q.Rows(p.f, value.Parse(row.Body), func() bool {
			if rows++; p.s.ByElement() && !p.isElement(at.Order) {
				return p.f.Err() == nil
			}
			body, ok := p.result()
			if !ok {
				return p.s.way == joined && p.f.Err() == nil
			}
			p.made++
			if waits != nil {
				at.Row = n
				if more = p.take(row, waits, at); !more {
					return false
				}
			}
			if n++; n > given {
				waits = body
			}
			return p.s.way == joined
		})
		if failure == nil {
			failure = p.f.Err()
		}
		if failure != nil || !more {
			return false
		}
		at.Row = 0
		if waits != nil && !p.take(row, waits, at) {
			return false
		}
		p.ended(at)
		if p.s.ByElement() && rows >= manyRows {
			failure = p.keep(row, at.Order)
		}
		return failure == nil
	})
	if failure != nil {
		err = failure
	}
	return all, err
}

// given returns how many results of the item at a place earlier pages have given.
func (p *Page) given(at *exec.Position) uint64 {
	if a := p.after; a != nil && a.Row > 0 && at.Key == a.Key && at.ID == a.ID && bytes.Equal(at.Order, a.Order) {
		return a.Row
	}
	return 0
}

// constant gives the results of a query without documents. They are counted.
func (p *Page) constant() (bool, error) {
	begun := uint64(0)
	if p.after != nil {
		if begun = p.after.Row; begun == 0 {
			return false, errBadOrder
		}
	}
	n := uint64(0)
	more := true
	err := p.s.q.Run(p.f, value.Value{}, func(v value.Value) bool {
		if n++; n <= begun {
			return true
		}
		more = p.take(&exec.Row{}, v.Append(nil), exec.Position{Row: n})
		return more
	})
	return more, err
}

func (s *Statement) now() time.Time {
	o := Options{Clock: s.clock}
	return o.now()
}
