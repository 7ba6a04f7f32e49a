package sql

import (
	"time"

	"github.com/cleavestore/cleave/internal/query"
	"github.com/cleavestore/cleave/internal/sql/eval"
	"github.com/cleavestore/cleave/internal/sql/syntax"
)

// Options say what a query may refer to. The zero Options are for queries that refer to
// nothing but documents.
type Options struct {
	eval.Options
	// Computed are the computed properties of a container: the text of a query, SELECT VALUE
	// of one expression of the document, by the name of the property.
	Computed map[string]string
	// Clock tells the present time; nil: that of the system.
	Clock func() time.Time
}

func (o *Options) now() time.Time {
	if o.Clock != nil {
		return o.Clock()
	}
	return time.Now()
}

// Statement is a query that was read.
type Statement struct {
	// Select is what exec does. Its Offset and Limit are zero: Begin sets them.
	Select *query.Select
	// Offset and Limit are those of the text; a Limit of 0 is none.
	Offset, Limit int

	way   way
	text  string      // of the whole query, printed
	q     *eval.Query // unless whole
	clock func() time.Time
	// sure says of a mapped statement that each document gives a result.
	sure bool
	// sifts says of a joined statement that a condition leaves out some of its rows.
	sifts bool
	// array is the path of an array of the document without which there is no row; nil: there is no such path.
	array query.Path
	// documents says that each result is a document as it is stored. A distinct one then is that
	// of an item, as without DISTINCT.
	documents bool
}

// way is how a statement works.
type way uint8

const (
	whole way = iota
	mapped
	joined
	collected
	constant
)

// Parse reads a query; parameters, which may be named with or without their @, take the
// place of constants. One with a name such as udf.tax, whose value is an eval.UDF, is a
// function of that name. The error is a *syntax.Error.
func Parse(text string, parameters map[string]any, o Options) (*Statement, error) {
	if o.UDF == nil {
		o.UDF = func(name string) (eval.UDF, bool) {
			f, ok := parameters["udf."+name].(eval.UDF)
			return f, ok
		}
	}
	if o.Folded == nil {
		o.Folded = new(int64)
	}
	q, err := syntax.ParseWith(text, parameters)
	if err != nil {
		return nil, err
	}
	if q, err = Substitute(text, q, o.Computed); err != nil {
		return nil, err
	}
	s, err := compile(text, q, o)
	if err == nil && (q.Top != nil && q.Top.N == 0 || q.Limit != nil && q.Limit.N == 0) {
		s.empty()
	}
	return s, err
}

// empty makes the statement one without results: it looks for nothing, and does not give the
// row that aggregates have of none.
func (s *Statement) empty() {
	s.way, s.q = whole, nil
	s.Select.Where, s.Select.OrderBy, s.Select.ByElement = &query.Filter{Op: query.Or}, nil, false
	s.Offset, s.Limit = max(s.Offset, 1), 1
}

// compile decides how a query is answered.
func compile(text string, q *syntax.Query, o Options) (*Statement, error) {
	s := &Statement{Select: &query.Select{Where: &query.Filter{}}, clock: o.Clock}
	if q.Offset != nil {
		s.Offset = q.Offset.N
	}
	for _, c := range []*syntax.Count{q.Top, q.Limit} {
		if c != nil {
			s.Limit = c.N
		}
	}
	rest, checked := *q, *q
	rest.Top, rest.Offset, rest.Limit = nil, nil, nil // Run counts
	l := lowerer{text: text, options: o}
	if q.From != nil && !q.From.In {
		if _, ok := q.From.Collection.(*syntax.Ident); ok {
			l.root = q.From.Name
		}
	}
	if l.root != "" {
		s.Select.Where, rest.Where = l.split(q.Where, len(q.Joins) > 0)
		if s.Select.Where.Check() != nil {
			s.Select.Where = s.Select.Where.Simplify() // may make it less deep
		}
		if l.err == nil && rest.Where == nil && len(q.Joins) == 0 && l.all(q, s.Select) {
			return s, nil
		}
		if q.Where != nil {
			checked.Where = l.single(q.Where)
		}
	}
	// The first error of the whole query counts.
	if _, err := eval.Compile(text, &checked, o.Options); err != nil {
		return nil, err
	}
	if l.err != nil {
		return nil, l.err
	}
	if bad := s.Select.Where.Check(); bad != nil {
		return nil, syntax.Errorf(text, q.Where.Pos(), "%s", bad)
	}
	var err error
	if s.q, err = eval.Compile(text, &rest, o.Options); err != nil {
		return nil, err
	}
	s.text = q.String()
	if q.From == nil {
		s.way, s.Select.Where = constant, &query.Filter{Op: query.Or}
		return s, nil
	}
	s.documents = l.root != "" && len(q.GroupBy) == 0 && (q.Star && len(q.Joins) == 0 || q.Value && isRoot(q.Items[0].Expr, l.root))
	order, ok := l.orders(q.OrderBy)
	if element := l.element(q); element != nil {
		s.Select.ByElement, order, ok = true, []query.Order{{Path: element, Falling: q.OrderBy[0].Desc}}, true
	}
	if s.Select.OrderBy = order; !ok || s.q.Grouped() || s.q.Distinct() || s.Select.Check() != nil {
		s.way, s.Select.OrderBy, s.Select.ByElement = collected, nil, false
		return s, nil
	}
	s.sifts, s.array = rest.Where != nil, l.joinedArray(q)
	if s.way = joined; l.root != "" && len(q.Joins) == 0 {
		s.way, s.sure = mapped, surely(q)
	}
	return s, nil
}

func isRoot(e syntax.Expr, root string) bool {
	id, ok := e.(*syntax.Ident)
	return ok && id.Name == root
}

// surely says that a query gives a result for each document: one that is not undefined.
func surely(q *syntax.Query) bool {
	if !q.Value {
		return true
	}
	switch e := q.Items[0].Expr.(type) {
	case *syntax.Object, *syntax.Array, *syntax.Ident:
		return true
	case *syntax.Sub:
		return e.Kind != syntax.SubScalar
	}
	return false
}

// Whole says that exec does all, so that Select has the whole query.
func (s *Statement) Whole() bool { return s == nil || s.way == whole }

// Text tells the statement apart from others.
func (s *Statement) Text() string {
	if s.Whole() {
		return ""
	}
	return s.text
}

// ByElement says that the only order of Select is that of the elements of an array.
func (s *Statement) ByElement() bool { return s != nil && s.Select.ByElement }

// Keyed says that what Run makes of the rows of Select belongs to their items.
func (s *Statement) Keyed() bool {
	if s == nil || s.q == nil {
		return true
	}
	return s.way != constant && !s.q.Grouped() && !s.q.Distinct()
}
