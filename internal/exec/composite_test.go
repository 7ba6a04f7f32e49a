package exec

import (
	"fmt"
	"testing"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/query"
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
	p := planner{policy: policy}
	if n, exact := p.plan(equal, false); n.op != planAnd || len(n.sub) != query.MaxLeaves/2 || len(p.names) != len(n.sub) || !exact {
		t.Errorf("equal values: %d parts, %d names, exact %v", len(n.sub), len(p.names), exact)
	}
	ranges := manyConditions(t, func(i int) (*query.Filter, error) {
		if i == 0 {
			return query.Leaf(query.Eq, "/a", 1)
		}
		return query.Leaf(query.Prefix, "/b", "prefix")
	})
	p = planner{policy: policy}
	if n, exact := p.plan(ranges, false); n.op != planSpans || len(n.spans) != 1 || len(p.names) != 1 || !exact {
		t.Errorf("one range: %d spans, names %v, exact %v", len(n.spans), p.names, exact)
	}
	b, err := query.ParsePath("/b")
	if err != nil {
		t.Fatal(err)
	}
	e := Execution{Query: Query{Select: &query.Select{Where: ranges, OrderBy: []query.Order{{Path: b}}}}}
	if o := e.compositeOrder(policy, true); o == nil || o.composite.String() != "/a, /b" || len(o.equal) != 1 || o.rest == nil || o.rest.op != planAll {
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
		op     planOp
		names  int
	}{
		{both, planSpans, 1},
		{either(equal("/c")), planOr, 1},
		{either(&query.Filter{Op: query.Computed}), planAll, 0},
	} {
		p := planner{policy: policy}
		if n, _ := p.plan(c.filter, false); n.op != c.op || len(p.names) != c.names {
			t.Errorf("filter %d: op %d, names %v", i, n.op, p.names)
		}
	}
}
