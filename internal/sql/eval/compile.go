package eval

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/sql/function"
	"github.com/cleavestore/cleave/internal/sql/syntax"
	"github.com/cleavestore/cleave/internal/sql/value"
)

// UDF is a function of users. It changes none of its arguments.
type UDF func(args []value.Value) (value.Value, error)

// Options say what queries may refer to.
type Options struct {
	// UDF returns the function of users that has a name; nil: there are none.
	UDF func(name string) (UDF, bool)
	// Folded counts the bytes that several compilations look at to compute constants: together they
	// have one bound. nil: a compilation has a bound for itself.
	Folded *int64
}

// Query is a compiled query.
type Query struct {
	plan *plan
	size frameSize
}

// Compile compiles a query without parameters. text is that of the query, for errors, which
// are *syntax.Errors.
func Compile(text string, q *syntax.Query, o Options) (*Query, error) {
	c := newCompiler(text, o)
	p := c.query(q, nil)
	if c.err != nil {
		return nil, c.err
	}
	return &Query{p, c.size}, nil
}

// Expr is a compiled expression on documents.
type Expr struct {
	node node
	size frameSize
}

// CompileExpr compiles an expression in which a name stands for the document. Other names may
// not occur in it.
func CompileExpr(text string, e syntax.Expr, name string, o Options) (*Expr, error) {
	c := newCompiler(text, o)
	n, _ := c.expr(e, &scope{names: map[string]int{name: 0}})
	if c.err != nil {
		return nil, c.err
	}
	return &Expr{n, c.size}, nil
}

// Constant returns the value of an expression that is the same for all documents.
func Constant(e syntax.Expr, o Options) (value.Value, bool) {
	c := newCompiler("", Options{Folded: o.Folded})
	n, needs := c.expr(e, nil)
	if c.err != nil || needs != nothing {
		return value.Value{}, false
	}
	return c.fold(n)
}

// node gives the value of an expression.
type node func(f *Frame) value.Value

// scope has the names that expressions may use.
type scope struct {
	outer *scope
	names map[string]int // slots of frames
	order []string       // the names as they came
	last  int            // the slot that is set last before an expression is computed: that of the innermost source
	group *grouping      // not nil: what stands in it is about a group
}

// grouping are the groups of a query.
type grouping struct {
	slots map[string]int // of the values of GROUP BY, by the texts of its expressions
	plan  *groupPlan
	texts map[syntax.Expr]string // of the expression that is compiled, and those below
}

// slot returns the slot of an expression that is one of GROUP BY. An expression that is asked for before
// those below it is printed once with them.
func (g *grouping) slot(e syntax.Expr) (slot int, ok bool) {
	if len(g.slots) == 0 {
		return 0, false
	}
	if _, known := g.texts[e]; !known {
		g.texts = syntax.Texts(e)
	}
	slot, ok = g.slots[g.texts[e]]
	return slot, ok
}

// groupPlan says how rows are grouped.
type groupPlan struct {
	keys []node
	into []int // slots of their values
	aggs []aggregate
}

// plan is a query, made ready.
type plan struct {
	sources  []source
	where    node // nil: all rows
	group    *groupPlan
	order    []order
	distinct bool
	result   node
	skip     int
	most     int // -1: all
}

type order struct {
	node node
	desc bool
}

type source struct {
	slot int
	in   bool
	node node  // of what is bound, or with in of an array
	sub  *plan // instead of node
}

type compiler struct {
	text    string
	options Options
	size    frameSize
	err     error // the first
}

func newCompiler(text string, o Options) *compiler {
	if o.Folded == nil {
		o.Folded = new(int64)
	}
	return &compiler{text: text, options: o, size: frameSize{slots: 1}}
}

func (c *compiler) fail(at int, format string, args ...any) {
	if c.err == nil {
		c.err = syntax.Errorf(c.text, at, format, args...)
	}
}

func (c *compiler) slot() int {
	c.size.slots++
	return c.size.slots - 1
}

// undefined is the node of what could not be compiled.
func undefined(*Frame) value.Value { return value.Value{} }

// query compiles a query inside of a scope; outer nil: the whole query, whose first source
// stands for the document, in slot 0.
func (c *compiler) query(q *syntax.Query, outer *scope) *plan {
	p := &plan{distinct: q.Distinct, most: -1}
	s := &scope{outer: outer, names: make(map[string]int)}
	if outer != nil {
		s.last = outer.last
	}
	for _, n := range []*syntax.Count{q.Top, q.Offset, q.Limit} {
		if n != nil && n.Param != "" {
			c.fail(n.At, "parameter @%s is not given", jsondoc.Clip(n.Param))
		}
	}
	q.EachSource(func(src *syntax.Source) { p.sources = c.source(p.sources, src, s, src == q.From && outer == nil) })
	if q.Where != nil {
		p.where, _ = c.expr(q.Where, s)
	}
	if len(q.GroupBy) > 0 || aggregates(q) {
		g := &grouping{slots: make(map[string]int), plan: &groupPlan{}}
		for _, e := range q.GroupBy {
			n, _ := c.expr(e, s)
			slot := c.slot()
			g.slots[syntax.Text(e)] = slot
			g.plan.keys, g.plan.into = append(g.plan.keys, n), append(g.plan.into, slot)
		}
		p.group, s.group = g.plan, g
	}
	items := make(map[string]bool) // texts of what SELECT DISTINCT lists
	if q.Distinct && len(q.OrderBy) > 0 {
		for _, item := range q.Items {
			items[syntax.Text(item.Expr)] = true
		}
	}
	for _, o := range q.OrderBy {
		if p.group != nil && len(q.GroupBy) == 0 && !Aggregated(o.Expr) {
			// The only result needs no order; the names are checked.
			rows := *s
			rows.group = nil
			c.expr(o.Expr, &rows)
			continue
		}
		if q.Distinct && !listed(q, items, syntax.Texts(o.Expr), o.Expr) {
			c.fail(o.Expr.Pos(), "with DISTINCT, expected an ORDER BY of what SELECT lists")
		}
		n, _ := c.expr(o.Expr, s)
		p.order = append(p.order, order{n, o.Desc})
	}
	c.result(p, q, s)
	if q.Top != nil {
		p.most = q.Top.N
	}
	if q.Offset != nil {
		p.skip = q.Offset.N
	}
	if q.Limit != nil {
		p.most = q.Limit.N
	}
	return p
}

// listed says whether an expression is made of what SELECT lists, whose texts are items. Otherwise
// results that are the same could have several orders. texts are those of the expression and below.
func listed(q *syntax.Query, items map[string]bool, texts map[syntax.Expr]string, e syntax.Expr) bool {
	if q.Star {
		base, ok := syntax.Base(e)
		return ok && q.From != nil && base == q.From.Name
	}
	if items[texts[e]] {
		return true
	}
	switch e := e.(type) {
	case *syntax.Ident, *syntax.Sub:
		return false
	case *syntax.Call:
		if fn, known := function.Find(e.Name); e.UDF || known && !fn.Pure {
			return false // two results that are the same may have two values
		}
	}
	all := true
	syntax.Children(e, func(x syntax.Expr) { all = all && listed(q, items, texts, x) })
	return all
}

// source compiles a source and adds its name to the scope.
func (c *compiler) source(list []source, src *syntax.Source, s *scope, root bool) []source {
	if _, taken := s.names[src.Name]; taken {
		c.fail(src.At, "two sources are named %s", jsondoc.Clip(src.Name))
	}
	out := source{in: src.In}
	whole := false
	switch {
	case src.Query != nil && root:
		if q := src.Query; q.Distinct || q.Top != nil || q.Offset != nil || q.Limit != nil || len(q.GroupBy)+len(q.OrderBy) > 0 || aggregates(q) {
			c.fail(q.At, "a subquery of all documents has no DISTINCT, TOP, GROUP BY, ORDER BY, OFFSET, LIMIT or aggregates: these belong to the outer query")
		}
		out.sub = c.query(src.Query, nil)
	case src.Query != nil:
		out.sub = c.query(src.Query, s)
	case root:
		// The first name is that of the container, whatever it is.
		name, _ := syntax.Base(src.Collection)
		_, whole = src.Collection.(*syntax.Ident)
		whole = whole && !src.In
		out.node, _ = c.expr(src.Collection, &scope{names: map[string]int{name: 0}})
	default:
		out.node, _ = c.expr(src.Collection, s)
	}
	if whole {
		s.names[src.Name] = 0
		s.order = append(s.order, src.Name)
		return list
	}
	out.slot = c.slot()
	s.last = out.slot
	if src.Query == nil || src.Named {
		s.names[src.Name] = out.slot
		s.order = append(s.order, src.Name)
	}
	return append(list, out)
}

// result compiles what SELECT says.
func (c *compiler) result(p *plan, q *syntax.Query, s *scope) {
	p.result = undefined
	if q.Star {
		switch {
		case p.group != nil:
			c.fail(q.At, "SELECT * has no meaning with GROUP BY: name the columns")
		case len(s.order) != 1:
			c.fail(q.At, "SELECT * needs exactly one source, which has a name: name the columns")
		default:
			slot := s.names[s.order[0]]
			p.result = func(f *Frame) value.Value { return f.read(slot) }
		}
		return
	}
	nodes := make([]node, len(q.Items))
	for i, item := range q.Items {
		nodes[i], _ = c.expr(item.Expr, s)
	}
	if q.Value {
		p.result = nodes[0]
		return
	}
	names := ColumnNames(q)
	seen := make(map[string]struct{}, len(names))
	for i, name := range names {
		if _, taken := seen[name]; taken {
			c.fail(q.Items[i].Expr.Pos(), "two columns are named %s: name one of them with AS", jsondoc.Clip(name))
		}
		seen[name] = struct{}{}
	}
	p.result = func(f *Frame) value.Value {
		list, _ := evaluated(f, nodes)
		if list == nil {
			return value.Value{}
		}
		return value.Object(slices.Clone(names), list)
	}
}

// ColumnNames returns the names of the columns of a query; nil for SELECT * and SELECT VALUE.
// A column without a name is named after the last name of its path, and any other by a number.
func ColumnNames(q *syntax.Query) []string {
	if q.Star || q.Value {
		return nil
	}
	names := make([]string, len(q.Items))
	unnamed := 0
	for i, item := range q.Items {
		switch e := item.Expr.(type) {
		case *syntax.Member:
			names[i] = e.Name
		case *syntax.Ident:
			names[i] = e.Name
		}
		if item.As != "" {
			names[i] = item.As
		}
		if names[i] == "" {
			unnamed++
			names[i] = fmt.Sprintf("$%d", unnamed)
		}
	}
	return names
}

// Aggregated says whether an expression has an aggregate that belongs to the query it
// stands in.
func Aggregated(e syntax.Expr) bool {
	found := false
	syntax.Walk(e, func(e syntax.Expr) bool {
		switch e := e.(type) {
		case *syntax.Call:
			if _, ok := aggregateFuncs[e.Name]; ok && !e.UDF {
				found = true
			}
		case *syntax.Sub:
			return false
		}
		return !found
	})
	return found
}

// aggregates says whether a query has aggregates of its own.
func aggregates(q *syntax.Query) bool {
	for _, item := range q.Items {
		if Aggregated(item.Expr) {
			return true
		}
	}
	for _, o := range q.OrderBy {
		if Aggregated(o.Expr) {
			return true
		}
	}
	return false
}

// lookup finds a name. grouped says that it is one of a query whose rows are grouped.
func (s *scope) lookup(name string) (slot int, grouped, ok bool) {
	for ; s != nil; s = s.outer {
		if slot, ok := s.names[name]; ok {
			return slot, s.group != nil, true
		}
	}
	return 0, false, false
}

func (s *scope) known() string {
	var list []string
	for ; s != nil; s = s.outer {
		for _, name := range s.order {
			list = append(list, jsondoc.Clip(name))
		}
	}
	if len(list) == 0 {
		return "there is no FROM that names a source"
	}
	return "expected " + strings.Join(list, ", ")
}

// Bounds of what is computed once: the size of a constant, and the bytes that the computation of
// all constants looks at.
const (
	maxFolded  = 1 << 20
	maxFolding = 256 << 20
)

// mayFold says whether more constants may be computed.
func (c *compiler) mayFold() bool { return *c.options.Folded <= maxFolding }

// folding is the context of the computation of a constant. It ends when that looks at more than it may.
type folding struct {
	context.Context
	env  *function.Env
	most int64
}

var errFolding = errors.New("a constant takes too long to compute")

// Err implements context.Context.
func (c *folding) Err() error {
	if c.env.Looked() > c.most {
		return errFolding
	}
	return nil
}

// fold computes a constant; ok is false if it cannot, or if constants have taken too much already, or do so now.
func (c *compiler) fold(n node) (v value.Value, ok bool) {
	if !c.mayFold() {
		return v, false
	}
	f := &Frame{}
	f.SetContext(&folding{context.Background(), &f.env, maxFolding - *c.options.Folded})
	v = n(f)
	*c.options.Folded += f.env.Looked() + v.Size() // what it is a part of looks at it
	return v, f.Err() == nil
}
