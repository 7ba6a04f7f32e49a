package sql

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cleavestore/cleave/internal/sql/eval"
	"github.com/cleavestore/cleave/internal/sql/syntax"
)

// parseComputed reads the text of a computed property. It returns its expression, and the
// name that the document has in it.
func parseComputed(text string) (e syntax.Expr, document string, err error) {
	def, err := syntax.Parse(text)
	if err != nil {
		return nil, "", err
	}
	if !def.Value || def.From == nil || len(def.Joins) > 0 || def.Where != nil || def.From.In || def.From.Query != nil || len(def.GroupBy) > 0 ||
		len(def.OrderBy) > 0 || def.Distinct || def.Top != nil || def.Offset != nil || def.Limit != nil || eval.Aggregated(def.Items[0].Expr) {
		return nil, "", errors.New("expected SELECT VALUE expression FROM name")
	}
	if _, ok := def.From.Collection.(*syntax.Ident); !ok {
		return nil, "", errors.New("expected SELECT VALUE expression FROM name")
	}
	return def.Items[0].Expr, def.From.Name, nil
}

// CheckComputed checks the text of a computed property, and returns the members of
// the document that it uses.
func CheckComputed(text string) (members []string, err error) {
	e, document, err := parseComputed(text)
	if err != nil {
		return nil, err
	}
	tree, err := syntax.Parse(text)
	if err == nil {
		_, err = eval.Compile(text, tree, eval.Options{})
	}
	syntax.Walk(e, func(x syntax.Expr) bool {
		if m, ok := x.(*syntax.Member); ok {
			if id, isName := m.Of.(*syntax.Ident); isName && id.Name == document {
				members = append(members, m.Name)
			}
		}
		return true
	})
	slices.Sort(members)
	return slices.Compact(members), err
}

// binds says whether a source of a subquery, or of one below it, has this name.
func binds(q *syntax.Query, name string) bool {
	found := names(q, name)
	q.Exprs(func(e syntax.Expr) { found = found || rebinds(e, name) })
	return found
}

// names says whether a source of a query, or of one in its sources, has this name.
func names(q *syntax.Query, name string) (found bool) {
	q.EachSource(func(s *syntax.Source) { found = found || s.Name == name || s.Query != nil && names(s.Query, name) })
	return found
}

// rebinds says whether a subquery in an expression gives one of its sources this name.
func rebinds(e syntax.Expr, name string) (found bool) {
	syntax.Walk(e, func(e syntax.Expr) bool {
		sub, ok := e.(*syntax.Sub)
		found = found || ok && binds(sub.Q, name)
		return !found && !ok // binds has looked at what is in a subquery
	})
	return found
}

// errNames is why an expression is not put where a name would mean something else.
var errNames = errors.New("a subquery gives its source the name of the document: choose another one")

// Substitute puts the expressions of computed properties in the place of their names. Columns
// and sources that were named after a property keep its name. What it puts in has no more bytes
// than a query may have.
func Substitute(text string, q *syntax.Query, computed map[string]string) (*syntax.Query, error) {
	if len(computed) == 0 || q.From == nil || q.From.In || q.From.Query != nil {
		return q, nil
	}
	if _, ok := q.From.Collection.(*syntax.Ident); !ok {
		return q, nil
	}
	grown, again := 0, false
	q.EachSource(func(s *syntax.Source) { again = again || s.Query != nil && binds(s.Query, q.From.Name) })
	q.Exprs(func(e syntax.Expr) { again = again || rebinds(e, q.From.Name) })
	exprs := make(map[string]func() (syntax.Expr, error))
	for name, body := range computed {
		e, alias, err := parseComputed(body)
		if err != nil {
			return nil, syntax.Errorf(text, 0, "computed property %s: %s", name, err)
		}
		to := q.From.Name
		exprs[name] = func() (syntax.Expr, error) {
			if again || alias != to && (rebinds(e, alias) || rebinds(e, to)) {
				return nil, syntax.Errorf(text, 0, "computed property %s: %s", name, errNames)
			}
			if grown += len(body); grown > syntax.MaxText {
				return nil, fmt.Errorf("computed properties make the query longer than %d bytes", syntax.MaxText)
			}
			return syntax.RewriteExpr(e, func(e syntax.Expr) (syntax.Expr, error) {
				if id, ok := e.(*syntax.Ident); ok && id.Name == alias {
					return &syntax.Ident{At: id.At, Name: to}, nil
				}
				return e, nil
			})
		}
	}
	root := q.From.Name
	return q.Rewrite(func(e syntax.Expr) (syntax.Expr, error) {
		m, ok := e.(*syntax.Member)
		if !ok {
			return e, nil
		}
		id, ok := m.Of.(*syntax.Ident)
		expr, known := exprs[m.Name]
		if !ok || !known || id.Name != root {
			return e, nil
		}
		return expr()
	})
}
