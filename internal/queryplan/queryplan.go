// Package queryplan says how a client of Azure Cosmos DB answers a query over several physical
// partitions: which query it sends to each, and how it merges their results. The fields, and the forms of the
// rewritten queries, are those that the SDKs for .NET and JavaScript read.
//
//	ORDER BY     SELECT c._rid, [{"item": order}, …] AS orderByItems, result AS payload … ORDER BY …
//	GROUP BY     SELECT [{"item": key}, …] AS groupByItems, {"name": result, …} AS payload … GROUP BY …
//	aggregates   SELECT VALUE [{"item": COUNT(x)}] …, or {"name": {"item": COUNT(x)}, …} AS payload
//
// In place of AVG stand SUM and COUNT. MIN and MAX come with COUNT, so that partitions without
// values can be told apart. They pass over NaN, and so does this COUNT.
//
// Invariants:
//
//  1. The results of the rewritten query in each part of the documents, merged as the plan
//     says, are those of the query over all documents. But clients add the sums of partitions as
//     doubles: an AVG whose sums leave their range is infinite or NaN, though its mean does not.
//  2. A rewritten query has the parameters of the query.
package queryplan

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/cleavestore/cleave/internal/sql/eval"
	"github.com/cleavestore/cleave/internal/sql/syntax"
	"github.com/cleavestore/cleave/internal/sql/value"
)

// Plan is what a client needs to know of a query.
type Plan struct {
	Version int     `json:"partitionedQueryExecutionInfoVersion"`
	Info    Info    `json:"queryInfo"`
	Ranges  []Range `json:"queryRanges"`
}

// Range is a part of the key space that a query is about.
type Range struct {
	Min          string `json:"min"`
	Max          string `json:"max"`
	MinInclusive bool   `json:"isMinInclusive"`
	MaxInclusive bool   `json:"isMaxInclusive"`
}

// Info says how results are merged.
type Info struct {
	DistinctType                string             `json:"distinctType"` // None, Ordered or Unordered
	Top                         *int               `json:"top"`
	Offset                      *int               `json:"offset"`
	Limit                       *int               `json:"limit"`
	OrderBy                     []string           `json:"orderBy"` // Ascending or Descending
	OrderByExpressions          []string           `json:"orderByExpressions"`
	GroupByExpressions          []string           `json:"groupByExpressions"`
	GroupByAliases              []string           `json:"groupByAliases"`
	Aggregates                  []string           `json:"aggregates"` // of SELECT VALUE
	GroupByAliasToAggregateType map[string]*string `json:"groupByAliasToAggregateType"`
	RewrittenQuery              string             `json:"rewrittenQuery"` // "": the query itself
	HasSelectValue              bool               `json:"hasSelectValue"`
	DCount                      *struct{}          `json:"dCountInfo"`
	HasNonStreamingOrderBy      bool               `json:"hasNonStreamingOrderBy"`
}

// FilterPlaceholder stands in the rewritten query of an ORDER BY where the client puts a
// condition on the order, or true.
const FilterPlaceholder = "{documentdb-formattableorderbyquery-filter}"

// Merges says that a client must merge the results of partitions: those of each, one after the
// other, are not those of the query. Azure's gateway refuses such a query over several partitions.
func (p *Plan) Merges() bool {
	i := &p.Info
	return i.DistinctType != "None" || i.Top != nil || i.Offset != nil || i.Limit != nil ||
		len(i.OrderBy)+len(i.GroupByExpressions)+len(i.Aggregates)+len(i.GroupByAliasToAggregateType) > 0
}

// Of returns the plan of a query over the whole key space. Only the numbers of TOP, OFFSET and LIMIT are taken
// from the parameters. The error is a *syntax.Error: the text is no query, or one that
// no client can merge.
func Of(text string, parameters map[string]any) (*Plan, error) {
	q, err := syntax.Parse(text)
	if err != nil {
		return nil, err
	}
	bound, err := q.Bind(text, parameters)
	if err != nil {
		return nil, err
	}
	if _, err = eval.Compile(text, bound, eval.Options{UDF: anyUDF}); err != nil {
		return nil, err
	}
	q.Top, q.Offset, q.Limit = bound.Top, bound.Offset, bound.Limit
	p := &Plan{Version: 2, Ranges: []Range{{"", "FF", true, false}}, Info: Info{
		DistinctType: "None", OrderBy: []string{}, OrderByExpressions: []string{}, GroupByExpressions: []string{}, GroupByAliases: []string{},
		Aggregates: []string{}, GroupByAliasToAggregateType: map[string]*string{}, HasSelectValue: q.Value,
	}}
	r := rewriter{text: text, q: q, p: &p.Info}
	if err := r.rewrite(); err != nil {
		return nil, err
	}
	return p, nil
}

// anyUDF stands for the functions of a container: a plan does not call them.
func anyUDF(string) (eval.UDF, bool) { return nil, true }

type rewriter struct {
	text string
	q    *syntax.Query
	p    *Info
}

// aggregateTypes are the names of aggregates in plans.
var aggregateTypes = map[string]string{
	"COUNT": "Count", "COUNTIF": "CountIf", "SUM": "Sum", "AVG": "Average", "MIN": "Min", "MAX": "Max", "MAKELIST": "MakeList", "MAKESET": "MakeSet",
}

func (r *rewriter) rewrite() error {
	q, p := r.q, r.p
	number := func(c *syntax.Count) *int {
		if c == nil {
			return nil
		}
		return &c.N
	}
	p.Top, p.Offset, p.Limit = number(q.Top), number(q.Offset), number(q.Limit)
	out := *q
	// Each partition gives as many results as are wanted of all, unless what they are is
	// only known when they are merged.
	out.Top, out.Offset, out.Limit = nil, nil, nil
	grouped := len(q.GroupBy) > 0
	for _, item := range q.Items {
		grouped = grouped || eval.Aggregated(item.Expr)
	}
	if !grouped && !q.Distinct {
		switch {
		case q.Top != nil:
			out.Top = q.Top
		case q.Limit != nil:
			out.Offset, out.Limit = &syntax.Count{}, &syntax.Count{N: q.Limit.N}
			if q.Offset != nil {
				out.Limit.N = min(q.Limit.N, math.MaxInt32-q.Offset.N) + q.Offset.N // no query has more
			}
		}
	}
	if q.Distinct {
		p.DistinctType = "Unordered"
		if r.orderedDistinct() {
			p.DistinctType = "Ordered"
		}
	}
	switch {
	case grouped && (q.Distinct || len(q.GroupBy) > 0 && len(q.OrderBy) > 0 || slices.ContainsFunc(q.OrderBy, func(o syntax.Order) bool { return eval.Aggregated(o.Expr) })):
		return syntax.Errorf(r.text, q.At, "ORDER BY and DISTINCT with GROUP BY or aggregates cannot be answered over several partitions")
	case grouped:
		out.OrderBy = nil // without GROUP BY there is one result
		if err := r.groups(&out); err != nil {
			return err
		}
	case len(q.OrderBy) > 0:
		r.ordered(&out)
	case !q.Distinct && out.Top == nil && out.Limit == nil && q.Offset == nil:
		return nil
	}
	if p.RewrittenQuery == "" {
		p.RewrittenQuery = out.String()
	}
	return nil
}

// orderedDistinct says that the order tells all results apart, so that equal ones follow each
// other. It does not tell apart arrays, nor objects.
func (r *rewriter) orderedDistinct() bool {
	orders := make(map[string]bool)
	for _, o := range r.q.OrderBy {
		orders[syntax.Text(o.Expr)] = true
	}
	for _, item := range r.q.Items {
		if text := syntax.Text(item.Expr); !orders[text] || !r.isID(item.Expr) && !demandsScalar(r.q.Where, text) {
			return false
		}
	}
	return len(r.q.Items) > 0
}

// isID says whether an expression is the id of a document.
func (r *rewriter) isID(e syntax.Expr) bool {
	from := r.q.From
	if from == nil || from.In {
		return false
	}
	_, whole := from.Collection.(*syntax.Ident)
	return whole && syntax.Text(e) == syntax.Text(&syntax.Member{Of: &syntax.Ident{Name: from.Name}, Name: "id"})
}

// demandsScalar says whether a filter, nil for none, is true only where an expression with this text is a scalar.
func demandsScalar(filter syntax.Expr, text string) bool {
	switch f := filter.(type) {
	case *syntax.Logic:
		return !f.Or && slices.ContainsFunc(f.List, func(e syntax.Expr) bool { return demandsScalar(e, text) })
	case *syntax.Call:
		is := f.Name == "IS_PRIMITIVE" || f.Name == "IS_STRING" || f.Name == "IS_NUMBER" || f.Name == "IS_BOOL"
		return is && !f.UDF && len(f.Args) == 1 && syntax.Text(f.Args[0]) == text
	}
	return false
}

// item is {"item": e}.
func item(e syntax.Expr) syntax.Expr {
	return &syntax.Object{Names: []string{"item"}, List: []syntax.Expr{e}}
}

// items is [{"item": e}, …].
func items(list []syntax.Expr) syntax.Expr {
	a := &syntax.Array{}
	for _, e := range list {
		a.List = append(a.List, item(e))
	}
	return a
}

// payload is the result of a row as one expression.
func (r *rewriter) payload() syntax.Expr {
	q := r.q
	switch {
	case q.Star && q.From != nil:
		return &syntax.Ident{Name: q.From.Name}
	case q.Value:
		return q.Items[0].Expr
	}
	o := &syntax.Object{Names: eval.ColumnNames(q)}
	for _, it := range q.Items {
		o.List = append(o.List, it.Expr)
	}
	return o
}

// ordered rewrites a query with an ORDER BY. Rows of one rank are told apart by the _rid of
// their document.
func (r *rewriter) ordered(out *syntax.Query) {
	q := r.q
	var orders []syntax.Expr
	for _, o := range q.OrderBy {
		direction := "Ascending"
		if o.Desc {
			direction = "Descending"
		}
		r.p.OrderBy = append(r.p.OrderBy, direction)
		r.p.OrderByExpressions = append(r.p.OrderByExpressions, syntax.Text(o.Expr))
		orders = append(orders, o.Expr)
	}
	out.Star, out.Value, out.Distinct, out.Items = false, false, false, nil
	if q.From != nil && !q.From.In && q.From.Query == nil {
		out.Items = append(out.Items, syntax.Item{Expr: &syntax.Member{Of: &syntax.Ident{Name: q.From.Name}, Name: "_rid"}})
	}
	out.Items = append(out.Items, syntax.Item{Expr: items(orders), As: "orderByItems"}, syntax.Item{Expr: r.payload(), As: "payload"})
	// The placeholder is no expression: it is put in as a name, and then replaced.
	name := "filter_"
	for text := out.String(); strings.Contains(text, name); {
		name += name // twice as long, so that few do until it is longer than the text
	}
	mark := &syntax.Ident{Name: name}
	if out.Where == nil {
		out.Where = mark
	} else {
		out.Where = &syntax.Logic{List: []syntax.Expr{out.Where, mark}}
	}
	r.p.RewrittenQuery = strings.Replace(out.String(), name, "("+FilterPlaceholder+")", 1)
}

// groups rewrites a query with aggregates or GROUP BY.
func (r *rewriter) groups(out *syntax.Query) error {
	q, p := r.q, r.p
	out.Items, out.Value = nil, false
	if len(q.GroupBy) > 0 {
		for _, e := range q.GroupBy {
			p.GroupByExpressions = append(p.GroupByExpressions, syntax.Text(e))
		}
		out.Items = append(out.Items, syntax.Item{Expr: items(q.GroupBy), As: "groupByItems"})
	}
	if q.Value {
		e, kind, err := r.partial(q.Items[0].Expr)
		if err != nil {
			return err
		}
		if kind != "" {
			p.Aggregates = append(p.Aggregates, kind)
			e = &syntax.Array{List: []syntax.Expr{e}}
		}
		if len(q.GroupBy) == 0 {
			out.Value = true
			out.Items = []syntax.Item{{Expr: e}}
			return nil
		}
		out.Items = append(out.Items, syntax.Item{Expr: e, As: "payload"})
		return nil
	}
	payload := &syntax.Object{}
	for i, name := range eval.ColumnNames(q) {
		e, kind, err := r.partial(q.Items[i].Expr)
		if err != nil {
			return err
		}
		payload.Names, payload.List = append(payload.Names, name), append(payload.List, e)
		p.GroupByAliases = append(p.GroupByAliases, name)
		p.GroupByAliasToAggregateType[name] = nil
		if kind != "" {
			p.GroupByAliasToAggregateType[name] = &kind
		}
	}
	out.Items = append(out.Items, syntax.Item{Expr: payload, As: "payload"})
	return nil
}

// partial returns what a partition gives of a column: of an aggregate something that can be
// merged, with its type, of a group as it is.
func (r *rewriter) partial(e syntax.Expr) (syntax.Expr, string, error) {
	c, ok := e.(*syntax.Call)
	if !ok || c.UDF || aggregateTypes[c.Name] == "" {
		if eval.Aggregated(e) {
			return nil, "", syntax.Errorf(r.text, e.Pos(), "an aggregate inside of another expression cannot be answered over several partitions: select it alone, and compute in the program")
		}
		return e, "", nil
	}
	kind := aggregateTypes[c.Name]
	call := func(name string, x syntax.Expr) syntax.Expr { return &syntax.Call{Name: name, Args: []syntax.Expr{x}} }
	pair := func(name string, of, counted syntax.Expr) syntax.Expr {
		return &syntax.Object{Names: []string{name, "count"}, List: []syntax.Expr{of, call("COUNT", counted)}}
	}
	switch x := c.Args[0]; c.Name {
	case "AVG":
		return item(pair("sum", call("SUM", x), x)), kind, nil
	case "MIN", "MAX":
		return &syntax.Object{Names: []string{"item", "item2"}, List: []syntax.Expr{c, pair(strings.ToLower(c.Name), c, withoutNaN(x))}}, kind, nil
	}
	return item(c), kind, nil
}

// withoutNaN returns an expression with the values of another, but undefined where that is NaN: arrays leave out NaN. What
// is in a document, or was made an object or array, has none.
func withoutNaN(e syntax.Expr) syntax.Expr {
	switch e.(type) {
	case *syntax.Ident, *syntax.Member, *syntax.Index:
		return e
	}
	return &syntax.Index{Of: &syntax.Array{List: []syntax.Expr{e}}, By: &syntax.Literal{V: value.Number(0)}}
}

// String describes the plan for people.
func (p *Plan) String() string {
	return fmt.Sprintf("merges %v, sends %q", p.Merges(), p.Info.RewrittenQuery)
}
