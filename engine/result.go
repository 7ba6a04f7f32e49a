package engine

import (
	"context"
	"iter"
	"math/rand/v2"
	"runtime/trace"
	"time"

	"github.com/cleavestore/cleave/internal/exec"
	"github.com/cleavestore/cleave/internal/keyscope"
	"github.com/cleavestore/cleave/internal/latency"
	"github.com/cleavestore/cleave/internal/query"
	"github.com/cleavestore/cleave/internal/recall"
	"github.com/cleavestore/cleave/internal/sql"
)

// QueryResult is a query that runs when it is ranged over. It serves one goroutine.
type QueryResult struct {
	ctx      context.Context
	of       *Container // what the caller has; nil: with a snapshot
	c        *Container // of the last loop
	snapshot *Snapshot
	scope    Scope
	q        Query

	selected *query.Select  // nil: the query was not run
	within   keyscope.Scope // scope, checked
	page     *sql.Page
	progress exec.Progress
	finished bool
	elapsed  time.Duration
}

// QueryStats counts the work of the last loop over a QueryResult.
type QueryStats struct {
	Partitions int           `json:"partitions"` // physical partitions that were asked
	Documents  int64         `json:"documents"`  // documents read to test the filter, or for their values
	Bytes      int64         `json:"bytes"`      // of those documents
	Candidates int64         `json:"candidates"` // documents that indexes named, as far as the query went
	Terms      int64         `json:"terms"`      // terms of indexes that were looked at
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
func (r *QueryResult) All() iter.Seq2[Item, error] {
	begin := r.c.db.watch("query", r.c.name)
	return func(yield func(Item, error) bool) {
		if trace.IsEnabled() {
			defer trace.StartRegion(r.ctx, "cleave.query").End()
		}
		if begin != nil {
			defer begin()()
		}
		start := time.Now()
		r.progress, r.finished, r.elapsed = exec.Progress{}, false, 0
		defer func() { r.elapsed = time.Since(start) }()
		r.c.db.counters.queries.Add(1)
		watch := r.c.db.timed(latency.Query, rand.Uint32())
		var body time.Duration // how long the body of the loop took
		e, _, err := r.prepare()
		if err == nil {
			defer e.Close()
			show := func(row *exec.Row) bool {
				if row.Seq == 0 {
					return yield(Item{Body: row.Body}, nil) // of groups
				}
				return give(r.c, yield, row)
			}
			if watch.runs {
				show = r.c.db.without(show, &body)
			}
			r.finished, err = r.page.Run(r.ctx, e, &r.progress, show)
		}
		if watch.runs {
			r.c.took(latency.Query, r.c.db.opts.elapsed()-watch.begun-body, nil, nil, waits{}, err)
		}
		if err != nil {
			yield(Item{}, err)
		}
	}
}

// Continue returns the text with which Query.Continue goes on after the latest
// result that the loop was given; "" if the loop got all results. It is valid in the body
// of a loop and after it, also after one that was left by a break. An item that is written meanwhile is
// among the results if it comes after the latest result.
func (r *QueryResult) Continue() string { return r.next(false) }

// ShortContinue is Continue in at most 1,024 characters, whatever the keys and values are. What does not fit is
// in it as a hash. The query then looks for the place, and fails with ErrBadContinuation
// if the result was deleted or has another place since.
func (r *QueryResult) ShortContinue() string { return r.next(true) }

func (r *QueryResult) next(short bool) string {
	at := r.progress.Position()
	switch {
	case r.finished:
		return ""
	case at == nil:
		return r.q.Continue
	}
	return at.Text(r.hash(), short)
}

// Stats returns the statistics of the last loop.
func (r *QueryResult) Stats() QueryStats {
	s := &r.progress.Stats
	return QueryStats{Partitions: s.Partitions, Documents: s.Documents, Bytes: s.Bytes, Candidates: s.Candidates, Terms: s.Terms,
		Matched: s.Matched, Results: s.Results, Passes: s.Passes, Charge: s.Charge, Elapsed: r.elapsed}
}

// hash tells the query and its scope apart from others.
func (r *QueryResult) hash() uint64 {
	return exec.Hash(r.c.id, r.within.Whole().String()+r.q.text.Text(), r.selected)
}

// prepare checks the query and pins the sequences at which it reads. narrow is its scope
// as the filter narrows it.
func (r *QueryResult) prepare() (e *exec.Execution, narrow keyscope.Narrowed, err error) {
	if r.of == nil {
		return r.prepareNow()
	}
	for {
		r.c = r.of.now()
		if e, narrow, err = r.prepareNow(); !r.of.outlived(r.c, err) {
			return e, narrow, err
		}
	}
}

// prepareNow is prepare in the state that c belongs to.
func (r *QueryResult) prepareNow() (e *exec.Execution, narrow keyscope.Narrowed, err error) {
	enter := r.c.enter
	if r.snapshot != nil {
		enter = r.c.enterAgain
	}
	call, err := enter(r.ctx)
	if err != nil {
		return nil, narrow, err
	}
	defer call.Leave()
	if r.snapshot != nil {
		if err = r.snapshot.check(); err != nil {
			return nil, narrow, err
		}
	}
	if r.c.def.Kind != JSON {
		return nil, narrow, invalidf("container %q is opaque: its bodies cannot be queried", r.c.name)
	}
	scope, err := r.scope.check(r.c)
	if err != nil {
		return nil, narrow, err
	}
	s, err := r.q.compile()
	if err != nil {
		return nil, narrow, err
	}
	r.selected, r.within = s, scope
	narrow = scope.Narrow(&r.c.keys, s.Where)
	at, spent, err := r.after(narrow.Scope)
	q := exec.Query{Select: s, Snapshot: cutOf(r.snapshot), NoScan: r.q.NoScan, Spent: spent}
	if err == nil {
		r.page, err = r.q.text.Begin(&q, at, r.q.Offset, r.q.Limit)
	}
	if err != nil {
		return nil, narrow, err
	}
	q.Scope.Within = scope.Within
	if q.Scope.Keys, q.Scope.Apart, err = narrow.Lists(&r.c.keys); err != nil {
		return nil, narrow, err
	}
	if !q.Scope.Apart {
		q.Scope.Key = narrow.Key
	}
	e, err = exec.Begin(r.ctx, r.c.host(), &q, &r.progress)
	return e, narrow, err
}

// after returns the position in a scope after which the query goes on, nil to begin with
// the first result.
func (r *QueryResult) after(scope keyscope.Scope) (at *exec.Position, spent float64, err error) {
	if r.q.Continue == "" {
		return nil, 0, nil
	}
	return recall.Place(r.ctx, r.c.host(), r.q.Continue, &recall.Query{
		Select: r.selected, Snapshot: cutOf(r.snapshot), Hash: r.hash(), Groups: r.selected.Grouped() || !r.q.text.Keyed(),
		Holds: func(pk PartitionKey) bool { return scope.Whole().Holds(&r.c.keys, pk) },
	})
}
