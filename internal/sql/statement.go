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
	// Names are those of the columns; nil if results are bare values or documents.
	Names []string

	way   way
	text  string      // of the whole query, printed
	none  bool        // TOP 0 or LIMIT 0
	q     *eval.Query // unless whole
	clock func() time.Time
	// sure says of a mapped statement that each document gives a result.
	sure bool
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
// function of that name. The error is a *query.SyntaxError.
func Parse(text string, parameters map[string]any, o Options) (*Statement, error) {
	if o.UDF == nil {
		o.UDF = func(name string) (eval.UDF, bool) {
			f, ok := parameters["udf."+name].(eval.UDF)
			return f, ok
		}
	}
	if len(o.Computed) == 0 {
		// The simple form has paths through all elements of an array, which the grammar of
		// Cosmos DB lacks.
		if s, err := query.Parse(text, parameters); err == nil {
			return ofSelect(s), nil
		}
	}
	q, err := syntax.Parse(text)
	if err != nil {
		return nil, err
	}
	if q, err = q.Bind(text, parameters); err != nil {
		return nil, err
	}
	if q, err = Substitute(text, q, o.Computed); err != nil {
		return nil, err
	}
	return compile(text, q, o)
}

// ofSelect returns the statement of a query that exec does as a whole.
func ofSelect(s *query.Select) *Statement {
	st := &Statement{Select: s, Offset: s.Offset, Limit: s.Limit}
	for i := range s.Columns {
		if !s.Value {
			st.Names = append(st.Names, s.Columns[i].Name)
		}
	}
	return st
}

// compile decides how a query is answered.
func compile(text string, q *syntax.Query, o Options) (*Statement, error) {
	if _, err := eval.Compile(text, q, o.Options); err != nil {
		return nil, err
	}
	var err error
	s := &Statement{Select: &query.Select{Where: &query.Filter{}}, Names: eval.ColumnNames(q), text: q.String(), clock: o.Clock}
	counts(s, q)
	rest := *q
	rest.Top, rest.Offset, rest.Limit = nil, nil, nil // Run counts
	if q.From == nil {
		s.way, s.Select.Where = constant, &query.Filter{Op: query.Or}
		s.q, err = eval.Compile(text, &rest, o.Options)
		return s, err
	}
	l := lowerer{text: text, options: o}
	if _, ok := q.From.Collection.(*syntax.Ident); ok && !q.From.In {
		l.root = q.From.Name
		s.Select.Where, rest.Where = l.split(q.Where, len(q.Joins) > 0)
		s.Select.Where = s.Select.Where.Simplify()
		if bad := s.Select.Where.Check(); bad != nil {
			return nil, syntax.Errorf(text, q.Where.Pos(), "%s", bad)
		}
		if rest.Where == nil && len(q.Joins) == 0 && l.all(q, s.Select) {
			s.Names = ofSelect(s.Select).Names
			return s, nil
		}
	}
	if s.q, err = eval.Compile(text, &rest, o.Options); err != nil {
		return nil, err
	}
	order, ok := l.orders(q.OrderBy)
	if s.Select.OrderBy = order; !ok || s.q.Grouped() || s.q.Distinct() || s.Select.Check() != nil {
		s.way, s.Select.OrderBy = collected, nil
		return s, nil
	}
	if s.way = joined; l.root != "" && len(q.Joins) == 0 {
		s.way, s.sure = mapped, surely(q)
	}
	return s, nil
}

// counts takes the numbers of results that a query wants.
func counts(s *Statement, q *syntax.Query) {
	if q.Offset != nil {
		s.Offset = q.Offset.N
	}
	for _, c := range []*syntax.Count{q.Top, q.Limit} {
		if c != nil {
			s.Limit, s.none = c.N, c.N == 0
		}
	}
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
func (s *Statement) Whole() bool { return s == nil || s.way == whole && !s.none }

// Text tells the statement apart from others.
func (s *Statement) Text() string {
	if s.Whole() {
		return ""
	}
	return s.text
}

// Keyed says that what Run makes of the rows of Select belongs to their items.
func (s *Statement) Keyed() bool {
	if s == nil || s.q == nil {
		return true
	}
	return s.way != constant && !s.q.Grouped() && !s.q.Distinct()
}
