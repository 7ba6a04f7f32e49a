// Package statement is a query of a client, and what the gateway has to know of it beside what
// the store answers: whether results are documents, in which order they may come, and whether
// those of several logical partitions follow one another.
package statement

import (
	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/sql/eval"
	"github.com/cleavestore/cleave/internal/sql/syntax"
)

// Statement is a query. It is not changed once it is parsed.
type Statement struct {
	Query      engine.Query
	Text       string
	Parameters map[string]any

	tree *syntax.Query // in which parameters are not bound: a text of it may be as long as they are
}

// Parse reads a query.
func Parse(text string, parameters map[string]any) (*Statement, error) {
	s := &Statement{Text: text, Parameters: parameters}
	var err error
	if s.Query, err = engine.ParseQuery(text, parameters); err != nil {
		return nil, err
	}
	if s.tree, err = syntax.Parse(text); err != nil {
		return nil, err
	}
	return s, nil
}

// OrderedBy returns the query, and its text, with an ORDER BY of a member of the documents. MayOrder must say that this is possible.
func (s *Statement) OrderedBy(member string) (q engine.Query, text string, err error) {
	t := *s.tree
	t.OrderBy = []syntax.Order{{Expr: &syntax.Member{Of: &syntax.Ident{Name: t.From.Name}, Name: member}}}
	text = t.String()
	q, err = engine.ParseQuery(text, s.Parameters)
	return q, text, err
}

// MayOrder says whether results could be given in an order of a member: there is no other
// order, and each has one document.
func (s *Statement) MayOrder() bool {
	return len(s.tree.OrderBy) == 0 && !s.tree.Distinct && !s.grouped() && s.overDocuments() && len(s.tree.Joins) == 0
}

// overDocuments says whether FROM names the documents themselves.
func (s *Statement) overDocuments() bool {
	if s.tree.From == nil || s.tree.From.In {
		return false
	}
	_, ok := s.tree.From.Collection.(*syntax.Ident)
	return ok
}

// Documents says whether results are whole documents.
func (s *Statement) Documents() bool {
	if !s.overDocuments() || len(s.tree.GroupBy) > 0 {
		return false
	}
	if s.tree.Star {
		return len(s.tree.Joins) == 0
	}
	return s.tree.Value && s.isRoot(s.tree.Items[0].Expr)
}

func (s *Statement) isRoot(e syntax.Expr) bool {
	id, ok := e.(*syntax.Ident)
	return ok && s.tree.From != nil && id.Name == s.tree.From.Name
}

// grouped says whether results stand for several documents.
func (s *Statement) grouped() bool {
	if len(s.tree.GroupBy) > 0 {
		return true
	}
	for _, item := range s.tree.Items {
		if eval.Aggregated(item.Expr) {
			return true
		}
	}
	return false
}

// limited says whether the query itself bounds the number of its results.
func (s *Statement) limited() bool {
	return s.Query.Offset > 0 || s.Query.Limit > 0 || s.tree.Top != nil || s.tree.Limit != nil
}

// Aggregated says whether the results of the query over several logical partitions are more
// than those of each, one after the other.
func (s *Statement) Aggregated() bool {
	return len(s.tree.OrderBy) > 0 || s.tree.Distinct || s.grouped() || s.limited()
}

// Shape says where in a result whole documents are.
type Shape struct {
	Whole   bool              // the result is one
	Members map[string]*Shape // of an object, nil for one that has none
}

// Shape returns where results have whole documents, nil if they have none: a document may be a column, or in an object.
func (s *Statement) Shape() *Shape {
	switch {
	case s.Documents():
		return &Shape{Whole: true}
	case !s.overDocuments() || s.grouped() || s.tree.Star:
		return nil
	case s.tree.Value:
		return s.shapeOf(s.tree.Items[0].Expr)
	}
	row := &syntax.Object{}
	for _, item := range s.tree.Items {
		name := item.As
		if name == "" && s.isRoot(item.Expr) {
			name = s.tree.From.Name
		}
		row.Names, row.List = append(row.Names, name), append(row.List, item.Expr)
	}
	return s.shapeOf(row)
}

func (s *Statement) shapeOf(e syntax.Expr) *Shape {
	if s.isRoot(e) {
		return &Shape{Whole: true}
	}
	o, ok := e.(*syntax.Object)
	if !ok {
		return nil
	}
	some := false
	at := &Shape{Members: make(map[string]*Shape)}
	for i, name := range o.Names {
		at.Members[name] = s.shapeOf(o.List[i])
		some = some || at.Members[name] != nil
	}
	if !some {
		return nil
	}
	return at
}
