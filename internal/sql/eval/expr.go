package eval

import (
	"fmt"
	"slices"

	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/sql/function"
	"github.com/cleavestore/cleave/internal/sql/syntax"
	"github.com/cleavestore/cleave/internal/sql/value"
)

// expr compiles an expression. constant says that it has the same value for all documents;
// then it is computed once.
func (c *compiler) expr(e syntax.Expr, s *scope) (n node, constant bool) {
	if s != nil && s.group != nil {
		if slot, ok := s.group.slots[syntax.Text(e)]; ok {
			return func(f *Frame) value.Value { return f.read(slot) }, false
		}
	}
	if base, ok := baseOf(e); ok && s != nil {
		if _, grouped, known := s.lookup(base); known && grouped {
			c.fail(e.Pos(), "%s is neither in an aggregate nor one of GROUP BY", jsondoc.Clip(syntax.Text(e)))
		}
	}
	n, constant = c.compile(e, s)
	if _, literal := e.(*syntax.Literal); !constant || literal || c.err != nil {
		return n, constant
	}
	v, ok := c.fold(n)
	if !ok || v.Size() > maxFolded {
		return n, constant // each evaluation tells the error
	}
	return func(*Frame) value.Value { return v }, true
}

// baseOf returns the name that a path begins with.
func baseOf(e syntax.Expr) (name string, ok bool) {
	for {
		switch x := e.(type) {
		case *syntax.Member:
			e = x.Of
		case *syntax.Index:
			e = x.Of
		case *syntax.Ident:
			return x.Name, true
		default:
			return "", false
		}
	}
}

// exprs compiles several expressions.
func (c *compiler) exprs(list []syntax.Expr, s *scope) (nodes []node, constant bool) {
	nodes = make([]node, len(list))
	constant = true
	for i, e := range list {
		var same bool
		nodes[i], same = c.expr(e, s)
		constant = constant && same
	}
	return nodes, constant
}

func (c *compiler) compile(e syntax.Expr, s *scope) (n node, constant bool) {
	switch e := e.(type) {
	case *syntax.Literal:
		v := e.V
		*c.options.Folded += v.Size()
		return func(*Frame) value.Value { return v }, true
	case *syntax.Param:
		c.fail(e.Pos(), "parameter @%s is not given", jsondoc.Clip(e.Name))
	case *syntax.Ident:
		slot, _, ok := s.lookup(e.Name)
		if !ok {
			c.fail(e.Pos(), "%s is not the name of a source: %s", jsondoc.Clip(e.Name), s.known())
			return undefined, false
		}
		return func(f *Frame) value.Value { return f.read(slot) }, false
	case *syntax.Member:
		of, same := c.expr(e.Of, s)
		name := e.Name
		return func(f *Frame) value.Value { return of(f).Member(name) }, same
	case *syntax.Index:
		of, same := c.expr(e.Of, s)
		by, sameToo := c.expr(e.By, s)
		return func(f *Frame) value.Value { return index(of(f), by(f)) }, same && sameToo
	case *syntax.Each:
		c.fail(e.Sign, "[] stands for any element only in simple conditions, which compare a path with a constant: expected an index or a JOIN")
	case *syntax.Unary:
		x, same := c.expr(e.X, s)
		op := unaries[e.Op]
		return func(f *Frame) value.Value { return op(x(f)) }, same
	case *syntax.Binary:
		return c.binary(e, s)
	case *syntax.Logic:
		list, same := c.exprs(e.List, s)
		or := e.Or
		return func(f *Frame) value.Value { return logic(f, list, or) }, same
	case *syntax.Between:
		list, same := c.exprs([]syntax.Expr{e.X, e.Lo, e.Hi}, s)
		not := e.Not
		return func(f *Frame) value.Value {
			x := list[0](f)
			return negated(both(compared(">=", x, list[1](f)), compared("<=", x, list[2](f))), not)
		}, same
	case *syntax.In:
		x, same := c.expr(e.X, s)
		list, sameToo := c.exprs(e.List, s)
		not := e.Not
		return func(f *Frame) value.Value { return negated(in(f, x(f), list), not) }, same && sameToo
	case *syntax.Like:
		return c.like(e, s)
	case *syntax.Cond:
		list, same := c.exprs([]syntax.Expr{e.If, e.Then, e.Else}, s)
		return func(f *Frame) value.Value {
			if b, ok := list[0](f).Bool(); ok && b {
				return list[1](f)
			}
			return list[2](f)
		}, same
	case *syntax.Call:
		return c.call(e, s)
	case *syntax.Object:
		list, same := c.exprs(e.List, s)
		names := e.Names
		return func(f *Frame) value.Value {
			values, _ := evaluated(f, list)
			if values == nil {
				return value.Value{}
			}
			return value.Object(slices.Clone(names), values)
		}, same
	case *syntax.Array:
		list, same := c.exprs(e.List, s)
		return func(f *Frame) value.Value {
			values, _ := evaluated(f, list)
			if values == nil {
				return value.Value{}
			}
			return value.Array(values)
		}, same
	case *syntax.Sub:
		return c.sub(e, s), false
	}
	return undefined, false
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

func (c *compiler) binary(e *syntax.Binary, s *scope) (node, bool) {
	l, same := c.expr(e.L, s)
	r, sameToo := c.expr(e.R, s)
	same = same && sameToo
	switch op := e.Op; op {
	case "=", "!=", "<", "<=", ">", ">=":
		return func(f *Frame) value.Value { return compared(op, l(f), r(f)) }, same
	case "??":
		return func(f *Frame) value.Value {
			if v := l(f); !v.IsUndefined() {
				return v
			}
			return r(f)
		}, same
	case "||":
		return func(f *Frame) value.Value {
			a, ok := l(f).Text()
			b, okToo := r(f).Text()
			if !ok || !okToo || !f.env.Grow(len(a)+len(b)) {
				return value.Value{}
			}
			return value.String(a + b)
		}, same
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
	}, same
}

func (c *compiler) like(e *syntax.Like, s *scope) (node, bool) {
	x, same := c.expr(e.X, s)
	pattern, samePattern := c.expr(e.Pattern, s)
	escape, sameEscape := func(*Frame) value.Value { return value.String("") }, true
	if e.Escape != nil {
		escape, sameEscape = c.expr(e.Escape, s)
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
	if samePattern && sameEscape && c.mayFold() {
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
	}, same && samePattern && sameEscape
}

func (c *compiler) call(e *syntax.Call, s *scope) (node, bool) {
	if e.UDF {
		var body UDF
		ok := false
		if c.options.UDF != nil {
			body, ok = c.options.UDF(e.Name)
		}
		if !ok {
			c.fail(e.Pos(), "there is no function udf.%s", jsondoc.Clip(e.Name))
			return undefined, false
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
		}, false
	}
	if fn, ok := aggregateFuncs[e.Name]; ok {
		return c.aggregate(fn, e, s), false
	}
	if why, ok := function.Unavailable(e.Name); ok {
		c.fail(e.Pos(), "%s is not available: %s", e.Name, why)
		return undefined, false
	}
	fn, ok := function.Find(e.Name)
	if !ok {
		c.fail(e.Pos(), "there is no function %s", jsondoc.Clip(e.Name))
		return undefined, false
	}
	if n := len(e.Args); n < fn.Min || fn.Max >= 0 && n > fn.Max {
		c.fail(e.Pos(), "%s takes %s, %d given", fn.Name, arguments(fn), n)
		return undefined, false
	}
	if fn.Name == function.DocumentETag {
		id, isName := e.Args[0].(*syntax.Ident)
		if isName {
			slot, _, known := s.lookup(id.Name)
			isName = known && slot == 0
		}
		if !isName {
			c.fail(e.Pos(), "%s takes the name of the document", fn.Name)
			return undefined, false
		}
	}
	list, same := c.exprs(e.Args, s)
	if len(list) == 1 {
		return func(f *Frame) value.Value {
			args := [1]value.Value{list[0](f)}
			return fn.Call(&f.env, args[:])
		}, same && fn.Pure
	}
	return func(f *Frame) value.Value {
		args, n := evaluated(f, list)
		if args == nil {
			return value.Value{}
		}
		v := fn.Call(&f.env, args)
		f.env.Drop(n)
		return v
	}, same && fn.Pure
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
func (c *compiler) aggregate(fn aggregateFunc, e *syntax.Call, s *scope) node {
	if s == nil || s.group == nil {
		c.fail(e.Pos(), "%s is an aggregate: it stands in SELECT or ORDER BY only", e.Name)
		return undefined
	}
	if len(e.Args) != 1 {
		c.fail(e.Pos(), "%s takes 1 argument, %d given", e.Name, len(e.Args))
		return undefined
	}
	rows := *s
	rows.group = nil // the argument is about a row
	arg, _ := c.expr(e.Args[0], &rows)
	slot := c.slot()
	g := s.group.plan
	g.aggs = append(g.aggs, aggregate{fn, arg, slot})
	return func(f *Frame) value.Value { return f.read(slot) }
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
	several := syntax.Errorf(c.text, e.Pos(), "the subquery has more than one result: take one of them with TOP 1, or all with ARRAY(…)")
	return func(f *Frame) value.Value {
		var out value.Value
		n := 0
		p.run(f, func(v value.Value) bool {
			if n++; n == 2 {
				f.env.Fail(several)
				return false
			}
			out = v
			return f.env.Grow(sizeIn(v))
		})
		return out
	}
}
