package exec

import (
	"bytes"
	"slices"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/query"
	"github.com/cleavestore/cleave/internal/termset"
)

// A composite index serves the conditions of an And that demand one value for each of its
// first paths, with a range for the path that follows. The documents that meet them have
// neighbouring terms. An order by the paths from one of these on, as declared or all turned
// round, is the order of the terms.

// compositeOrder returns the order of a query if a composite index has it: that of the
// terms of the documents that meet its conditions. nil: none has. exact is that of the plan.
func (e *Execution) compositeOrder(policy *index.Compiled, exact bool) *indexOrder {
	if len(policy.Composites()) == 0 {
		return nil
	}
	by := termset.NewByPath(termset.Conjuncts(nil, e.Select.Where))
	var best *indexOrder
	var match termset.Match
	fixed := 0 // paths before those of the order
	for _, x := range policy.Composites() {
		m := by.Match(x)
		if from, falling, ok := m.OrderedBy(e.Select.OrderBy); ok && (best == nil || m.Size() > match.Size()) {
			match, best, fixed = m, &indexOrder{composite: x, falling: falling, single: true}, from
		}
	}
	if best == nil {
		return nil
	}
	used, equal, span := by.Take(&match)
	best.equal, best.span = equal[:fixed], span
	if len(used) > 0 {
		p := termset.Planner{Policy: policy, Given: used}
		// Without the conditions of this index another one may not answer the rest.
		if rest, sure := p.Plan(e.Select.Where, false); sure || !exact {
			best.rest = rest
		}
	}
	return best
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
		text := termset.PathOf(path).String()
		if !path.Many() && len(path) > 0 && !slices.ContainsFunc(paths, func(p index.CompositePath) bool { return p.Path == text }) {
			paths = append(paths, index.CompositePath{Path: text, Descending: descending})
		}
	}
	for _, f := range termset.Conjuncts(nil, e.Select.Where) {
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
