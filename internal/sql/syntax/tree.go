package syntax

import "github.com/cleavestore/cleave/internal/sql/value"

// Query is a query or a subquery.
type Query struct {
	At       int // offset of SELECT
	Distinct bool
	Top      *Count // nil: none
	Star     bool   // SELECT *
	Value    bool   // SELECT VALUE; Items then has one
	Items    []Item
	From     *Source // nil: there is no FROM
	Joins    []*Source
	Where    Expr // nil: none
	GroupBy  []Expr
	OrderBy  []Order
	Offset   *Count // nil: none
	Limit    *Count // nil: none
}

// Item is a column of the results.
type Item struct {
	Expr Expr
	As   string // "": none was given
}

// Order is an expression by which results are ordered.
type Order struct {
	Expr Expr
	Desc bool
}

// Count is a number of results: a constant, or a parameter.
type Count struct {
	At    int
	N     int
	Param string // "": N counts
}

// Source is what FROM or JOIN names: a collection as a whole, or with In each element of it.
type Source struct {
	At   int
	Name string // of what it gives
	In   bool
	// Collection is an Ident, or a path that begins with one.
	Collection Expr
	Query      *Query // instead of Collection
	// Named says that the source was given its name. Otherwise Name is the last name of
	// its path.
	Named bool
}

// Expr is an expression: one of the pointers below.
type Expr interface {
	// Pos is the offset of the expression in its text.
	Pos() int
}

// At is the offset of an expression in its text.
type At int

// Pos implements Expr.
func (a At) Pos() int { return int(a) }

type (
	// Literal is a constant.
	Literal struct {
		At
		V value.Value
	}
	// Param is a parameter, named without its @.
	Param struct {
		At
		Name string
	}
	// Ident is the name of a source.
	Ident struct {
		At
		Name string
	}
	// Member is the member of an object that a name tells.
	Member struct {
		At
		Of   Expr
		Name string
	}
	// Index is the element or member that an expression tells.
	Index struct {
		At
		Of, By Expr
	}
	// Each stands for any element of an array: a path with it has several values. Sign is the
	// offset of its brackets.
	Each struct {
		At
		Of   Expr
		Sign int
	}
	// Unary is NOT, -, + or ~.
	Unary struct {
		At
		Op string
		X  Expr
	}
	// Binary is an operator between two expressions.
	Binary struct {
		At
		Op   string
		L, R Expr
	}
	// Logic is AND or OR between two or more expressions.
	Logic struct {
		At
		Or   bool
		List []Expr
	}
	// Between is X [NOT] BETWEEN Lo AND Hi.
	Between struct {
		At
		X, Lo, Hi Expr
		Not       bool
	}
	// In is X [NOT] IN (List).
	In struct {
		At
		X    Expr
		List []Expr
		Not  bool
	}
	// Like is X [NOT] LIKE Pattern [ESCAPE Escape].
	Like struct {
		At
		X, Pattern, Escape Expr // Escape may be nil
		Not                bool
	}
	// Cond is If ? Then : Else.
	Cond struct {
		At
		If, Then, Else Expr
	}
	// Call is a call of a function.
	Call struct {
		At
		Name string // in capitals; of a UDF as it was written
		UDF  bool
		Args []Expr
	}
	// Object makes an object.
	Object struct {
		At
		Names []string
		List  []Expr
	}
	// Array makes an array.
	Array struct {
		At
		List []Expr
	}
	// Sub is a subquery in an expression.
	Sub struct {
		At
		Kind SubKind
		Q    *Query
	}
)

// SubKind says what an expression takes of a subquery.
type SubKind uint8

// Kinds.
const (
	SubScalar SubKind = iota // its only result; undefined if there is none
	SubExists                // whether it has results
	SubArray                 // an array of its results
)
