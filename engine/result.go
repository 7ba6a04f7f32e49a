package engine

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/cleavestore/cleave/internal/query"
)

// Result is a query that runs when it is ranged over. It serves one goroutine.
type Result struct {
	ctx      context.Context
	c        *Container
	snapshot *Snapshot
	scope    Scope
	q        Query

	selected *query.Select // nil: the query was not run
	within   Scope         // scope, checked
	at       position      // of the newest result, if begun
	begun    bool
	finished bool
	stats    QueryStats
}

// QueryStats counts the work of the last loop over a Result.
type QueryStats struct {
	Partitions int           `json:"partitions"` // physical partitions that were asked
	Documents  int64         `json:"documents"`  // documents read to test the filter, or for their values
	Bytes      int64         `json:"bytes"`      // of those documents
	Candidates int64         `json:"candidates"` // documents that indexes named, as far as the query went
	Matched    int64         `json:"matched"`    // documents for which the filter is true, as far as the query went
	Results    int64         `json:"results"`    // results given to the loop
	Passes     int           `json:"passes"`     // over the scope: more than one if an order does not fit into memory
	Charge     float64       `json:"charge"`     // request units: 2.3 for each physical partition, and a read for each of Documents
	Elapsed    time.Duration `json:"-"`          // until the loop ended, its body included
}

// All runs the query and returns its results, in order. Items are safe to keep.
// With Fields the body is the result as JSON; results of groups have no key, id
// or etag. At most one error comes, as the last pair. Each physical partition
// is seen at one commit point, taken when the loop begins; a Snapshot gives one commit
// point for all partitions. Each loop runs the query anew.
//
// Nothing is held before the loop and nothing after it. Its body may call the
// store.
func (r *Result) All() iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		start := time.Now()
		r.at, r.begun, r.finished, r.stats = position{}, false, false, QueryStats{}
		defer func() { r.stats.Elapsed = time.Since(start) }()
		e, err := r.prepare()
		if err == nil {
			defer e.close()
			err = e.run(yield)
		}
		switch err {
		case nil:
			r.finished = true
		case errStopped:
		default:
			yield(Item{}, err)
		}
	}
}

// Continue returns the text with which Query.Continue goes on after the latest
// result that the loop was given; "" if the loop got all results. It is valid after a
// loop, also after one that was left by a break. An item that is written meanwhile is
// among the results if it comes after the latest result.
func (r *Result) Continue() string {
	switch {
	case r.finished:
		return ""
	case !r.begun:
		return r.q.Continue
	}
	return r.at.text(hashQuery(r.c, r.within, r.selected))
}

// Stats returns the statistics of the last loop.
func (r *Result) Stats() QueryStats { return r.stats }

// prepare checks the query and pins the sequences at which it reads.
func (r *Result) prepare() (*execution, error) {
	call, err := r.c.enter(r.ctx)
	if err != nil {
		return nil, err
	}
	defer call.Leave()
	if r.snapshot != nil {
		if err = r.snapshot.check(); err != nil {
			return nil, err
		}
	}
	if r.c.def.Kind != JSON {
		return nil, invalidf("container %q is opaque: its bodies cannot be queried", r.c.name)
	}
	scope, err := r.scope.check(r.c)
	if err != nil {
		return nil, err
	}
	s, err := r.q.compile()
	if err != nil {
		return nil, err
	}
	r.selected, r.within = s, scope
	e := &execution{r: r, c: r.c, s: s, skip: s.Offset, left: s.Limit}
	e.scope, e.keys = scope.narrowed(r.c, s.Where)
	if e.left == 0 {
		e.left = int(^uint(0) >> 1)
	}
	if r.q.Continue != "" {
		e.skip = 0
		if e.after, err = parsePosition(r.q.Continue, hashQuery(r.c, scope, s)); err != nil {
			return nil, err
		}
		if e.after.pk.Valid() == s.Grouped() || e.after.pk.Valid() && e.after.pk.Len() != r.c.levels() {
			return nil, fmt.Errorf("%w: not what Continue gave", ErrBadContinuation)
		}
		if !s.Grouped() && !e.scope.holds(r.c, e.after.pk) {
			return nil, fmt.Errorf("%w: it leads out of the scope", ErrBadContinuation)
		}
	}
	if err := e.plan(); err != nil {
		return nil, err
	}
	return e, e.pin()
}
