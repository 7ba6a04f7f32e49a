package sql

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/cleavestore/cleave/internal/exec"
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
	if s.Whole() {
		sel.Offset, sel.Limit = offset, limit
		return p, nil
	}
	sel.Offset, sel.Limit = 0, 0
	if after != nil {
		p.skip = 0
	}
	if limit == 0 {
		p.left = int(^uint(0) >> 1)
	}
	if s.way != mapped {
		sel.OrderBy = nil // the order of the statement counts
	}
	switch s.way {
	case whole, mapped: // whole: of no results
		if s.sure && limit > 0 {
			sel.Offset, sel.Limit, p.skip = p.skip, limit, 0
		}
	case joined:
		if after != nil && len(after.Order) > 0 {
			n, size := binary.Uvarint(after.Order)
			if size != len(after.Order) || n == 0 {
				return nil, errBadOrder
			}
			p.done, q.Inclusive = n, true
			q.After = &exec.Position{Key: after.Key, ID: after.ID}
		}
	default:
		q.After = nil
	}
	return p, nil
}

var errBadOrder = fmt.Errorf("%w: not what Continue gave", exec.ErrBadContinuation)

// Page is a page of the results of a statement that is being made.
type Page struct {
	s     *Statement
	skip  int
	left  int
	after *exec.Position
	done  uint64 // results of the first item that an earlier page had

	to      *exec.Progress
	results int64
	give    func(*exec.Row) bool
	f       *eval.Frame
}

// Run gives the results to give, until that returns false. to learns how far it came. all
// says that there are no more.
func (p *Page) Run(from Source, to *exec.Progress, give func(*exec.Row) bool) (all bool, err error) {
	s := p.s
	if s.Whole() {
		return from.Run(give)
	}
	if s.none {
		return true, nil
	}
	p.to, p.give = to, give
	defer func() { to.Stats.Results = p.results }() // exec counts documents
	p.f = s.q.NewFrame(s.now(), s.clock)
	switch s.way {
	case mapped:
		return p.mapped(from)
	case joined:
		return p.joined(from)
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
	p.to.Set(at, p.results)
	out := *row
	out.Body = body
	return p.give(&out) && p.left > 0
}

// result appends the JSON of the present result; false if there is none.
func (p *Page) result() ([]byte, bool) {
	v, ok := p.s.q.Result(p.f)
	if !ok {
		return nil, false
	}
	return v.Append(nil), true
}

// mapped gives at most one result for each document.
func (p *Page) mapped(from Source) (bool, error) {
	var failure error
	all, err := from.Run(func(row *exec.Row) bool {
		at := *p.to.Position() // exec has set it
		more := true
		p.f.SetSeq(row.Seq)
		failure = p.s.q.Rows(p.f, value.Parse(row.Body), func() bool {
			if body, ok := p.result(); ok {
				more = p.take(row, body, at)
			}
			return false
		})
		if failure == nil && p.f.Err() != nil {
			failure = p.f.Err()
		}
		p.to.Set(at, p.results)
		return more && failure == nil
	})
	if failure != nil {
		err = failure
	}
	return all, err
}

// joined gives the rows of each document.
func (p *Page) joined(from Source) (bool, error) {
	var failure error
	all, err := from.Run(func(row *exec.Row) bool {
		at := exec.Position{Key: row.Key, ID: row.ID}
		done := uint64(0) // results of the item
		begun := uint64(0)
		if p.after != nil && p.done > 0 && row.Key == p.after.Key && row.ID == p.after.ID {
			begun = p.done
		}
		more := true
		p.f.SetSeq(row.Seq)
		failure = p.s.q.Rows(p.f, value.Parse(row.Body), func() bool {
			body, ok := p.result()
			if !ok {
				return p.f.Err() == nil
			}
			if done++; done <= begun {
				return true
			}
			at.Order = binary.AppendUvarint(nil, done)
			more = p.take(row, body, at)
			return more
		})
		if failure == nil && more {
			at.Order = nil // all results of the item were given
			p.to.Set(at, p.results)
		}
		return more && failure == nil
	})
	if failure != nil {
		err = failure
	}
	return all, err
}

// constant gives the results of a query without documents. They are counted.
func (p *Page) constant() (bool, error) {
	begun := uint64(0)
	if p.after != nil {
		n, size := binary.Uvarint(p.after.Order)
		if size != len(p.after.Order) || n == 0 {
			return false, errBadOrder
		}
		begun = n
	}
	n := uint64(0)
	more := true
	err := p.s.q.Run(p.f, value.Value{}, func(v value.Value) bool {
		if n++; n <= begun {
			return true
		}
		more = p.take(&exec.Row{}, v.Append(nil), exec.Position{Order: binary.AppendUvarint(nil, n)})
		return more
	})
	return more, err
}

func (s *Statement) now() time.Time {
	o := Options{Clock: s.clock}
	return o.now()
}
