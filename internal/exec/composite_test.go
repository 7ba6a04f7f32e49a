package exec

import (
	"fmt"
	"testing"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/query"
	"github.com/cleavestore/cleave/internal/termset"
)

// manyComposites returns a policy with as many composite indexes as one may have: of /a and /b, and of
// one of these with a path that no other has.
func manyComposites(t *testing.T) *index.Compiled {
	policy := index.Policy{Include: []string{"/*"}, Composite: [][]index.CompositePath{{{Path: "/a"}, {Path: "/b"}}}}
	for i := len(policy.Composite); i < index.MaxComposites; i++ {
		policy.Composite = append(policy.Composite, []index.CompositePath{{Path: "/" + string("ab"[i%2])}, {Path: fmt.Sprintf("/c%d", i)}})
	}
	c, err := index.Compile(policy)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// manyConditions returns an And of as many conditions as a filter may have.
func manyConditions(t *testing.T, leaf func(i int) (*query.Filter, error)) *query.Filter {
	and := &query.Filter{Op: query.And}
	for i := range query.MaxLeaves {
		f, err := leaf(i)
		if err != nil {
			t.Fatal(err)
		}
		and.Sub = append(and.Sub, f)
	}
	if err := and.Check(); err != nil {
		t.Fatal(err)
	}
	return and.Simplify()
}

// TestPlanOfManyConditions plans the largest filters with the most composite indexes. Looking at all
// conditions for each index, and again for each that is used, takes hours.
func TestPlanOfManyConditions(t *testing.T) {
	policy := manyComposites(t)
	equal := manyConditions(t, func(i int) (*query.Filter, error) {
		return query.Leaf(query.Eq, "/"+string("ab"[i%2]), i/2)
	})
	p := termset.Planner{Policy: policy}
	if n, exact := p.Plan(equal, false); n.Op != termset.And || len(n.Sub) != query.MaxLeaves/2 || len(p.Names) != len(n.Sub) || !exact {
		t.Errorf("equal values: %d parts, %d names, exact %v", len(n.Sub), len(p.Names), exact)
	}
	ranges := manyConditions(t, func(i int) (*query.Filter, error) {
		if i == 0 {
			return query.Leaf(query.Eq, "/a", 1)
		}
		return query.Leaf(query.Prefix, "/b", "prefix")
	})
	p = termset.Planner{Policy: policy}
	if n, exact := p.Plan(ranges, false); n.Op != termset.Spans || len(n.Spans) != 1 || len(p.Names) != 1 || !exact {
		t.Errorf("one range: %d spans, names %v, exact %v", len(n.Spans), p.Names, exact)
	}
	b, err := query.ParsePath("/b")
	if err != nil {
		t.Fatal(err)
	}
	e := Execution{Query: Query{Select: &query.Select{Where: ranges, OrderBy: []query.Order{{Path: b}}}}}
	if o := e.compositeOrder(policy, true); o == nil || o.composite.String() != "/a, /b" || len(o.equal) != 1 || o.rest == nil || o.rest.Op != termset.All {
		t.Errorf("order: %+v", o)
	}
}

// TestNamesOfComposites: only the composite indexes whose parts are in the plan are named.
func TestNamesOfComposites(t *testing.T) {
	policy := manyComposites(t)
	equal := func(path string) *query.Filter {
		f, err := query.Leaf(query.Eq, path, 1)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	both := &query.Filter{Op: query.And, Sub: []*query.Filter{equal("/a"), equal("/b")}}
	either := func(f *query.Filter) *query.Filter { return &query.Filter{Op: query.Or, Sub: []*query.Filter{both, f}} }
	for i, c := range []struct {
		filter *query.Filter
		op     termset.Op
		names  int
	}{
		{both, termset.Spans, 1},
		{either(equal("/c")), termset.Or, 1},
		{either(&query.Filter{Op: query.Computed}), termset.All, 0},
	} {
		p := termset.Planner{Policy: policy}
		if n, _ := p.Plan(c.filter, false); n.Op != c.op || len(p.Names) != c.names {
			t.Errorf("filter %d: op %d, names %v", i, n.Op, p.Names)
		}
	}
}
