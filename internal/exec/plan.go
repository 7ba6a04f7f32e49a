package exec

import (
	"bytes"
	"context"
	"slices"
	"sync/atomic"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/query"
)

// planNode is a filter, or a part of one, as sets of terms. In a file it gives all
// documents for which the filter is true. If it is not exact, it gives others too.
type planNode struct {
	op    planOp
	spans []index.Span
	text  string // of planContaining
	sub   []*planNode
	apart bool // no document has more than one term of all spans

	asked atomic.Pointer[index.Question] // see question; nil: not computed yet
}

type planOp uint8

const (
	planAll        planOp = iota // all documents
	planNone                     // no document
	planSpans                    // those with a term of one of the spans
	planContaining               // those with a term of the span, if it is not known to be without text
	planAnd                      // those that all of sub give
	planOr                       // those that any of sub gives
	planMinus                    // those that sub[0] gives and sub[1] does not
)

// planner makes plans for the documents that a policy has indexed.
type planner struct {
	policy *index.Compiled
	// found leaves out spans that only narrow the search: a condition on the text of
	// strings then gives all documents, not those with a string at the path.
	found bool
	given []*query.Filter // conditions that are taken to be true
	names []string        // composite indexes that the plan uses
}

// plan returns the documents for which a filter is true, or with negated those
// for which it is false: undefined is neither.
func (p *planner) plan(f *query.Filter, negated bool) (n *planNode, exact bool) {
	switch f.Op {
	case query.All:
		if negated {
			return &planNode{op: planNone}, true
		}
		return &planNode{op: planAll}, true
	case query.Computed:
		return &planNode{op: planAll}, false
	case query.Not:
		return p.plan(f.Sub[0], !negated)
	case query.And, query.Or:
		op := planAnd
		if (f.Op == query.Or) != negated {
			op = planOr
		}
		named := len(p.names)
		if n, exact = p.combine(op, f.Sub, negated); len(n.spans)+len(n.sub) == 0 {
			p.names = p.names[:named] // the plan has nothing of them
		}
		return n, exact
	}
	if !negated && slices.Contains(p.given, f) {
		return &planNode{op: planAll}, true
	}
	yes, exact := p.leaf(f)
	if !negated && yes.op == planAll && !exact && len(p.policy.Composites()) > 0 {
		if _, parts, sure := p.composite([]*query.Filter{f}); len(parts) > 0 {
			return parts[0], sure
		}
	}
	if negated {
		yes, exact = p.opposite(f, yes, exact)
	}
	if yes.op == planSpans && !negated {
		yes.apart = !f.Path.Many() && f.Op != query.ArrayContains
	}
	return yes, exact
}

// combine joins the plans of several filters. A part that gives all documents is left
// out of an And, and makes an Or give all. A part that gives none is left out of an
// Or, and makes an And give none.
func (p *planner) combine(op planOp, filters []*query.Filter, negated bool) (*planNode, bool) {
	neutral, decides := planAll, planNone
	if op == planOr {
		neutral, decides = planNone, planAll
	}
	n := &planNode{op: op}
	exact := true
	if op == planAnd && !negated && p.given == nil && len(p.policy.Composites()) > 0 {
		var parts []*planNode
		filters = conjuncts(nil, &query.Filter{Op: query.And, Sub: filters})
		filters, parts, exact = p.composite(filters)
		for _, s := range parts {
			if s.op == planNone {
				return s, true
			}
			n.sub = append(n.sub, s)
		}
	}
	for _, f := range filters {
		s, e := p.plan(f, negated)
		if e && s.op == decides {
			return s, true
		}
		exact = exact && e
		if s.op == decides {
			n.op = decides
		}
		if s.op != neutral {
			n.sub = append(n.sub, s)
		}
	}
	switch {
	case n.op == decides:
		return &planNode{op: decides}, exact
	case len(n.sub) == 0:
		return &planNode{op: neutral}, exact
	case len(n.sub) == 1:
		return n.sub[0], exact
	}
	return n, exact
}

// leaf returns the documents for which a condition is true.
func (p *planner) leaf(f *query.Filter) (*planNode, bool) {
	path := indexPath(f.Path)
	scalars, containers := p.policy.Covers(path)
	all := &planNode{op: planAll}
	if f.Op == query.ArrayContains {
		path = path.Element()
		scalars, _ = p.policy.Covers(path)
	}
	if !scalars && !(f.Op == query.IsKind && f.Kinds&^containerKinds == 0) {
		return all, false
	}
	switch f.Op {
	case query.Eq, query.ArrayContains:
		return spansNode(index.Equal(path, indexValue(f.Value)))
	case query.Ne:
		return p.others(path, f.Value)
	case query.In:
		spans := make([]index.Span, 0, len(f.Values))
		for _, v := range f.Values {
			spans = append(spans, index.Equal(path, indexValue(v)))
		}
		slices.SortFunc(spans, func(a, b index.Span) int { return bytes.Compare(a.From, b.From) })
		return spansNode(slices.CompactFunc(spans, func(a, b index.Span) bool { return bytes.Equal(a.From, b.From) })...)
	case query.Range:
		return spansNode(index.Between(path, indexBound(f.Lo), indexBound(f.Hi)))
	case query.Prefix:
		return spansNode(index.HasPrefix(path, f.Value.Text))
	case query.Contains:
		if p.found {
			return all, false
		}
		strings := []index.Span{index.OfType(path, index.String)}
		if f.Value.Text == "" {
			return spansNode(strings...)
		}
		return &planNode{op: planContaining, spans: strings, text: f.Value.Text}, false
	case query.Exists:
		if !containers {
			return all, false
		}
		return spansNode(index.Exists(path))
	case query.IsKind:
		if !containers && f.Kinds&containerKinds != 0 {
			return all, false
		}
		var spans []index.Span
		for k := jsondoc.KindNull; k <= jsondoc.KindObject; k++ {
			if f.Kinds&(1<<k) != 0 {
				spans = append(spans, index.OfType(path, indexType(k)))
			}
		}
		return spansNode(spans...)
	}
	return all, false
}

const containerKinds = 1<<jsondoc.KindArray | 1<<jsondoc.KindObject

// others returns the documents with another value of the type of v.
func (p *planner) others(path index.Path, v query.Value) (*planNode, bool) {
	switch v.Kind {
	case jsondoc.KindNull:
		return &planNode{op: planNone}, true
	case jsondoc.KindBool:
		v.Bool = !v.Bool
		return spansNode(index.Equal(path, indexValue(v)))
	}
	equal := index.Equal(path, indexValue(v))
	all := index.OfType(path, indexType(v.Kind))
	if equal.Loose {
		n, _ := spansNode(all)
		return n, false
	}
	return spansNode(index.Span{From: all.From, To: equal.From}, index.Span{From: equal.To, To: all.To})
}

// opposite returns the documents for which a condition is false, given those
// for which it is true.
func (p *planner) opposite(f *query.Filter, yes *planNode, exact bool) (*planNode, bool) {
	path := indexPath(f.Path)
	scalars, containers := p.policy.Covers(path)
	var comparable *planNode // documents for which the condition is true or false
	switch f.Op {
	case query.Contains:
		if !exact && yes.op == planAll {
			return yes, false
		}
		comparable, _ = spansNode(index.OfType(path, index.String))
	case query.Exists, query.IsKind:
		comparable = &planNode{op: planAll}
	case query.ArrayContains:
		if !containers {
			return &planNode{op: planAll}, false
		}
		comparable, _ = spansNode(index.OfType(path, index.Array))
	case query.In:
		if !scalars || !containers && len(f.Values) == 0 {
			return &planNode{op: planAll}, false
		}
		if len(f.Values) == 0 {
			comparable, _ = spansNode(index.Exists(path)) // false for every value
			break
		}
		kind := f.Values[0].Kind
		if slices.ContainsFunc(f.Values, func(v query.Value) bool { return v.Kind != kind }) {
			return &planNode{op: planNone}, true // the condition is true or undefined
		}
		comparable, _ = spansNode(index.OfType(path, indexType(kind)))
	default:
		kind := f.Value.Kind
		if f.Op == query.Range {
			kind = f.RangeKind()
		}
		if !scalars {
			return &planNode{op: planAll}, false
		}
		comparable, _ = spansNode(index.OfType(path, indexType(kind)))
	}
	switch {
	case !exact:
		return comparable, false
	case yes.op == planNone:
		return comparable, true
	}
	return &planNode{op: planMinus, sub: []*planNode{comparable, yes}}, true
}

// spansNode returns the documents with a term of one of the spans.
func spansNode(spans ...index.Span) (*planNode, bool) {
	n := &planNode{op: planSpans, spans: make([]index.Span, 0, len(spans))}
	exact := true
	for _, s := range spans {
		if !s.Empty() {
			n.spans = append(n.spans, s)
		}
		exact = exact && !s.Loose
	}
	if len(n.spans) == 0 {
		return &planNode{op: planNone}, true
	}
	return n, exact
}

// indexPath converts a path of package query to one of package index.
func indexPath(p query.Path) (path index.Path) {
	for _, s := range p {
		if s.Element {
			path = path.Element()
		} else {
			path = path.Member(s.Name)
		}
	}
	return path
}

func indexType(k query.Kind) index.Type {
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

func indexValue(v query.Value) index.Value {
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

func indexBound(l query.Limit) index.Bound {
	if l.Value.Kind == jsondoc.KindUndefined {
		return index.Bound{}
	}
	return index.Bound{Value: indexValue(l.Value), Inclusive: l.Inclusive}
}

// planSets evaluates plans on one index after the other, and uses its sets and cursors
// again.
type planSets struct {
	ctx     context.Context // of the query; nil: the query cannot be cancelled
	free    []*index.Set
	cursors []*index.Cursor
	terms   int64 // terms that were looked at
}

func (p *planSets) ended() error { return lsm.Ended(p.ctx) }

// cursor returns a cursor over the terms of an index, which release takes back.
func (p *planSets) cursor(r *index.Reader) *index.Cursor {
	n := len(p.cursors)
	if n == 0 {
		return r.Cursor()
	}
	c := p.cursors[n-1]
	p.cursors = p.cursors[:n-1]
	c.Reset(r)
	return c
}

func (p *planSets) release(c *index.Cursor) {
	c.Reset(nil)
	p.cursors = append(p.cursors, c)
}

func (p *planSets) get(lo, hi uint32) *index.Set {
	if n := len(p.free); n > 0 {
		s := p.free[n-1]
		p.free = p.free[:n-1]
		s.Reset(lo, hi)
		return s
	}
	s := new(index.Set)
	s.Reset(lo, hi)
	return s
}

func (p *planSets) put(s *index.Set) { p.free = append(p.free, s) }

// eval returns the ordinals from lo to hi that a plan gives, including tombstones and
// overwritten versions.
func (p *planSets) eval(n *planNode, r *index.Reader, lo, hi uint32) (*index.Set, error) {
	s := p.get(lo, hi)
	switch n.op {
	case planAll:
		s.Fill()
	case planSpans:
		if err := p.addSpans(r, n.spans, s); err != nil {
			return nil, err
		}
	case planContaining:
		if err := p.addContaining(r, n, s); err != nil {
			return nil, err
		}
	case planOr:
		for _, sub := range n.sub {
			t, err := p.eval(sub, r, lo, hi)
			if err != nil {
				return nil, err
			}
			s.Or(t)
			p.put(t)
		}
	case planMinus:
		p.put(s)
		all, err := p.eval(n.sub[0], r, lo, hi)
		if err != nil {
			return nil, err
		}
		t, err := p.eval(n.sub[1], r, lo, hi)
		if err != nil {
			return nil, err
		}
		all.AndNot(t)
		p.put(t)
		return all, nil
	case planAnd:
		p.put(s)
		return p.and(n, r, lo, hi)
	}
	return s, nil
}

// and evaluates the parts of an And, those with the fewest documents first.
func (p *planSets) and(n *planNode, r *index.Reader, lo, hi uint32) (*index.Set, error) {
	parts, err := andParts(n, r)
	if err != nil {
		return nil, err
	}
	first, rest := &parts[0], parts[1:]
	var s *index.Set
	if first.large() && rest[0].large() && hi-lo >= chunkOrdinals {
		s = p.get(lo, hi)
		err = first.posting.AddBoth(&rest[0].posting, s)
		rest = rest[1:]
	} else {
		s, err = p.eval(first.planNode, r, lo, hi)
	}
	for i := range rest {
		if err != nil || s.Empty() {
			break
		}
		if rest[i].term {
			err = rest[i].posting.Retain(s)
			continue
		}
		var t *index.Set
		if t, err = p.eval(rest[i].planNode, r, lo, hi); err == nil {
			s.And(t)
			p.put(t)
		}
	}
	return s, err
}

// chunkOrdinals is the number of ordinals in one container of a bitmap.
const chunkOrdinals = 1 << 16

// andPart is a part of an And.
type andPart struct {
	*planNode
	term    bool // the part is a single term, with this posting
	posting index.Posting
	size    int // the most ordinals that it can give
}

func (a *andPart) large() bool { return a.term && a.posting.Kind() == index.Large }

// andParts returns the parts of an And, those that may give the fewest ordinals
// first.
func andParts(n *planNode, r *index.Reader) ([]andPart, error) {
	parts := make([]andPart, len(n.sub))
	for i, sub := range n.sub {
		a := andPart{planNode: sub, size: int(r.Info().Items)}
		if sub.op == planSpans && len(sub.spans) == 1 && oneTerm(&sub.spans[0]) {
			var err error
			if a.posting, _, err = r.Lookup(sub.spans[0].From); err != nil {
				return nil, err
			}
			a.term, a.size = true, a.posting.Len()
		}
		parts[i] = a
	}
	slices.SortStableFunc(parts, func(a, b andPart) int { return a.size - b.size })
	return parts, nil
}

// countable says that countTerms may be able to count.
func (n *planNode) countable() bool {
	return n.op == planAll || n.op == planAnd && len(n.sub) == 2 || n.op == planSpans && n.apart
}

// countTerms returns how many ordinals of the file a plan gives, those in dead
// excepted. It counts by the lengths of postings, or by the intersection of two; if
// these do not suffice, ok is false. dead may be nil. countTerms may change it.
func (n *planNode) countTerms(sets *planSets, r *index.Reader, dead *index.Set) (count int64, ok bool, err error) {
	switch {
	case n.op == planAll:
		count = int64(r.Info().Items)
		if dead != nil {
			count -= int64(dead.Count())
		}
		return count, true, nil
	case n.op == planAnd && len(n.sub) == 2:
		parts, err := andParts(n, r)
		if err != nil || !parts[0].term || !parts[1].term {
			return 0, false, err
		}
		if parts[0].size == 0 {
			return 0, true, nil
		}
		if !parts[0].large() {
			return 0, false, nil
		}
		both, err := parts[0].posting.CountBoth(&parts[1].posting)
		if dead != nil && err == nil {
			var n int
			if err = parts[0].posting.Retain(dead); err == nil {
				n, err = parts[1].posting.CountIn(dead)
			}
			both -= n
		}
		return int64(both), true, err
	case n.op != planSpans || !n.apart:
		return 0, false, nil
	}
	ctx := lsm.OrBackground(sets.ctx)
	find, done := sets.finder(r, len(n.spans))
	defer done()
	for i := range n.spans {
		span := &n.spans[i]
		if err := sets.ended(); err != nil {
			return 0, false, err
		}
		if oneTerm(span) {
			p, err := find(span.From)
			if err != nil {
				return 0, false, err
			}
			count += int64(p.Len())
			if dead != nil {
				n, err := p.CountIn(dead)
				if err != nil {
					return 0, false, err
				}
				count -= int64(n)
			}
			continue
		}
		terms, postings, err := r.Count(ctx, *span)
		sets.terms += terms
		if err != nil {
			return 0, false, err
		}
		count += postings
		if dead != nil {
			n, err := r.CountIn(ctx, *span, dead)
			if err != nil {
				return 0, false, err
			}
			count -= n
		}
	}
	return count, true, nil
}

// oneTerm says whether a span has exactly one term.
func oneTerm(s *index.Span) bool {
	return len(s.To) == len(s.From)+1 && s.To[len(s.From)] == 0 && string(s.To[:len(s.From)]) == string(s.From)
}

// fewLookups is the number of spans up to which each is looked up by itself.
const fewLookups = 8

// addSpans adds to set the ordinals that have a term of one of the spans.
func (p *planSets) addSpans(r *index.Reader, spans []index.Span, set *index.Set) error {
	find, done := p.finder(r, len(spans))
	defer done()
	for i := range spans {
		s := &spans[i]
		if err := p.ended(); err != nil {
			return err
		}
		if !oneTerm(s) {
			n, err := r.UnionCount(lsm.OrBackground(p.ctx), *s, set)
			p.terms += n
			if err != nil {
				return err
			}
			continue
		}
		posting, err := find(s.From)
		if err == nil {
			err = posting.AddTo(set)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addContaining adds to set the ordinals that have a term of the span of n whose string has
// the text, or may have it behind the place where the term is cut.
func (p *planSets) addContaining(r *index.Reader, n *planNode, set *index.Set) error {
	cur := p.cursor(r)
	defer p.release(cur)
	span := &n.spans[0]
	for ok := cur.Seek(span.From); ok && string(cur.Key()) < string(span.To); ok = cur.Next() {
		if err := p.ended(); err != nil {
			return err
		}
		p.terms++
		if text, whole := index.Text(cur.Key(), span); whole && !bytes.Contains(text, []byte(n.text)) {
			continue
		}
		if err := cur.Posting().AddTo(set); err != nil {
			return err
		}
	}
	return cur.Err()
}

// finder returns a function that finds the postings of so many terms, each by a lookup, or
// if they are many, and rise, by a cursor that goes from one to the next. The posting of a
// term that is not there is empty.
func (p *planSets) finder(r *index.Reader, n int) (find func(key []byte) (index.Posting, error), done func()) {
	if n <= fewLookups {
		return func(key []byte) (index.Posting, error) {
			p.terms++
			posting, _, err := r.Lookup(key)
			return posting, err
		}, func() {}
	}
	cur := p.cursor(r)
	return func(key []byte) (index.Posting, error) {
		p.terms++
		if !cur.Seek(key) || string(cur.Key()) != string(key) {
			return index.Posting{}, cur.Err()
		}
		return *cur.Posting(), nil
	}, func() { p.release(cur) }
}
