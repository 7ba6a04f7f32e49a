package syntax

// Children calls visit for each expression directly below one, those of a subquery included.
func Children(e Expr, visit func(Expr)) {
	each := func(list []Expr) {
		for _, x := range list {
			visit(x)
		}
	}
	switch e := e.(type) {
	case *Member:
		visit(e.Of)
	case *Index:
		visit(e.Of)
		visit(e.By)
	case *Each:
		visit(e.Of)
	case *Unary:
		visit(e.X)
	case *Binary:
		visit(e.L)
		visit(e.R)
	case *Logic:
		each(e.List)
	case *Between:
		visit(e.X)
		visit(e.Lo)
		visit(e.Hi)
	case *In:
		visit(e.X)
		each(e.List)
	case *Like:
		visit(e.X)
		visit(e.Pattern)
		if e.Escape != nil {
			visit(e.Escape)
		}
	case *Cond:
		visit(e.If)
		visit(e.Then)
		visit(e.Else)
	case *Call:
		each(e.Args)
	case *Object:
		each(e.List)
	case *Array:
		each(e.List)
	case *Sub:
		e.Q.Exprs(visit)
	}
}

// Exprs calls visit for each expression of a query that is below no other, those of the
// subqueries in its sources included.
func (q *Query) Exprs(visit func(Expr)) {
	for _, item := range q.Items {
		visit(item.Expr)
	}
	q.EachSource(func(s *Source) {
		if s.Query != nil {
			s.Query.Exprs(visit)
		} else {
			visit(s.Collection)
		}
	})
	if q.Where != nil {
		visit(q.Where)
	}
	for _, e := range q.GroupBy {
		visit(e)
	}
	for _, o := range q.OrderBy {
		visit(o.Expr)
	}
}

// EachSource calls visit for what FROM and JOIN name.
func (q *Query) EachSource(visit func(*Source)) {
	if q.From != nil {
		visit(q.From)
	}
	for _, s := range q.Joins {
		visit(s)
	}
}

// Walk calls visit for an expression and, where it returns true, for those below.
func Walk(e Expr, visit func(Expr) bool) {
	if visit(e) {
		Children(e, func(x Expr) { Walk(x, visit) })
	}
}

// height returns the height of a tree, or a number above most.
func height(e Expr, most int) int {
	if most < 0 {
		return 1
	}
	h := 0
	Children(e, func(x Expr) { h = max(h, height(x, most-1)) })
	return h + 1
}

// Rewrite returns the query with each expression replaced by what change returns for it. It
// asks for the parts of an expression first. A column that was named after a member keeps the
// name, and a collection that is no path any more becomes a subquery, which keeps its name too.
func (q *Query) Rewrite(change func(Expr) (Expr, error)) (*Query, error) {
	r := rewriter{change: change}
	out := r.query(q)
	return out, r.err
}

// RewriteExpr is Rewrite of an expression alone.
func RewriteExpr(e Expr, change func(Expr) (Expr, error)) (Expr, error) {
	r := rewriter{change: change}
	out := r.expr(e)
	return out, r.err
}

type rewriter struct {
	change func(Expr) (Expr, error)
	err    error
}

func (r *rewriter) query(q *Query) *Query {
	out := *q
	out.Items = nil
	for _, item := range q.Items {
		as, e := item.As, r.expr(item.Expr)
		if m, ok := item.Expr.(*Member); ok && as == "" && !q.Value && !named(e, m.Name) {
			as = m.Name
		}
		out.Items = append(out.Items, Item{e, as})
	}
	out.From, out.Joins = r.source(q.From), nil
	for _, s := range q.Joins {
		out.Joins = append(out.Joins, r.source(s))
	}
	out.Where, out.GroupBy, out.OrderBy = r.expr(q.Where), r.list(q.GroupBy), nil
	for _, o := range q.OrderBy {
		out.OrderBy = append(out.OrderBy, Order{r.expr(o.Expr), o.Desc})
	}
	return &out
}

func (r *rewriter) source(s *Source) *Source {
	if s == nil {
		return nil
	}
	out := *s
	if s.Query != nil {
		out.Query = r.query(s.Query)
	} else {
		out.Collection = r.expr(s.Collection)
		path := isPath(out.Collection)
		if m, ok := s.Collection.(*Member); ok && !s.Named && !named(out.Collection, m.Name) {
			out.Named = isName(m.Name) // nothing refers to another name: a subquery needs none
			path = path && out.Named
		}
		if r.err == nil && !path {
			out.Query = &Query{At: s.At, Value: true, Items: []Item{{Expr: out.Collection}}}
			out.Collection = nil
		}
	}
	return &out
}

// named says whether an expression is the member of a name.
func named(e Expr, name string) bool {
	m, ok := e.(*Member)
	return ok && m.Name == name
}

// isPath says whether an expression is a name, or a path that begins with one.
func isPath(e Expr) bool {
	for {
		switch x := e.(type) {
		case *Ident:
			return true
		case *Member:
			e = x.Of
		case *Index:
			e = x.Of
		case *Each:
			e = x.Of
		default:
			return false
		}
	}
}

func (r *rewriter) list(list []Expr) (out []Expr) {
	for _, e := range list {
		out = append(out, r.expr(e))
	}
	return out
}

func (r *rewriter) expr(e Expr) Expr {
	if r.err != nil || e == nil {
		return e
	}
	switch x := e.(type) {
	case *Member:
		e = &Member{x.At, r.expr(x.Of), x.Name}
	case *Index:
		e = &Index{x.At, r.expr(x.Of), r.expr(x.By)}
	case *Each:
		e = &Each{x.At, r.expr(x.Of), x.Sign}
	case *Unary:
		e = &Unary{x.At, x.Op, r.expr(x.X)}
	case *Binary:
		e = &Binary{x.At, x.Op, r.expr(x.L), r.expr(x.R)}
	case *Logic:
		e = &Logic{x.At, x.Or, r.list(x.List)}
	case *Between:
		e = &Between{x.At, r.expr(x.X), r.expr(x.Lo), r.expr(x.Hi), x.Not}
	case *In:
		e = &In{x.At, r.expr(x.X), r.list(x.List), x.Not}
	case *Like:
		e = &Like{x.At, r.expr(x.X), r.expr(x.Pattern), r.expr(x.Escape), x.Not}
	case *Cond:
		e = &Cond{x.At, r.expr(x.If), r.expr(x.Then), r.expr(x.Else)}
	case *Call:
		e = &Call{x.At, x.Name, x.UDF, r.list(x.Args)}
	case *Object:
		e = &Object{x.At, x.Names, r.list(x.List)}
	case *Array:
		e = &Array{x.At, r.list(x.List)}
	case *Sub:
		e = &Sub{x.At, x.Kind, r.query(x.Q)}
	}
	if r.err != nil {
		return e
	}
	out, err := r.change(e)
	r.err = err
	return out
}

// Base returns the name that a path begins with; not ok if the expression is no path.
func Base(e Expr) (name string, ok bool) {
	for {
		switch x := e.(type) {
		case *Member:
			e = x.Of
		case *Index:
			e = x.Of
		case *Ident:
			return x.Name, true
		default:
			return "", false
		}
	}
}
