package eval

import (
	"fmt"
	"slices"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/sql/function"
	"github.com/cleavestore/cleave/internal/sql/syntax"
	"github.com/cleavestore/cleave/internal/sql/value"
)

// expr compiles an expression. What is the same in several rows is computed once for them.
func (c *compiler) expr(e syntax.Expr, s *scope) (node, need) {
	n, needs := c.anew(e, s)
	return c.remembered(n, needs, s), needs
}

// anew compiles an expression that is computed for each row, unless it is a constant.
func (c *compiler) anew(e syntax.Expr, s *scope) (node, need) {
	if s != nil && s.group != nil {
		if slot, ok := s.group.slot(e); ok {
			return variable(slot)
		}
	}
	if base, ok := syntax.Base(e); ok && s != nil {
		if _, grouped, known := s.lookup(base); known && grouped {
			c.fail(e.Pos(), "%s is neither in an aggregate nor one of GROUP BY", jsondoc.Clip(syntax.Text(e)))
		}
	}
	n, needs := c.compile(e, s)
	if _, literal := e.(*syntax.Literal); needs != nothing || literal || c.err != nil {
		return n, needs
	}
	v, ok := c.fold(n)
	if !ok || v.Size() > maxFolded {
		return n, nothing // each evaluation tells the error
	}
	return func(*Frame) value.Value { return v }, nothing
}

// variable compiles the reading of a slot.
func variable(slot int) (node, need) {
	return func(f *Frame) value.Value { return f.read(slot) }, need(slot)
}

// exprs compiles several expressions.
func (c *compiler) exprs(list []syntax.Expr, s *scope) (nodes []node, needs need) {
	nodes = make([]node, len(list))
	needs = nothing
	for i, e := range list {
		var one need
		nodes[i], one = c.expr(e, s)
		needs = max(needs, one)
	}
	return nodes, needs
}

func (c *compiler) compile(e syntax.Expr, s *scope) (node, need) {
	switch e := e.(type) {
	case *syntax.Literal:
		v := e.V
		*c.options.Folded += v.Size()
		return func(*Frame) value.Value { return v }, nothing
	case *syntax.Param:
		c.fail(e.Pos(), "parameter @%s is not given", jsondoc.Clip(e.Name))
	case *syntax.Ident:
		slot, _, ok := s.lookup(e.Name)
		if !ok {
			c.fail(e.Pos(), "%s is not the name of a source: %s", jsondoc.Clip(e.Name), s.known())
			return undefined, anything
		}
		return variable(slot)
	case *syntax.Member:
		of, needs := c.anew(e.Of, s)
		name := e.Name
		return func(f *Frame) value.Value { return of(f).Member(name) }, needs
	case *syntax.Index:
		of, needsOf := c.anew(e.Of, s)
		by, needsBy := c.expr(e.By, s)
		if needsBy > needsOf {
			of = c.memo(of, needsOf, s, true)
		}
		return func(f *Frame) value.Value { return index(of(f), by(f)) }, max(needsOf, needsBy)
	case *syntax.Each:
		c.fail(e.Sign, "[] stands for any element only in simple conditions, which compare a path with a constant: expected an index or a JOIN")
	case *syntax.Unary:
		x, needs := c.expr(e.X, s)
		op := unaries[e.Op]
		return func(f *Frame) value.Value { return op(x(f)) }, needs
	case *syntax.Binary:
		return c.binary(e, s)
	case *syntax.Logic:
		list, needs := c.exprs(e.List, s)
		or := e.Or
		return func(f *Frame) value.Value { return logic(f, list, or) }, needs
	case *syntax.Between:
		list, needs := c.exprs([]syntax.Expr{e.X, e.Lo, e.Hi}, s)
		not := e.Not
		return func(f *Frame) value.Value {
			x := list[0](f)
			return negated(both(compared(">=", x, list[1](f)), compared("<=", x, list[2](f))), not)
		}, needs
	case *syntax.In:
		x, needs := c.expr(e.X, s)
		list, needsList := c.exprs(e.List, s)
		not := e.Not
		return func(f *Frame) value.Value { return negated(in(f, x(f), list), not) }, max(needs, needsList)
	case *syntax.Like:
		return c.like(e, s)
	case *syntax.Cond:
		list, needs := c.exprs([]syntax.Expr{e.If, e.Then, e.Else}, s)
		return func(f *Frame) value.Value {
			if b, ok := list[0](f).Bool(); ok && b {
				return list[1](f)
			}
			return list[2](f)
		}, needs
	case *syntax.Call:
		return c.call(e, s)
	case *syntax.Object:
		list, needs := c.exprs(e.List, s)
		names := e.Names
		return func(f *Frame) value.Value {
			values, _ := evaluated(f, list)
			if values == nil {
				return value.Value{}
			}
			return value.Object(slices.Clone(names), values)
		}, needs
	case *syntax.Array:
		list, needs := c.exprs(e.List, s)
		return func(f *Frame) value.Value {
			values, _ := evaluated(f, list)
			if values == nil {
				return value.Value{}
			}
			return value.Array(values)
		}, needs
	case *syntax.Sub:
		return c.sub(e, s), anything
	}
	return undefined, anything
}

// evaluated returns the values of expressions that are held together, nil if they are too large,
// and how many bytes it has counted for them.
func evaluated(f *Frame, list []node) (values []value.Value, n int) {
	values = make([]value.Value, len(list))
	for i, x := range list {
		values[i] = x(f)
		size := sizeIn(values[i])
		if n += size; !f.env.Grow(size) {
			return nil, n
		}
	}
	return values, n
}

// sizeIn is the size of a value in an array or object.
func sizeIn(v value.Value) int { return 48 + int(v.Size()) }

func (c *compiler) binary(e *syntax.Binary, s *scope) (node, need) {
	l, needs := c.expr(e.L, s)
	r, needsR := c.expr(e.R, s)
	needs = max(needs, needsR)
	switch op := e.Op; op {
	case "=", "!=", "<", "<=", ">", ">=":
		return func(f *Frame) value.Value { return compared(op, l(f), r(f)) }, needs
	case "??":
		return func(f *Frame) value.Value {
			if v := l(f); !v.IsUndefined() {
				return v
			}
			return r(f)
		}, needs
	case "||":
		return func(f *Frame) value.Value {
			a, ok := l(f).Text()
			b, okToo := r(f).Text()
			if !ok || !okToo || !f.env.Grow(len(a)+len(b)) {
				return value.Value{}
			}
			return value.String(a + b)
		}, needs
	}
	calc, ok := arithmetic[e.Op]
	if !ok {
		c.fail(e.Pos(), "%s is no operator", e.Op)
	}
	return func(f *Frame) value.Value {
		a, ok := l(f).Number()
		b, okToo := r(f).Number()
		if !ok || !okToo {
			return value.Value{}
		}
		return value.Number(calc(a, b))
	}, needs
}

func (c *compiler) like(e *syntax.Like, s *scope) (node, need) {
	x, needs := c.expr(e.X, s)
	pattern, needsPattern := c.expr(e.Pattern, s)
	escape := func(*Frame) value.Value { return value.String("") }
	if e.Escape != nil {
		var needsEscape need
		escape, needsEscape = c.expr(e.Escape, s)
		needsPattern = max(needsPattern, needsEscape)
	}
	if lit, ok := e.Escape.(*syntax.Literal); ok {
		if text, isText := lit.V.Text(); !isText || len([]rune(text)) != 1 {
			c.fail(lit.Pos(), "expected a string of one character after ESCAPE, found %s", jsondoc.Clip(lit.V.String()))
		}
	}
	not, given := e.Not, e.Escape != nil
	compile := func(f *Frame) (function.Pattern, bool) {
		text, ok := pattern(f).Text()
		mark, okToo := escape(f).Text()
		runes := []rune(mark)
		if !ok || !okToo || given && len(runes) != 1 || !f.env.Grow(48*len(text)) {
			return nil, false
		}
		if !given {
			runes = []rune{0}
		}
		return function.LikePattern(text, runes[0]), true
	}
	if needsPattern == nothing && c.mayFold() {
		f := &Frame{}
		if fixed, ok := compile(f); ok {
			compile = func(*Frame) (function.Pattern, bool) { return fixed, true }
		}
		*c.options.Folded += f.env.Looked()
	}
	return func(f *Frame) value.Value {
		text, ok := x(f).Text()
		if !ok {
			return value.Value{}
		}
		p, ok := compile(f)
		if !ok {
			return value.Value{}
		}
		matches, ok := p.Match(&f.env, text)
		if !ok {
			return value.Value{}
		}
		return value.Bool(matches != not)
	}, max(needs, needsPattern)
}

func (c *compiler) call(e *syntax.Call, s *scope) (node, need) {
	if e.UDF {
		var body UDF
		ok := false
		if c.options.UDF != nil {
			body, ok = c.options.UDF(e.Name)
		}
		if !ok {
			c.fail(e.Pos(), "there is no function udf.%s", jsondoc.Clip(e.Name))
			return undefined, anything
		}
		list, _ := c.exprs(e.Args, s)
		return func(f *Frame) value.Value {
			args, n := evaluated(f, list)
			if f.env.Err() != nil || !f.env.Step(1) {
				return value.Value{}
			}
			v, err := body(args)
			f.env.Drop(n)
			if err != nil {
				f.env.Fail(fmt.Errorf("udf.%s: %w", e.Name, err))
			}
			if !f.env.Grow(int(v.Size())) {
				return value.Value{}
			}
			return v
		}, anything
	}
	if fn, ok := aggregateFuncs[e.Name]; ok {
		return c.aggregate(fn, e, s)
	}
	if why, ok := function.Unavailable(e.Name); ok {
		c.fail(e.Pos(), "%s is not available: %s", e.Name, why)
		return undefined, anything
	}
	fn, ok := function.Find(e.Name)
	if !ok {
		c.fail(e.Pos(), "there is no function %s", jsondoc.Clip(e.Name))
		return undefined, anything
	}
	if n := len(e.Args); n < fn.Min || fn.Max >= 0 && n > fn.Max {
		c.fail(e.Pos(), "%s takes %s, %d given", fn.Name, arguments(fn), n)
		return undefined, anything
	}
	if fn.Name == function.DocumentETag {
		id, isName := e.Args[0].(*syntax.Ident)
		if isName {
			slot, _, known := s.lookup(id.Name)
			isName = known && slot == 0
		}
		if !isName {
			c.fail(e.Pos(), "%s takes the name of the document", fn.Name)
			return undefined, anything
		}
	}
	list, needs := c.exprs(e.Args, s)
	if !fn.Pure {
		needs = anything
	}
	if len(list) == 1 {
		return func(f *Frame) value.Value {
			args := [1]value.Value{list[0](f)}
			return fn.Call(&f.env, args[:])
		}, needs
	}
	return func(f *Frame) value.Value {
		args, n := evaluated(f, list)
		if args == nil {
			return value.Value{}
		}
		v := fn.Call(&f.env, args)
		f.env.Drop(n)
		return v
	}, needs
}

func arguments(fn *function.Function) string {
	switch {
	case fn.Max < 0:
		return fmt.Sprintf("at least %d arguments", fn.Min)
	case fn.Min != fn.Max:
		return fmt.Sprintf("%d to %d arguments", fn.Min, fn.Max)
	case fn.Min == 1:
		return "1 argument"
	}
	return fmt.Sprintf("%d arguments", fn.Min)
}

// aggregate compiles an aggregate of the query that the scope belongs to.
func (c *compiler) aggregate(fn aggregateFunc, e *syntax.Call, s *scope) (node, need) {
	if s == nil || s.group == nil {
		c.fail(e.Pos(), "%s is an aggregate: it stands in SELECT or ORDER BY only", e.Name)
		return undefined, anything
	}
	if len(e.Args) != 1 {
		c.fail(e.Pos(), "%s takes 1 argument, %d given", e.Name, len(e.Args))
		return undefined, anything
	}
	rows := *s
	rows.group = nil // the argument is about a row
	arg, _ := c.expr(e.Args[0], &rows)
	slot := c.slot()
	g := s.group.plan
	g.aggs = append(g.aggs, aggregate{fn, arg, slot})
	return variable(slot)
}

// sub compiles a subquery in an expression.
func (c *compiler) sub(e *syntax.Sub, s *scope) node {
	if s == nil {
		// No names are known: CompileExpr and Compile give a scope, Constant wants none.
		s = &scope{}
	}
	p := c.query(e.Q, s)
	switch e.Kind {
	case syntax.SubExists:
		return func(f *Frame) value.Value {
			found := false
			p.run(f, func(value.Value) bool { found = true; return false })
			return value.Bool(found)
		}
	case syntax.SubArray:
		return func(f *Frame) value.Value {
			var list []value.Value
			p.run(f, func(v value.Value) bool {
				list = append(list, v)
				return f.env.Grow(sizeIn(v))
			})
			return value.Array(list)
		}
	}
	text := c.text
	return func(f *Frame) value.Value {
		var out value.Value
		n := 0
		p.run(f, func(v value.Value) bool {
			if n++; n == 2 {
				// The place is counted only now: a query may have thousands of subqueries.
				f.env.Fail(fault.Of(fault.ErrInvalid,
					syntax.Errorf(text, e.Pos(), "the subquery has more than one result: take one of them with TOP 1, or all with ARRAY(…)")))
				return false
			}
			out = v
			return f.env.Grow(sizeIn(v))
		})
		return out
	}
}
