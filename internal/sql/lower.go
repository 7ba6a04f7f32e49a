package sql

import (
	"context"
	"strings"

	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/query"
	"github.com/cleavestore/cleave/internal/sql/eval"
	"github.com/cleavestore/cleave/internal/sql/syntax"
	"github.com/cleavestore/cleave/internal/sql/value"
)

// lowerer expresses parts of a query in the terms of internal/query.
type lowerer struct {
	text    string
	options Options
	root    string // the name of the document; "": it has none
	err     error  // why a condition could not be compiled
}

// split returns the part of a condition that is about the document alone, and what remains of it, nil for
// nothing. Without joins nothing does.
func (l *lowerer) split(e syntax.Expr, joins bool) (*query.Filter, syntax.Expr) {
	if e == nil {
		return &query.Filter{}, nil
	}
	if !joins {
		return l.filter(e), nil
	}
	list := []syntax.Expr{e}
	if and, ok := e.(*syntax.Logic); ok && !and.Or {
		list = and.List
	}
	f := &query.Filter{Op: query.And}
	var rest []syntax.Expr
	for _, x := range list {
		// Nobody is told the error: without a text no place in it is counted.
		if _, err := eval.CompileExpr("", l.single(x), l.root, l.options.Options); err != nil {
			rest = append(rest, x)
			continue
		}
		f.Sub = append(f.Sub, l.filter(x))
	}
	switch len(rest) {
	case 0:
		return f, nil
	case 1:
		return f, rest[0]
	}
	return f, &syntax.Logic{At: syntax.At(e.Pos()), List: rest}
}

// single returns a condition in which those on any element of an array, which exec alone
// knows, are true: the rest of it can be evaluated, or it says what is wrong.
func (l *lowerer) single(e syntax.Expr) syntax.Expr {
	switch e := e.(type) {
	case *syntax.Logic:
		out := &syntax.Logic{At: e.At, Or: e.Or}
		for _, x := range e.List {
			out.List = append(out.List, l.single(x))
		}
		return out
	case *syntax.Unary:
		if e.Op == "NOT" {
			return &syntax.Unary{At: e.At, Op: e.Op, X: l.single(e.X)}
		}
	}
	several := false
	syntax.Walk(e, func(x syntax.Expr) bool {
		_, each := x.(*syntax.Each)
		several = several || each
		return !several
	})
	if several && l.known(e) != nil {
		return &syntax.Literal{At: syntax.At(e.Pos()), V: value.Bool(true)}
	}
	return e
}

// path returns the path of a member of the document, nil for what is none.
func (l *lowerer) path(e syntax.Expr) query.Path {
	p, ok := l.appendPath(nil, e)
	if !ok || len(p) == 0 {
		return nil
	}
	return p
}

func (l *lowerer) appendPath(p query.Path, e syntax.Expr) (query.Path, bool) {
	var ok bool
	switch e := e.(type) {
	case *syntax.Ident:
		return p, e.Name == l.root
	case *syntax.Member:
		p, ok = l.appendPath(p, e.Of)
		return append(p, jsondoc.Step{Name: e.Name}), ok
	case *syntax.Each:
		p, ok = l.appendPath(p, e.Of)
		return append(p, jsondoc.Step{Element: true}), ok
	}
	return p, false
}

// scalar returns a constant with which internal/query can compare.
func (l *lowerer) scalar(e syntax.Expr) (v query.Value, ok bool) {
	var c value.Value
	if lit, literal := e.(*syntax.Literal); literal {
		c = lit.V
	} else if c, ok = eval.Constant(e, l.options.Options); !ok {
		return v, false
	}
	if !c.Defined() {
		return v, false
	}
	switch c.Kind() {
	case jsondoc.KindNull:
		v.Kind = jsondoc.KindNull
	case jsondoc.KindBool:
		v.Kind = jsondoc.KindBool
		v.Bool, _ = c.Bool()
	case jsondoc.KindNumber:
		v.Kind = jsondoc.KindNumber
		v.Number, _ = c.Number()
	case jsondoc.KindString:
		v.Kind = jsondoc.KindString
		v.Text, _ = c.Text()
	default:
		return v, false
	}
	return v, len(v.Text) <= query.MaxConstants
}

// filter returns a condition on the document as a filter that is true, false and undefined
// for the same documents.
func (l *lowerer) filter(e syntax.Expr) *query.Filter {
	if f := l.known(e); f != nil {
		return f
	}
	compiled, err := eval.CompileExpr(l.text, e, l.root, l.options.Options)
	if err != nil {
		l.err = err
		return &query.Filter{Op: query.Or}
	}
	return &query.Filter{Op: query.Computed, Cond: &condition{compiled, syntax.Text(e), l.options}}
}

// known is filter for conditions that internal/query has, nil for others.
func (l *lowerer) known(e syntax.Expr) *query.Filter {
	switch e := e.(type) {
	case *syntax.Literal:
		if b, ok := e.V.Bool(); ok && b {
			return &query.Filter{}
		} else if ok {
			return &query.Filter{Op: query.Or}
		}
	case *syntax.Logic:
		f := &query.Filter{Op: query.And}
		if e.Or {
			f.Op = query.Or
		}
		for _, x := range e.List {
			f.Sub = append(f.Sub, l.filter(x))
		}
		return f
	case *syntax.Unary:
		if e.Op == "NOT" {
			return not(l.filter(e.X), true)
		}
	case *syntax.Binary:
		if path := l.path(e.L); path != nil {
			return l.comparison(path, e.Op, e.R)
		}
		if path := l.path(e.R); path != nil {
			return l.comparison(path, mirrored[e.Op], e.L)
		}
	case *syntax.Between:
		path := l.path(e.X)
		lo, okLo := l.scalar(e.Lo)
		hi, okHi := l.scalar(e.Hi)
		if path != nil && okLo && okHi && lo.Kind == hi.Kind {
			return not(&query.Filter{Op: query.Range, Path: path, Lo: query.Limit{Value: lo, Inclusive: true}, Hi: query.Limit{Value: hi, Inclusive: true}}, e.Not)
		}
	case *syntax.In:
		path := l.path(e.X)
		if path == nil {
			return nil
		}
		f := &query.Filter{Op: query.In, Path: path}
		for _, x := range e.List {
			v, ok := l.scalar(x)
			if !ok {
				return nil
			}
			f.Values = append(f.Values, v)
		}
		return not(f, e.Not)
	case *syntax.Like:
		return l.like(e)
	case *syntax.Call:
		return l.call(e)
	case *syntax.Member, *syntax.Each:
		if path := l.path(e); path != nil {
			return &query.Filter{Op: query.Eq, Path: path, Value: query.Value{Kind: jsondoc.KindBool, Bool: true}}
		}
	}
	return nil
}

func not(f *query.Filter, not bool) *query.Filter {
	if !not {
		return f
	}
	return &query.Filter{Op: query.Not, Sub: []*query.Filter{f}}
}

var mirrored = map[string]string{"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

// comparison is path op constant, nil for what internal/query does not have.
func (l *lowerer) comparison(path query.Path, op string, e syntax.Expr) *query.Filter {
	v, ok := l.scalar(e)
	if !ok {
		return nil
	}
	f := &query.Filter{Op: query.Range, Path: path}
	switch op {
	case "=":
		f.Op, f.Value = query.Eq, v
	case "!=":
		f.Op, f.Value = query.Ne, v
	case "<", "<=":
		f.Hi = query.Limit{Value: v, Inclusive: op == "<="}
	case ">", ">=":
		f.Lo = query.Limit{Value: v, Inclusive: op == ">="}
	default:
		return nil
	}
	return f
}

// like returns LIKE on a path. If the pattern is more than a prefix or a part of the text,
// its beginning is a condition that an index answers.
func (l *lowerer) like(e *syntax.Like) *query.Filter {
	path := l.path(e.X)
	pattern, ok := l.scalar(e.Pattern)
	if path == nil || !ok || pattern.Kind != jsondoc.KindString || e.Escape != nil {
		return nil
	}
	leaf := func(op query.Op, text string) *query.Filter {
		return &query.Filter{Op: op, Path: path, Value: query.Value{Kind: jsondoc.KindString, Text: text}}
	}
	text := pattern.Text
	at := strings.IndexAny(text, "%_[")
	part, isPart := strings.CutPrefix(text, "%")
	if isPart {
		part, isPart = strings.CutSuffix(part, "%")
	}
	switch {
	case at < 0 && text != "":
		// Eq is undefined for other types, as LIKE is.
		return not(leaf(query.Eq, text), e.Not)
	case at > 0 && at == len(text)-1 && text[at] == '%':
		return not(leaf(query.Prefix, text[:at]), e.Not)
	case isPart && part != "" && !strings.ContainsAny(part, "%_["):
		return not(leaf(query.Contains, part), e.Not)
	case at > 0 && !e.Not:
		computed := &syntax.Like{At: e.At, X: e.X, Pattern: e.Pattern}
		compiled, err := eval.CompileExpr(l.text, computed, l.root, l.options.Options)
		if err != nil {
			return nil
		}
		exact := &query.Filter{Op: query.Computed, Cond: &condition{compiled, syntax.Text(e), l.options}}
		return &query.Filter{Op: query.And, Sub: []*query.Filter{leaf(query.Prefix, text[:at]), exact}}
	}
	return nil
}

// kinds are the functions that test the type of a value.
var kinds = map[string]uint8{
	"IS_NULL": 1 << jsondoc.KindNull, "IS_BOOL": 1 << jsondoc.KindBool, "IS_NUMBER": 1 << jsondoc.KindNumber, "IS_STRING": 1 << jsondoc.KindString,
	"IS_ARRAY": 1 << jsondoc.KindArray, "IS_OBJECT": 1 << jsondoc.KindObject,
	"IS_PRIMITIVE": 1<<jsondoc.KindNull | 1<<jsondoc.KindBool | 1<<jsondoc.KindNumber | 1<<jsondoc.KindString,
}

func (l *lowerer) call(e *syntax.Call) *query.Filter {
	if e.UDF || len(e.Args) == 0 {
		return nil
	}
	path := l.path(e.Args[0])
	if path == nil {
		return nil
	}
	if set, ok := kinds[e.Name]; ok && len(e.Args) == 1 {
		return &query.Filter{Op: query.IsKind, Path: path, Kinds: set}
	}
	f := &query.Filter{Path: path}
	text := true
	switch e.Name {
	case "IS_DEFINED":
		if len(e.Args) != 1 {
			return nil
		}
		f.Op = query.Exists
		return f
	case "STARTSWITH":
		f.Op = query.Prefix
	case "CONTAINS":
		f.Op = query.Contains
	case "STRINGEQUALS":
		f.Op = query.Eq
	case "ARRAY_CONTAINS":
		f.Op, text = query.ArrayContains, false
	default:
		return nil
	}
	if len(e.Args) != 2 {
		return nil
	}
	var ok bool
	if f.Value, ok = l.scalar(e.Args[1]); !ok || text && f.Value.Kind != jsondoc.KindString {
		return nil
	}
	return f
}

// orders returns orders by paths; false if one is something else.
func (l *lowerer) orders(list []syntax.Order) (out []query.Order, ok bool) {
	for _, o := range list {
		path := l.path(o.Expr)
		if path == nil {
			return nil, false
		}
		out = append(out, query.Order{Path: path, Falling: o.Desc})
	}
	return out, true
}

// element returns the path of the elements by which alone a query orders its rows: those of a JOIN of an
// array of the document. nil: it has another order.
func (l *lowerer) element(q *syntax.Query) query.Path {
	if l.root == "" || len(q.OrderBy) != 1 {
		return nil
	}
	id, ok := q.OrderBy[0].Expr.(*syntax.Ident)
	if !ok {
		return nil
	}
	for _, join := range q.Joins {
		if join.Name == id.Name {
			if array := l.array(join); array != nil {
				return append(array, jsondoc.Step{Element: true})
			}
		}
	}
	return nil
}

// array returns the path of the array of the document whose elements a JOIN gives, nil for another JOIN.
func (l *lowerer) array(join *syntax.Source) query.Path {
	if !join.In || join.Collection == nil {
		return nil
	}
	if path := l.path(join.Collection); !path.Many() {
		return path
	}
	return nil
}

// joinedArray returns the path of an array of the document, without which the JOINs of a query give no row.
func (l *lowerer) joinedArray(q *syntax.Query) (path query.Path) {
	for _, join := range q.Joins {
		if path == nil && l.root != "" {
			path = l.array(join)
		}
	}
	return path
}

var aggregates = map[string]query.Func{"COUNT": query.Count, "SUM": query.Sum, "AVG": query.Avg, "MIN": query.Min, "MAX": query.Max}

// all puts the columns, groups and orders of a query into a Select; false if that does not
// have them all, and the Select then is as it was.
func (l *lowerer) all(q *syntax.Query, to *query.Select) bool {
	s := &query.Select{Where: to.Where, Value: q.Value, Distinct: q.Distinct}
	names := eval.ColumnNames(q)
	for i, item := range q.Items {
		var c query.Column
		if names != nil {
			c.Name = names[i]
		}
		if id, ok := item.Expr.(*syntax.Ident); ok && q.Value && id.Name == l.root && !q.Distinct {
			s.Value = false
			continue
		}
		e := item.Expr
		if call, ok := e.(*syntax.Call); ok && !call.UDF && len(call.Args) == 1 {
			if c.Func, ok = aggregates[call.Name]; !ok {
				return false
			}
			e = call.Args[0]
			if lit, ok := e.(*syntax.Literal); ok && c.Func == query.Count && lit.V.Defined() {
				s.Columns = append(s.Columns, c)
				continue
			}
		}
		if c.Path = l.path(e); c.Path == nil {
			return false
		}
		s.Columns = append(s.Columns, c)
	}
	for _, e := range q.GroupBy {
		path := l.path(e)
		if path == nil {
			return false
		}
		s.GroupBy = append(s.GroupBy, path)
	}
	var ok bool
	if s.OrderBy, ok = l.orders(q.OrderBy); !ok || s.Check() != nil {
		return false
	}
	*to = *s
	return true
}

// condition is a condition that is computed of a document.
type condition struct {
	expr    *eval.Expr
	text    string
	options Options
}

// String implements query.Condition.
func (c *condition) String() string { return "(" + c.text + ")" }

// Tester implements query.Condition.
func (c *condition) Tester() query.Tester {
	f := c.expr.NewFrame(c.options.now(), c.options.Clock)
	return func(ctx context.Context, doc []byte, seq uint64) (is, defined bool, err error) {
		f.SetContext(ctx)
		f.SetSeq(seq)
		v, err := c.expr.Value(f, value.Parse(doc))
		if err != nil {
			return false, false, err
		}
		is, defined = v.Bool()
		return is, defined, nil
	}
}
