package termset

import (
	"bytes"
	"slices"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/query"
)

// Match is a composite index with the conditions that it serves.
type Match struct {
	*index.Composite
	Fixed  int             // so many of its first paths have a condition that demands one value
	ranges []*query.Filter // conditions at the path that follows
}

// Size returns the number of conditions.
func (m *Match) Size() int { return m.Fixed + len(m.ranges) }

// Conjuncts appends the conditions that must all be true for an And to be true.
func Conjuncts(list []*query.Filter, f *query.Filter) []*query.Filter {
	if f.Op != query.And {
		return append(list, f)
	}
	for _, s := range f.Sub {
		list = Conjuncts(list, s)
	}
	return list
}

// ByPath are conditions that composite indexes may serve. An And may have thousands, and a policy
// a hundred indexes: a match looks at no condition.
type ByPath map[pathUse][]*query.Filter

// pathUse is a path in conditions that demand one value there, or in those with a range.
type pathUse struct {
	path  index.Path
	equal bool
}

// NewByPath sorts conditions by their paths.
func NewByPath(conditions []*query.Filter) ByPath {
	by := make(ByPath)
	for _, f := range conditions {
		if f.Op == query.Eq || f.Op == query.Range || f.Op == query.Prefix {
			at := pathUse{PathOf(f.Path), f.Op == query.Eq}
			by[at] = append(by[at], f)
		}
	}
	return by
}

// Match returns the conditions that a composite index serves.
func (by ByPath) Match(x *index.Composite) Match {
	m := Match{Composite: x}
	for m.Fixed < len(x.Paths) && len(by[pathUse{x.Paths[m.Fixed], true}]) > 0 {
		m.Fixed++
	}
	if m.Fixed < len(x.Paths) {
		m.ranges = by[pathUse{x.Paths[m.Fixed], false}]
	}
	return m
}

// Take takes the conditions of a match out. It returns them with the values at the first paths
// and the span of the terms of the documents that meet them; without conditions, of all documents.
func (by ByPath) Take(m *Match) (used []*query.Filter, equal []index.Value, span index.Span) {
	for _, path := range m.Paths[:m.Fixed] {
		at := pathUse{path, true}
		f := by[at][0]
		by[at] = by[at][1:]
		used, equal = append(used, f), append(equal, ValueOf(f.Value))
	}
	span = m.Equal(equal)
	for _, f := range m.ranges {
		s := m.HasPrefix(equal, f.Value.Text)
		if f.Op == query.Range {
			s = m.Between(equal, boundOf(f.Lo), boundOf(f.Hi))
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
		delete(by, pathUse{m.Paths[m.Fixed], false})
	}
	return append(used, m.ranges...), equal, span
}

// composite takes the conditions that composite indexes serve best out of those of an And,
// and returns their parts of the plan.
func (p *Planner) composite(conditions []*query.Filter) (rest []*query.Filter, parts []*Plan, exact bool) {
	exact = true
	by, served := NewByPath(conditions), make(map[*query.Filter]bool)
	for {
		var best Match
		for _, x := range p.Policy.Composites() {
			if m := by.Match(x); m.Size() > best.Size() && p.serves(&m) {
				best = m
			}
		}
		if best.Size() == 0 {
			return slices.DeleteFunc(slices.Clone(conditions), func(f *query.Filter) bool { return served[f] }), parts, exact
		}
		used, _, span := by.Take(&best)
		for _, f := range used {
			served[f] = true
		}
		n, sure := spansNode(span)
		n.apart = n.Op == Spans
		parts, exact = append(parts, n), exact && sure
		p.Names = append(p.Names, best.String())
	}
}

// serves says whether a composite index serves conditions better than the indexes of
// single paths do.
func (p *Planner) serves(m *Match) bool {
	if m.Fixed > 0 && m.Size() > 1 {
		return true // of several paths
	}
	scalars, _ := p.Policy.Covers(m.Paths[0])
	return !scalars
}

// OrderedBy says whether the terms of the composite index are, among the documents that
// meet the conditions, in an order or, falling, in its reverse. Its paths are those from one
// on: the paths before have one value.
func (m *Match) OrderedBy(order []query.Order) (from int, falling, ok bool) {
	for from = 0; from <= m.Fixed && from < len(m.Paths); from++ {
		if len(m.Paths)-from != len(order) {
			continue
		}
		falling = order[0].Falling != m.Descending[from]
		ok = true
		for i, o := range order {
			ok = ok && PathOf(o.Path) == m.Paths[from+i] && o.Falling != m.Descending[from+i] == falling
		}
		return from, falling, ok
	}
	return 0, false, false
}
