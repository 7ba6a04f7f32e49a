package engine

import (
	"context"
	"fmt"
	"strconv"

	"github.com/cleavestore/cleave/internal/query"
	"github.com/cleavestore/cleave/internal/sql"
	"github.com/cleavestore/cleave/internal/sql/syntax"
)

// Query says which documents are wanted, in which order, and which parts of them.
type Query struct {
	// Where selects documents. The zero Filter selects all.
	Where Filter
	// OrderBy orders the results. nil: by EPK, partition key and id, which also
	// orders results with equal values. Undefined comes first, then null,
	// false, true, numbers, strings, arrays, objects.
	OrderBy []QueryOrder
	// Fields are the columns of the results; nil: whole documents. A result is
	// an object with a member for each column that has a value.
	Fields []QueryField
	// Value makes the results bare values of the only column. Documents without
	// that value give no result.
	Value bool
	// Distinct leaves out results that equal another one. Results come in the order
	// of their values.
	Distinct bool
	// GroupBy makes one result of all documents with the same values at these
	// paths. Results come in the order of these values. Columns are then such
	// paths, or aggregates. Without GroupBy, aggregates give one result. The groups
	// are held in memory, up to 64 MiB of them.
	GroupBy []string
	// Offset is the number of results to pass over. It is ignored with Continue.
	Offset int
	// Limit is the number of results; 0: all.
	Limit int
	// Continue is what QueryResult.Continue returned after another run of the same query
	// over the same scope. Limit and NoScan may differ.
	Continue string
	// NoScan makes the query fail with ErrNeedsScan if documents would have to
	// be read one by one to find those wanted.
	NoScan bool
	text   *sql.Statement // what ParseQuery read beyond these fields; nil: nothing
}

// QueryOrder is a path by which results are ordered.
type QueryOrder struct {
	Path string
	Desc bool
}

// QueryField is a column of the results.
type QueryField struct {
	Path string
	// As is the name of the member; "": the last name of the path.
	As string
	// Aggregate, if not zero, is computed of the values at Path.
	Aggregate Aggregate
}

// Aggregate is a function of many values. Undefined values are passed over.
type Aggregate uint8

// Aggregates.
const (
	AggregateCount = Aggregate(query.Count) // the number of values; without a path, of documents
	AggregateSum   = Aggregate(query.Sum)   // of numbers; undefined if there are other values, or both infinities
	AggregateAvg   = Aggregate(query.Avg)   // as Sum; also undefined if there are no values
	AggregateMin   = Aggregate(query.Min)   // undefined if there are arrays or objects, or no values
	AggregateMax   = Aggregate(query.Max)
)

// ParseQuery reads a query in SQL, docs/queries.md and docs/sql.md, with parameters in
// place of constants. For a text that is no query it returns ErrInvalid with a
// *QuerySyntaxError that tells the position. The name behind FROM stands for the
// document; it names no container. Of a query that says more than the fields of Query can,
// the result keeps the rest, and Where is the part of its filter that is about documents alone.
//
//	SELECT TOP 10 c.name, c.address.city AS city FROM c WHERE c.age >= @age ORDER BY c.name
func ParseQuery(text string, parameters map[string]any) (Query, error) {
	st, err := sql.Parse(text, parameters, sql.Options{})
	if err != nil {
		return Query{}, fmt.Errorf("%w: query: %w", ErrInvalid, err)
	}
	s := st.Select
	q := Query{Where: Filter{f: s.Where}, Value: s.Value, Distinct: s.Distinct, Offset: st.Offset, Limit: st.Limit}
	if !st.Whole() {
		q.text = st
	}
	for i := range s.Columns {
		f := s.Columns[i].Field()
		q.Fields = append(q.Fields, QueryField{Path: f.Path, As: f.As, Aggregate: Aggregate(f.Func)})
	}
	for _, p := range s.GroupBy {
		q.GroupBy = append(q.GroupBy, p.String())
	}
	for _, o := range s.OrderBy {
		q.OrderBy = append(q.OrderBy, QueryOrder{Path: o.Path.String(), Desc: o.Falling})
	}
	return q, nil
}

// QuerySyntaxError says why a text is no query. It comes as a *QuerySyntaxError.
//
//	Offset int // byte of the text
//	Line   int // from 1
//	Column int // from 1, in characters
//	Msg    string
type QuerySyntaxError = syntax.Error

// compile checks the query.
func (q *Query) compile() (*query.Select, error) {
	a := query.Assembly{Err: q.Where.err, Select: query.Select{
		Where: q.Where.tree(), Value: q.Value, Distinct: q.Distinct, ByElement: q.text.ByElement(), Offset: q.Offset, Limit: q.Limit,
	}}
	for _, f := range q.Fields {
		a.Column(query.Field{Path: f.Path, As: f.As, Func: query.Func(f.Aggregate)})
	}
	for _, text := range q.GroupBy {
		a.Group(text)
	}
	for _, o := range q.OrderBy {
		a.Order(o.Path, o.Desc)
	}
	s, err := a.Done()
	if err != nil {
		return nil, fmt.Errorf("%w: query: %w", ErrInvalid, err)
	}
	return s, nil
}

// Query returns a QueryResult that runs a query over a scope when it is ranged over. Before
// that nothing is read or held.
func (c *Container) Query(ctx context.Context, scope Scope, q Query) *QueryResult {
	return &QueryResult{ctx: ctx, of: c, c: c, scope: scope, q: q}
}

// Query is Container.Query as of the snapshot.
func (s *Snapshot) Query(ctx context.Context, scope Scope, q Query) *QueryResult {
	return &QueryResult{ctx: ctx, c: s.c, snapshot: s, scope: scope, q: q}
}

// Count returns the number of documents for which a filter is true. CountStats also tells what that cost.
func (c *Container) Count(ctx context.Context, scope Scope, f Filter) (int64, error) {
	n, _, err := count(c.Query(ctx, scope, countQuery(f)))
	return n, err
}

// CountStats is Count, with the statistics of the query.
func (c *Container) CountStats(ctx context.Context, scope Scope, f Filter) (int64, QueryStats, error) {
	return count(c.Query(ctx, scope, countQuery(f)))
}

// Count is Container.Count as of the snapshot.
func (s *Snapshot) Count(ctx context.Context, scope Scope, f Filter) (int64, error) {
	n, _, err := count(s.Query(ctx, scope, countQuery(f)))
	return n, err
}

// CountStats is Count, with the statistics of the query.
func (s *Snapshot) CountStats(ctx context.Context, scope Scope, f Filter) (int64, QueryStats, error) {
	return count(s.Query(ctx, scope, countQuery(f)))
}

func countQuery(f Filter) Query {
	return Query{Where: f, Fields: []QueryField{{Aggregate: AggregateCount}}, Value: true}
}

func count(r *QueryResult) (n int64, st QueryStats, err error) {
	for it, failure := range r.All() {
		if err = failure; err == nil {
			n, err = strconv.ParseInt(string(it.Body), 10, 64)
		}
	}
	return n, r.Stats(), err
}
