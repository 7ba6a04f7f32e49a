package statement

import "github.com/cleavestore/cleave/internal/sql/syntax"

// OverArray returns a query over documents as one over an array of them.
func OverArray(q *syntax.Query) *syntax.Query {
	if q.From == nil {
		return q
	}
	out := *q
	name := q.From.Name
	if _, whole := q.From.Collection.(*syntax.Ident); !whole || q.From.In {
		// FROM c.children, FROM x IN c.children or FROM (SELECT … FROM c) AS x: first the documents,
		// then what is in them.
		name = documentName(q.From)
		part := *q.From
		if q.Star && len(q.Joins) == 0 {
			out.Star, out.Value, out.Items = false, true, []syntax.Item{{Expr: &syntax.Ident{At: syntax.At(part.At), Name: part.Name}}}
		}
		out.Joins = append([]*syntax.Source{&part}, q.Joins...)
	}
	out.From = &syntax.Source{At: q.From.At, Name: name, In: true, Collection: &syntax.Ident{At: syntax.At(q.From.At), Name: name}, Named: true}
	return &out
}

// documentName returns the name that the documents have in a source. A subquery may have none
// for them.
func documentName(s *syntax.Source) string {
	for s.Query != nil {
		if s.Query.From == nil {
			return "(documents)"
		}
		s = s.Query.From
	}
	if name, ok := syntax.Base(s.Collection); ok {
		return name
	}
	return s.Name
}
