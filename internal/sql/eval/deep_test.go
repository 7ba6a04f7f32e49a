package eval

import (
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/sql/syntax"
)

// TestDeepExpressions: what is compiled of a deep expression beside GROUP BY or DISTINCT does not grow with
// the product of its levels and its text.
func TestDeepExpressions(t *testing.T) {
	chain := func(begin string, levels int) string { return begin + strings.Repeat(" || '0123456789'", levels) }
	made := func(text string) float64 {
		tree, err := syntax.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return testing.AllocsPerRun(1, func() {
			if _, err := Compile(text, tree, Options{}); err != nil {
				t.Errorf("%.60s: error %v", text, err)
			}
		})
	}
	for _, text := range []func(levels int) string{
		func(n int) string { return "SELECT VALUE " + chain("MAX(c.b)", n) + " FROM c GROUP BY c.a" },
		func(n int) string { return "SELECT VALUE " + chain("c.a", n+1) + " FROM c GROUP BY " + chain("c.a", n) },
		func(n int) string { return "SELECT DISTINCT VALUE c.a FROM c ORDER BY " + chain("c.a", n) },
	} {
		few, many := made(text(90)), made(text(900))
		t.Logf("%.60s: %.0f and %.0f allocations", text(1), few, many)
		if many > 12*few {
			t.Errorf("%.60s: %.0f allocations of 90 levels, %.0f of 900", text(1), few, many)
		}
	}
}

// TestManySubqueries: what is compiled of a subquery in an expression has no error for the case that it has several results, for which the
// text before it is counted through: thousands of them in a long text would take as many walks through it.
func TestManySubqueries(t *testing.T) {
	const many = 1000
	made := func(subquery string) float64 {
		text := "SELECT VALUE [1" + strings.Repeat(", "+subquery, many) + "] FROM c"
		tree, err := syntax.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return testing.AllocsPerRun(1, func() {
			if _, err := Compile(text, tree, Options{}); err != nil {
				t.Error(err)
			}
		})
	}
	one, list := made("(SELECT VALUE x FROM x IN c.t)"), made("ARRAY(SELECT VALUE x FROM x IN c.t)")
	if one > list+many/2 {
		t.Errorf("%.0f allocations for %d subqueries of one result, %.0f for as many lists", one, many, list)
	}
}
