package exec

import (
	"bytes"
	"slices"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/query"
)

// A composite index serves the conditions of an And that demand one value for each of its
// first paths, with a range for the path that follows. The documents that meet them have
// neighbouring terms. An order by the paths from one of these on, as declared or all turned
// round, is the order of the terms.

// compositeMatch is a composite index with the conditions that it serves.
type compositeMatch struct {
	*index.Composite
	equal []index.Value   // at the first paths
	span  index.Span      // of the terms of the documents that meet the conditions
	used  []*query.Filter // the conditions; none: span has all documents
}

// conjuncts appends the conditions that must all be true for an And to be true.
func conjuncts(list []*query.Filter, f *query.Filter) []*query.Filter {
	if f.Op != query.And {
		return append(list, f)
	}
	for _, s := range f.Sub {
		list = conjuncts(list, s)
	}
	return list
}

// matchComposite returns the conditions that a composite index serves.
func matchComposite(x *index.Composite, conditions []*query.Filter) compositeMatch {
	m := compositeMatch{Composite: x}
	for _, path := range x.Paths {
		i := slices.IndexFunc(conditions, func(f *query.Filter) bool { return f.Op == query.Eq && indexPath(f.Path) == path })
		if i < 0 {
			break
		}
		m.equal, m.used = append(m.equal, indexValue(conditions[i].Value)), append(m.used, conditions[i])
	}
	m.span = x.Equal(m.equal)
	if len(m.equal) == len(x.Paths) {
		return m
	}
	for _, f := range conditions {
		if f.Op != query.Range && f.Op != query.Prefix || indexPath(f.Path) != x.Paths[len(m.equal)] {
			continue
		}
		var s index.Span
		if f.Op == query.Range {
			s = x.Between(m.equal, indexBound(f.Lo), indexBound(f.Hi))
		} else {
			s = x.HasPrefix(m.equal, f.Value.Text)
		}
		m.used = append(m.used, f)
		if bytes.Compare(s.From, m.span.From) > 0 {
			m.span.From = s.From
		}
		if bytes.Compare(s.To, m.span.To) < 0 {
			m.span.To = s.To
		}
		m.span.Loose = m.span.Loose || s.Loose
	}
	return m
}

// composite takes the conditions that composite indexes serve best out of those of an And,
// and returns their parts of the plan.
func (p *planner) composite(conditions []*query.Filter) (rest []*query.Filter, parts []*planNode, exact bool) {
	exact = true
	for {
		var best compositeMatch
		for _, x := range p.policy.Composites() {
			if m := matchComposite(x, conditions); len(m.used) > len(best.used) && p.serves(&m) {
				best = m
			}
		}
		if len(best.used) == 0 {
			return conditions, parts, exact
		}
		n, sure := spansNode(best.span)
		n.apart = n.op == planSpans
		parts, exact = append(parts, n), exact && sure
		p.names = append(p.names, best.String())
		conditions = slices.DeleteFunc(slices.Clone(conditions), func(f *query.Filter) bool { return slices.Contains(best.used, f) })
	}
}

// serves says whether a composite index serves conditions better than the indexes of
// single paths do.
func (p *planner) serves(m *compositeMatch) bool {
	path := m.used[0].Path.String()
	if slices.ContainsFunc(m.used, func(f *query.Filter) bool { return f.Path.String() != path }) {
		return true
	}
	scalars, _ := p.policy.Covers(m.Paths[0])
	return !scalars
}

// compositeOrder returns the order of a query if a composite index has it: that of the
// terms of the documents that meet its conditions. nil: none has. exact is that of the plan.
func (e *Execution) compositeOrder(policy *index.Compiled, exact bool) *indexOrder {
	if len(policy.Composites()) == 0 {
		return nil
	}
	conditions := conjuncts(nil, e.Select.Where)
	var best *indexOrder
	used := 0
	for _, x := range policy.Composites() {
		m := matchComposite(x, conditions)
		from, falling, ok := m.orderedBy(e.Select.OrderBy)
		if !ok || best != nil && len(m.used) <= used {
			continue
		}
		used = len(m.used)
		best = &indexOrder{composite: x, equal: m.equal[:from], span: m.span, falling: falling, single: true}
		if used > 0 {
			p := planner{policy: policy, given: m.used}
			// Without the conditions of this index another one may not answer the rest.
			if rest, sure := p.plan(e.Select.Where, false); sure || !exact {
				best.rest = rest
			}
		}
	}
	return best
}

// orderedBy says whether the terms of the composite index are, among the documents that
// meet the conditions, in an order or, falling, in its reverse. Its paths are those from one
// on: the paths before have one value.
func (m *compositeMatch) orderedBy(order []query.Order) (from int, falling, ok bool) {
	for from = 0; from <= len(m.equal) && from < len(m.Paths); from++ {
		if len(m.Paths)-from != len(order) {
			continue
		}
		falling = order[0].Falling != m.Descending[from]
		ok = true
		for i, o := range order {
			ok = ok && indexPath(o.Path) == m.Paths[from+i] && o.Falling != m.Descending[from+i] == falling
		}
		return from, falling, ok
	}
	return 0, false, false
}

// beginComposite makes an order by a composite index begin at an order key, which may be
// followed by other bytes. n is the length of the order key; 0: it is none.
func (o *indexOrder) beginComposite(after []byte) (n int) {
	key := bytes.Clone(after)
	if o.falling {
		query.Invert(key)
	}
	s, n, whole, ok := o.composite.After(o.equal, key)
	if !ok {
		return 0
	}
	o.after = &orderPoint{whole: whole, value: s}
	return n
}

// takeComposite is take for the terms of a composite index. Of a term with a string that was
// cut the order is known up to this string: all such terms that begin alike are taken
// together.
func (w *orderWalk) takeComposite(at []*orderSource) (bool, error) {
	a := w.o.after
	term := at[0].cur.Key()
	key, cut, ok := w.o.composite.Order(term, len(w.o.equal))
	if !ok {
		s := at[0]
		return false, s.r.Corrupt(s.cur.Posting())
	}
	begins := a != nil && string(term) >= string(a.value.From) && string(term) < string(a.value.To)
	if cut && string(key) == w.group {
		taken := w.taken
		err := w.takeTerm(at, nil, false)
		if begins && !a.whole {
			w.taken = taken
		}
		return true, err
	}
	w.value = append(w.value[:0:0], key...)
	if w.o.falling {
		query.Invert(w.value)
	}
	w.to = 0
	if !cut && !w.beginKey(append(w.c.keys, w.value...)) {
		w.more = true
		return false, nil
	}
	if w.taken >= w.most {
		w.leave(w.value)
		return false, nil
	}
	w.group = ""
	if cut {
		w.group = string(key)
	}
	if begins && !a.whole {
		err := w.takeTerm(at, nil, false) // it is not known which of these come behind the point
		w.taken = 0
		return true, err
	}
	if begins {
		return true, w.takeTerm(at, &a.key, !cut)
	}
	return true, w.takeTerm(at, nil, !cut)
}

// composites returns the composite indexes that the query uses.
func (e *Execution) composites() (names []string) {
	if e.look != nil {
		names = slices.Clone(e.look.composites)
	}
	if e.byIndex() && e.ordered.composite != nil && !slices.Contains(names, e.ordered.composite.String()) {
		names = append(names, e.ordered.composite.String())
	}
	return names
}

// suggestComposite returns a composite index with which the query would find its results in
// their order, where no index gives it, or nil. The conditions that demand one value come first.
func (e *Execution) suggestComposite() []index.CompositePath {
	order := e.Select.OrderBy
	if e.Select.Grouped() || len(order) == 0 || !e.bounded() || e.ordered != nil && e.ordered.composite != nil {
		return nil
	}
	var paths []index.CompositePath
	add := func(path query.Path, descending bool) {
		text := indexPath(path).String()
		if !path.Many() && len(path) > 0 && !slices.ContainsFunc(paths, func(p index.CompositePath) bool { return p.Path == text }) {
			paths = append(paths, index.CompositePath{Path: text, Descending: descending})
		}
	}
	for _, f := range conjuncts(nil, e.Select.Where) {
		ordered := slices.ContainsFunc(order, func(o query.Order) bool { return o.Path.String() == f.Path.String() })
		if f.Op == query.Eq && f.Value.Kind != jsondoc.KindUndefined && !ordered {
			add(f.Path, false)
		}
	}
	for _, o := range order {
		add(o.Path, o.Falling)
	}
	if len(paths) < 2 || len(paths) > index.MaxCompositePaths {
		return nil
	}
	return paths
}
