package exec

import (
	"context"

	"github.com/cleavestore/cleave/internal/query"
	"github.com/cleavestore/cleave/partmap"
)

// Query is a query that was checked.
type Query struct {
	Select   *query.Select
	Scope    Scope
	Snapshot Snapshot  // nil: each physical partition is seen at its newest sequence
	After    *Position // results begin after it; nil: with the first
	// Inclusive says that results begin with the item of After, if that is still at its place.
	Inclusive bool
	// Ahead tells how many more rows the caller is likely to take. A pass of an order looks for
	// so many, and there are further passes if the caller takes more. nil: Select.Limit says how
	// many it takes. With Ahead that limit is 0. It is called on the goroutine of Run only, which
	// is that of the caller.
	Ahead func() int
	// Sorts says that the caller puts the rows in order or in groups, Sifts that it leaves some out. So
	// it may read all of them for its first result.
	Sorts, Sifts bool
	// Array is the path of an array: the caller makes nothing of a row whose document has none there.
	// nil: there is no such path.
	Array  query.Path
	NoScan bool    // fail if documents would have to be read one by one
	Spent  float64 // request units that it took to find After
}

// Scope is where a query looks.
type Scope struct {
	// Key is the key of one logical partition, or the prefix of the keys of several; the
	// zero key stands for the whole container.
	Key partmap.Key
	// Keys are keys, or prefixes of keys, in key-space order: results have one of them.
	// nil: all in the scope may be results.
	Keys []partmap.Key
	// Apart says that each of Keys is read for itself, however many there are.
	Apart bool
	// Within is the range of the key space outside of which there are no results. The zero
	// Range stands for the whole key space.
	Within partmap.Range
}

// clip returns the part of a range that lies in the scope. A range that begins and ends
// at one EPK stays as it is if ok.
func (s *Scope) clip(r partmap.Range) (_ partmap.Range, ok bool) {
	if s.Within.Empty() {
		return r, true
	}
	if r.Min.Compare(&r.Max) == 0 {
		return r, s.Within.Contains(&r.Min)
	}
	r = r.Common(s.Within)
	return r, !r.Empty()
}

// one says whether the scope is one logical partition of a container whose keys have
// this many levels.
func (s *Scope) one(levels int) bool { return s.Key.Valid() && s.Key.Len() == levels }

// all says whether the scope is the whole container.
func (s *Scope) all() bool { return !s.Key.Valid() && s.Keys == nil && s.Within.Empty() }

// Progress is how far a query has come.
type Progress struct {
	Stats Stats
	at    Position // of the newest result, if begun
	begun bool
}

// Stats counts the work of a query. Package engine documents the fields.
type Stats struct {
	Partitions                            int
	Documents, Bytes, Candidates, Matched int64
	Terms                                 int64
	Results                               int64
	Passes                                int
	Charge                                float64
}

// Position returns the place of the newest result, nil if there was none.
func (p *Progress) Position() *Position {
	if !p.begun {
		return nil
	}
	return &p.at
}

// Set replaces the place of the newest result, and the number of results, by what a caller
// makes of the rows that it is given.
func (p *Progress) Set(at Position, results int64) {
	p.at, p.begun, p.Stats.Results = at, true, results
}

// Unset says that there was no result yet.
func (p *Progress) Unset() { p.begun = false }

// bounded says whether not all results are wanted. It may be called from any goroutine.
func (q *Query) bounded() bool { return q.Ahead != nil || q.Select.Limit > 0 }

// limit returns how many results are wanted, as far as this is known; 0: all.
func (q *Query) limit() int {
	if q.Ahead != nil {
		return max(1, q.Ahead())
	}
	return q.Select.Limit
}

// Begin plans a query and pins the sequences at which it reads. The caller is inside a
// call on the container, and closes the execution if err is nil. The execution writes to
// to until then.
func Begin(ctx context.Context, h Host, q *Query, to *Progress) (*Execution, error) {
	e := &Execution{Query: *q, ctx: ctx, h: h, to: to, charge: q.Spent, skip: q.Select.Offset, left: q.Select.Limit}
	if e.left == 0 {
		e.left = int(^uint(0) >> 1)
	}
	if e.After != nil {
		e.skip = 0
	}
	if err := e.plan(); err != nil {
		return nil, err
	}
	if err := e.pin(); err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}
