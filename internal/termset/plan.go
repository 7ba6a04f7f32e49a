package termset

import (
	"bytes"
	"slices"
	"sync/atomic"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/query"
)

// Plan is a filter, or a part of one, as sets of terms. In a file it gives all
// documents for which the filter is true. If it is not exact, it gives others too.
type Plan struct {
	Op    Op
	Spans []index.Span
	text  string // of Containing
	Sub   []*Plan
	apart bool // no document has more than one term of all spans

	asked atomic.Pointer[index.Question] // see Question; nil: not computed yet
}

// Op says what a plan is made of.
type Op uint8

// Ops.
const (
	All        Op = iota // all documents
	None                 // no document
	Spans                // those with a term of one of the spans
	Containing           // those with a term of the span, if it is not known to be without text
	And                  // those that all of Sub give
	Or                   // those that any of Sub gives
	Minus                // those that Sub[0] gives and Sub[1] does not
)

// Planner makes plans for the documents that a policy has indexed.
type Planner struct {
	Policy *index.Compiled
	// Found leaves out spans that only narrow the search: a condition on the text of
	// strings then gives all documents, not those with a string at the path.
	Found bool
	Given []*query.Filter // conditions that are taken to be true
	Names []string        // composite indexes that the plan uses
}

// Plan returns the documents for which a filter is true, or with negated those
// for which it is false: undefined is neither.
func (p *Planner) Plan(f *query.Filter, negated bool) (n *Plan, exact bool) {
	switch f.Op {
	case query.All:
		if negated {
			return &Plan{Op: None}, true
		}
		return &Plan{Op: All}, true
	case query.Computed:
		return &Plan{Op: All}, false
	case query.Not:
		return p.Plan(f.Sub[0], !negated)
	case query.And, query.Or:
		op := And
		if (f.Op == query.Or) != negated {
			op = Or
		}
		named := len(p.Names)
		if n, exact = p.combine(op, f.Sub, negated); len(n.Spans)+len(n.Sub) == 0 {
			p.Names = p.Names[:named] // the plan has nothing of them
		}
		return n, exact
	}
	if !negated && slices.Contains(p.Given, f) {
		return &Plan{Op: All}, true
	}
	yes, exact := p.Leaf(f)
	if !negated && yes.Op == All && !exact && len(p.Policy.Composites()) > 0 {
		if _, parts, sure := p.composite([]*query.Filter{f}); len(parts) > 0 {
			return parts[0], sure
		}
	}
	if negated {
		yes, exact = p.opposite(f, yes, exact)
	}
	if yes.Op == Spans && !negated {
		yes.apart = !f.Path.Many() && f.Op != query.ArrayContains
	}
	return yes, exact
}

// combine joins the plans of several filters. A part that gives all documents is left
// out of an And, and makes an Or give all. A part that gives none is left out of an
// Or, and makes an And give none.
func (p *Planner) combine(op Op, filters []*query.Filter, negated bool) (*Plan, bool) {
	neutral, decides := All, None
	if op == Or {
		neutral, decides = None, All
	}
	n := &Plan{Op: op}
	exact := true
	if op == And && !negated && p.Given == nil && len(p.Policy.Composites()) > 0 {
		var parts []*Plan
		filters = Conjuncts(nil, &query.Filter{Op: query.And, Sub: filters})
		filters, parts, exact = p.composite(filters)
		for _, s := range parts {
			if s.Op == None {
				return s, true
			}
			n.Sub = append(n.Sub, s)
		}
	}
	for _, f := range filters {
		s, e := p.Plan(f, negated)
		if e && s.Op == decides {
			return s, true
		}
		exact = exact && e
		if s.Op == decides {
			n.Op = decides
		}
		if s.Op != neutral {
			n.Sub = append(n.Sub, s)
		}
	}
	switch {
	case n.Op == decides:
		return &Plan{Op: decides}, exact
	case len(n.Sub) == 0:
		return &Plan{Op: neutral}, exact
	case len(n.Sub) == 1:
		return n.Sub[0], exact
	}
	return n, exact
}

// Leaf returns the documents for which a condition is true.
func (p *Planner) Leaf(f *query.Filter) (*Plan, bool) {
	path := PathOf(f.Path)
	scalars, containers := p.Policy.Covers(path)
	all := &Plan{Op: All}
	if f.Op == query.ArrayContains {
		path = path.Element()
		scalars, _ = p.Policy.Covers(path)
	}
	if !scalars && !(f.Op == query.IsKind && f.Kinds&^ContainerKinds == 0) {
		return all, false
	}
	switch f.Op {
	case query.Eq, query.ArrayContains:
		return spansNode(index.Equal(path, ValueOf(f.Value)))
	case query.Ne:
		return p.others(path, f.Value)
	case query.In:
		spans := make([]index.Span, 0, len(f.Values))
		for _, v := range f.Values {
			spans = append(spans, index.Equal(path, ValueOf(v)))
		}
		slices.SortFunc(spans, func(a, b index.Span) int { return bytes.Compare(a.From, b.From) })
		return spansNode(slices.CompactFunc(spans, func(a, b index.Span) bool { return bytes.Equal(a.From, b.From) })...)
	case query.Range:
		return spansNode(index.Between(path, boundOf(f.Lo), boundOf(f.Hi)))
	case query.Prefix:
		return spansNode(index.HasPrefix(path, f.Value.Text))
	case query.Contains:
		if p.Found {
			return all, false
		}
		strings := []index.Span{index.OfType(path, index.String)}
		if f.Value.Text == "" {
			return spansNode(strings...)
		}
		return &Plan{Op: Containing, Spans: strings, text: f.Value.Text}, false
	case query.Exists:
		if !containers {
			return all, false
		}
		return spansNode(index.Exists(path))
	case query.IsKind:
		if !containers && f.Kinds&ContainerKinds != 0 {
			return all, false
		}
		var spans []index.Span
		for k := jsondoc.KindNull; k <= jsondoc.KindObject; k++ {
			if f.Kinds&(1<<k) != 0 {
				spans = append(spans, index.OfType(path, TypeOf(k)))
			}
		}
		return spansNode(spans...)
	}
	return all, false
}

// ContainerKinds are the kinds of values that contain others.
const ContainerKinds = 1<<jsondoc.KindArray | 1<<jsondoc.KindObject

// others returns the documents with another value of the type of v.
func (p *Planner) others(path index.Path, v query.Value) (*Plan, bool) {
	switch v.Kind {
	case jsondoc.KindNull:
		return &Plan{Op: None}, true
	case jsondoc.KindBool:
		v.Bool = !v.Bool
		return spansNode(index.Equal(path, ValueOf(v)))
	}
	equal := index.Equal(path, ValueOf(v))
	all := index.OfType(path, TypeOf(v.Kind))
	if equal.Loose {
		n, _ := spansNode(all)
		return n, false
	}
	return spansNode(index.Span{From: all.From, To: equal.From}, index.Span{From: equal.To, To: all.To})
}

// opposite returns the documents for which a condition is false, given those
// for which it is true.
func (p *Planner) opposite(f *query.Filter, yes *Plan, exact bool) (*Plan, bool) {
	path := PathOf(f.Path)
	scalars, containers := p.Policy.Covers(path)
	var comparable *Plan // documents for which the condition is true or false
	switch f.Op {
	case query.Contains:
		if !exact && yes.Op == All {
			return yes, false
		}
		comparable, _ = spansNode(index.OfType(path, index.String))
	case query.Exists, query.IsKind:
		comparable = &Plan{Op: All}
	case query.ArrayContains:
		if !containers {
			return &Plan{Op: All}, false
		}
		comparable, _ = spansNode(index.OfType(path, index.Array))
	case query.In:
		if !scalars || !containers && len(f.Values) == 0 {
			return &Plan{Op: All}, false
		}
		if len(f.Values) == 0 {
			comparable, _ = spansNode(index.Exists(path)) // false for every value
			break
		}
		kind := f.Values[0].Kind
		if slices.ContainsFunc(f.Values, func(v query.Value) bool { return v.Kind != kind }) {
			return &Plan{Op: None}, true // the condition is true or undefined
		}
		comparable, _ = spansNode(index.OfType(path, TypeOf(kind)))
	default:
		kind := f.Value.Kind
		if f.Op == query.Range {
			kind = f.RangeKind()
		}
		if !scalars {
			return &Plan{Op: All}, false
		}
		comparable, _ = spansNode(index.OfType(path, TypeOf(kind)))
	}
	switch {
	case !exact:
		return comparable, false
	case yes.Op == None:
		return comparable, true
	}
	return &Plan{Op: Minus, Sub: []*Plan{comparable, yes}}, true
}

// spansNode returns the documents with a term of one of the spans.
func spansNode(spans ...index.Span) (*Plan, bool) {
	n := &Plan{Op: Spans, Spans: make([]index.Span, 0, len(spans))}
	exact := true
	for _, s := range spans {
		if !s.Empty() {
			n.Spans = append(n.Spans, s)
		}
		exact = exact && !s.Loose
	}
	if len(n.Spans) == 0 {
		return &Plan{Op: None}, true
	}
	return n, exact
}

// PathOf converts a path of package query to one of package index.
func PathOf(p query.Path) (path index.Path) {
	for _, s := range p {
		if s.Element {
			path = path.Element()
		} else {
			path = path.Member(s.Name)
		}
	}
	return path
}

// TypeOf returns the type that a kind of values has in indexes.
func TypeOf(k query.Kind) index.Type {
	switch k {
	case jsondoc.KindNull:
		return index.Null
	case jsondoc.KindBool:
		return index.Bool
	case jsondoc.KindNumber:
		return index.Number
	case jsondoc.KindString:
		return index.String
	case jsondoc.KindArray:
		return index.Array
	}
	return index.Object
}

// ValueOf returns a scalar as indexes have it.
func ValueOf(v query.Value) index.Value {
	switch v.Kind {
	case jsondoc.KindNull:
		return index.NullValue()
	case jsondoc.KindBool:
		return index.BoolValue(v.Bool)
	case jsondoc.KindNumber:
		return index.NumberValue(v.Number)
	}
	return index.StringValue(v.Text)
}

func boundOf(l query.Limit) index.Bound {
	if l.Value.Kind == jsondoc.KindUndefined {
		return index.Bound{}
	}
	return index.Bound{Value: ValueOf(l.Value), Inclusive: l.Inclusive}
}

// Without returns the plan without its demand for a term of a span. It returns nil
// if that demand is neither the whole plan nor one of the operands of an And.
func (n *Plan) Without(span index.Span) *Plan {
	demands := func(n *Plan) bool {
		return n.Op == Spans && len(n.Spans) == 1 && bytes.Equal(n.Spans[0].From, span.From) && bytes.Equal(n.Spans[0].To, span.To)
	}
	if demands(n) {
		return &Plan{Op: All}
	}
	if n.Op != And {
		return nil
	}
	for i, sub := range n.Sub {
		if demands(sub) {
			others := append(append([]*Plan{}, n.Sub[:i]...), n.Sub[i+1:]...)
			if len(others) == 1 {
				return others[0]
			}
			return &Plan{Op: And, Sub: others}
		}
	}
	return nil
}

// ValuesAt returns the plan for the documents with a value at a path.
func ValuesAt(path index.Path) *Plan {
	return &Plan{Op: Spans, Spans: []index.Span{index.Exists(path)}}
}
