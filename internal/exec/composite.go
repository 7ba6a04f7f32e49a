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
	fixed  int             // so many of its first paths have a condition that demands one value
	ranges []*query.Filter // conditions at the path that follows
}

// size returns the number of conditions.
func (m *compositeMatch) size() int { return m.fixed + len(m.ranges) }

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

// byPath are conditions that composite indexes may serve. An And may have thousands, and a policy
// a hundred indexes: a match looks at no condition.
type byPath map[pathUse][]*query.Filter

// pathUse is a path in conditions that demand one value there, or in those with a range.
type pathUse struct {
	path  index.Path
	equal bool
}

func newByPath(conditions []*query.Filter) byPath {
	by := make(byPath)
	for _, f := range conditions {
		if f.Op == query.Eq || f.Op == query.Range || f.Op == query.Prefix {
			at := pathUse{indexPath(f.Path), f.Op == query.Eq}
			by[at] = append(by[at], f)
		}
	}
	return by
}

// match returns the conditions that a composite index serves.
func (by byPath) match(x *index.Composite) compositeMatch {
	m := compositeMatch{Composite: x}
	for m.fixed < len(x.Paths) && len(by[pathUse{x.Paths[m.fixed], true}]) > 0 {
		m.fixed++
	}
	if m.fixed < len(x.Paths) {
		m.ranges = by[pathUse{x.Paths[m.fixed], false}]
	}
	return m
}

// take takes the conditions of a match out. It returns them with the values at the first paths
// and the span of the terms of the documents that meet them; without conditions, of all documents.
func (by byPath) take(m *compositeMatch) (used []*query.Filter, equal []index.Value, span index.Span) {
	for _, path := range m.Paths[:m.fixed] {
		at := pathUse{path, true}
		f := by[at][0]
		by[at] = by[at][1:]
		used, equal = append(used, f), append(equal, indexValue(f.Value))
	}
	span = m.Equal(equal)
	for _, f := range m.ranges {
		s := m.HasPrefix(equal, f.Value.Text)
		if f.Op == query.Range {
			s = m.Between(equal, indexBound(f.Lo), indexBound(f.Hi))
		}
		if bytes.Compare(s.From, span.From) > 0 {
			span.From = s.From
		}
		if bytes.Compare(s.To, span.To) < 0 {
			span.To = s.To
		}
		span.Loose = span.Loose || s.Loose
	}
	if len(m.ranges) > 0 {
		delete(by, pathUse{m.Paths[m.fixed], false})
	}
	return append(used, m.ranges...), equal, span
}

// composite takes the conditions that composite indexes serve best out of those of an And,
// and returns their parts of the plan.
func (p *planner) composite(conditions []*query.Filter) (rest []*query.Filter, parts []*planNode, exact bool) {
	exact = true
	by, served := newByPath(conditions), make(map[*query.Filter]bool)
	for {
		var best compositeMatch
		for _, x := range p.policy.Composites() {
			if m := by.match(x); m.size() > best.size() && p.serves(&m) {
				best = m
			}
		}
		if best.size() == 0 {
			return slices.DeleteFunc(slices.Clone(conditions), func(f *query.Filter) bool { return served[f] }), parts, exact
		}
		used, _, span := by.take(&best)
		for _, f := range used {
			served[f] = true
		}
		n, sure := spansNode(span)
		n.apart = n.op == planSpans
		parts, exact = append(parts, n), exact && sure
		p.names = append(p.names, best.String())
	}
}

// serves says whether a composite index serves conditions better than the indexes of
// single paths do.
func (p *planner) serves(m *compositeMatch) bool {
	if m.fixed > 0 && m.size() > 1 {
		return true // of several paths
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
	by := newByPath(conjuncts(nil, e.Select.Where))
	var best *indexOrder
	var match compositeMatch
	fixed := 0 // paths before those of the order
	for _, x := range policy.Composites() {
		m := by.match(x)
		if from, falling, ok := m.orderedBy(e.Select.OrderBy); ok && (best == nil || m.size() > match.size()) {
			match, best, fixed = m, &indexOrder{composite: x, falling: falling, single: true}, from
		}
	}
	if best == nil {
		return nil
	}
	used, equal, span := by.take(&match)
	best.equal, best.span = equal[:fixed], span
	if len(used) > 0 {
		p := planner{policy: policy, given: used}
		// Without the conditions of this index another one may not answer the rest.
		if rest, sure := p.plan(e.Select.Where, false); sure || !exact {
			best.rest = rest
		}
	}
	return best
}

// orderedBy says whether the terms of the composite index are, among the documents that
// meet the conditions, in an order or, falling, in its reverse. Its paths are those from one
// on: the paths before have one value.
func (m *compositeMatch) orderedBy(order []query.Order) (from int, falling, ok bool) {
	for from = 0; from <= m.fixed && from < len(m.Paths); from++ {
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
