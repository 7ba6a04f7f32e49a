package gateway

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/sql/syntax"
)

// Clients carry out queries over several physical partitions themselves, by a plan: they
// send the rewritten query to each partition and put the results together.
//
//	ORDER BY    SELECT c._rid, [{"item": c.x}] AS orderByItems, … AS payload
//	aggregate   SELECT VALUE [{"item": COUNT(1)}]
//	GROUP BY    SELECT [{"item": c.g}] AS groupByItems, {"n": {"item": COUNT(1)}} AS payload
//
// An average is asked for as its sum and count, a minimum or maximum with a count beside it.

// orderFilter stands in a rewritten query for the filter by which a client goes on behind
// the last result that it has had. The client replaces it.
const orderFilter = "{documentdb-formattableorderbyquery-filter}"

type queryPlan struct {
	Version int         `json:"partitionedQueryExecutionInfoVersion"`
	Info    planInfo    `json:"queryInfo"`
	Ranges  []planRange `json:"queryRanges"`
}

type planInfo struct {
	Distinct     string             `json:"distinctType"`
	Top          *int               `json:"top"`
	Offset       *int               `json:"offset"`
	Limit        *int               `json:"limit"`
	OrderBy      []string           `json:"orderBy"`
	OrderByText  []string           `json:"orderByExpressions"`
	GroupBy      []string           `json:"groupByExpressions"`
	GroupAliases []string           `json:"groupByAliases"`
	Aggregates   []string           `json:"aggregates"`
	AliasTypes   map[string]*string `json:"groupByAliasToAggregateType"`
	Rewritten    string             `json:"rewrittenQuery"`
	Value        bool               `json:"hasSelectValue"`
	NonStreaming bool               `json:"hasNonStreamingOrderBy"`
	DCount       any                `json:"dCountInfo"`
}

type planRange struct {
	Min    string `json:"min"`
	Max    string `json:"max"`
	HasMin bool   `json:"isMinInclusive"`
	HasMax bool   `json:"isMaxInclusive"`
}

// queryPlan answers a request for the plan of a query.
func (c *call) queryPlan(k *container) error {
	text, parameters, err := c.readQuery()
	if err != nil {
		return err
	}
	s, err := parseStatement(text, parameters)
	if err != nil {
		return err
	}
	plan, err := c.planOf(k, s)
	if err != nil {
		return k.outcome(err)
	}
	c.charge = metaCharge
	return c.answerJSON(http.StatusOK, plan)
}

var errNoPlan = errors.New("the query has a path through all elements of an array, which no plan can have")

// planOf returns the plan of a query.
func (c *call) planOf(k *container, s *statement) (*queryPlan, error) {
	if s.tree == nil {
		return nil, badf("%v", errNoPlan)
	}
	p := &queryPlan{Version: 2, Info: planInfo{
		Distinct: "None", OrderBy: []string{}, OrderByText: []string{}, GroupBy: []string{}, GroupAliases: []string{},
		Aggregates: []string{}, AliasTypes: map[string]*string{}, Value: s.tree.Value,
	}}
	if err := p.Info.rewrite(s); err != nil {
		return nil, err
	}
	// The client asks the physical partitions in which the filter can be true.
	explained, err := k.items.Explain(c.ctx, engine.AllPartitions(), s.q)
	if err != nil {
		return nil, err
	}
	parts, _ := k.ranges(c.o.Clock(), false)
	for i := range parts {
		if slices.ContainsFunc(explained.Partitions, func(p engine.QueryPartitionPlan) bool { return p.ID == parts[i].ID }) {
			p.Ranges = append(p.Ranges, planRange{Min: parts[i].Min, Max: parts[i].Max, HasMin: true})
		}
	}
	if n := len(p.Ranges); n == 0 || n == len(parts) {
		p.Ranges = []planRange{{Min: "", Max: "FF", HasMin: true}}
	}
	return p, nil
}

// rewrite fills in what the client does with the results, and the query that it sends.
func (p *planInfo) rewrite(s *statement) error {
	t := *s.tree
	p.limits(&t)
	for _, o := range t.OrderBy {
		way := "Ascending"
		if o.Desc {
			way = "Descending"
		}
		p.OrderBy, p.OrderByText = append(p.OrderBy, way), append(p.OrderByText, syntax.Text(o.Expr))
	}
	for _, e := range t.GroupBy {
		p.GroupBy = append(p.GroupBy, syntax.Text(e))
	}
	if t.Distinct {
		if p.Distinct = "Unordered"; len(t.OrderBy) > 0 {
			p.Distinct = "Ordered"
		}
	}
	switch {
	case s.grouped() && len(t.OrderBy) > 0:
		return badf("a query with GROUP BY or aggregates and ORDER BY is not possible over several logical partitions")
	case s.grouped():
		if err := p.group(s, &t); err != nil {
			return err
		}
	case len(t.OrderBy) > 0:
		if t.From == nil {
			return badf("ORDER BY without FROM")
		}
		p.order(s, &t)
	}
	p.Rewritten = t.String()
	if len(t.OrderBy) > 0 {
		p.Rewritten = withPlaceholder(&t)
	}
	return nil
}

// limits takes over TOP, OFFSET and LIMIT, which the client counts. A partition is asked
// for as many results as can be wanted of it.
func (p *planInfo) limits(t *syntax.Query) {
	number := func(n int) *int { return &n }
	if t.Top != nil {
		p.Top = number(t.Top.N)
	}
	if t.Limit != nil {
		p.Limit, p.Offset = number(t.Limit.N), number(0)
		most := t.Limit.N
		if t.Offset != nil {
			p.Offset = number(t.Offset.N)
			most += t.Offset.N
			t.Offset = &syntax.Count{}
		}
		t.Limit = &syntax.Count{N: most}
	}
}

func literalObject(names []string, list ...syntax.Expr) syntax.Expr {
	return &syntax.Object{Names: names, List: list}
}

// items returns [{"item": e}, …].
func items(list []syntax.Expr) syntax.Expr {
	a := &syntax.Array{}
	for _, e := range list {
		a.List = append(a.List, literalObject([]string{"item"}, e))
	}
	return a
}

// payload returns the result of a query as one expression.
func payload(s *statement) syntax.Expr {
	switch t := s.tree; {
	case t.Star:
		return &syntax.Ident{Name: t.From.Name}
	case t.Value:
		return t.Items[0].Expr
	}
	o := &syntax.Object{Names: s.names()}
	for _, item := range s.tree.Items {
		o.List = append(o.List, item.Expr)
	}
	return o
}

func (p *planInfo) order(s *statement, t *syntax.Query) {
	var by []syntax.Expr
	for _, o := range t.OrderBy {
		by = append(by, o.Expr)
	}
	t.Items = []syntax.Item{
		{Expr: &syntax.Member{Of: &syntax.Ident{Name: t.From.Name}, Name: memberRID}},
		{Expr: items(by), As: "orderByItems"},
		{Expr: payload(s), As: "payload"},
	}
	t.Star, t.Value, t.Distinct = false, false, false
}

// withPlaceholder returns the text of a query with the placeholder added to its filter.
func withPlaceholder(t *syntax.Query) string {
	// A parameter has a name that no text has, and is then replaced.
	const name = "cleavePlaceholder"
	where := syntax.Expr(&syntax.Param{Name: name})
	if t.Where != nil {
		where = &syntax.Logic{List: []syntax.Expr{t.Where, where}}
	}
	marked := *t
	marked.Where = where
	return replaceLast(marked.String(), "@"+name, orderFilter)
}

// replaceLast replaces the last occurrence of a text, before which no other can matter.
func replaceLast(s, old, with string) string {
	for i := len(s) - len(old); i >= 0; i-- {
		if s[i:i+len(old)] == old {
			return s[:i] + with + s[i+len(old):]
		}
	}
	return s
}

// aggregateItem returns the expression by which a partition gives its part of an aggregate,
// and the type of the aggregate.
func aggregateItem(e syntax.Expr) (syntax.Expr, string, error) {
	f, ok := e.(*syntax.Call)
	if !ok || f.UDF || aggregateTypes[f.Name] == "" {
		return nil, "", badf("over several logical partitions an aggregate must stand alone: %s", clip(syntax.Text(e)))
	}
	kind := aggregateTypes[f.Name]
	part, count := *f, *f
	count.Name = "COUNT"
	switch f.Name {
	case "AVG":
		part.Name = "SUM"
		return literalObject([]string{"item"}, literalObject([]string{"sum", "count"}, &part, &count)), kind, nil
	case "MIN", "MAX":
		// A partition without a value has a count of 0 and says nothing else.
		return literalObject([]string{"item", "item2"}, f, literalObject([]string{lower(f.Name), "count"}, &part, &count)), kind, nil
	}
	return literalObject([]string{"item"}, f), kind, nil
}

// group rewrites a query with GROUP BY or aggregates.
func (p *planInfo) group(s *statement, t *syntax.Query) error {
	if t.Distinct {
		return badf("a query with DISTINCT and GROUP BY or aggregates is not possible over several logical partitions")
	}
	if t.Star {
		return badf("SELECT * is not possible with GROUP BY")
	}
	t.Top, t.Offset, t.Limit = nil, nil, nil
	if t.Value {
		e := t.Items[0].Expr
		if hasAggregate(e) {
			item, kind, err := aggregateItem(e)
			if err != nil {
				return err
			}
			p.Aggregates = []string{kind}
			e = &syntax.Array{List: []syntax.Expr{item}}
		}
		if len(t.GroupBy) == 0 {
			t.Items = []syntax.Item{{Expr: e}}
			return nil
		}
		t.Value = false
		t.Items = []syntax.Item{{Expr: items(t.GroupBy), As: "groupByItems"}, {Expr: e, As: "payload"}}
		return nil
	}
	names := s.names()
	out := &syntax.Object{Names: names}
	for i, item := range t.Items {
		if !hasAggregate(item.Expr) {
			p.AliasTypes[names[i]] = nil
			out.List = append(out.List, item.Expr)
			continue
		}
		e, kind, err := aggregateItem(item.Expr)
		if err != nil {
			return err
		}
		p.AliasTypes[names[i]] = &kind
		out.List = append(out.List, e)
	}
	p.GroupAliases = names
	t.Items = nil
	if len(t.GroupBy) > 0 {
		t.Items = append(t.Items, syntax.Item{Expr: items(t.GroupBy), As: "groupByItems"})
	}
	t.Items = append(t.Items, syntax.Item{Expr: out, As: "payload"})
	return nil
}

// planText returns a plan in JSON, "" if there is none.
func (c *call) planText(k *container, s *statement) string {
	plan, err := c.planOf(k, s)
	if err != nil {
		return ""
	}
	text, err := json.Marshal(plan)
	if err != nil {
		return ""
	}
	return string(text)
}
