package termset

import (
	"bytes"
	"context"
	"slices"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/lsm"
)

// Sets evaluates plans on one index after the other, and uses its sets and cursors
// again.
type Sets struct {
	Ctx     context.Context // of the query; nil: the query cannot be cancelled
	free    []*index.Set
	cursors []*index.Cursor
	Terms   int64 // terms that were looked at
}

func (p *Sets) Ended() error { return lsm.Ended(p.Ctx) }

// Cursor returns a cursor over the terms of an index, which release takes back.
func (p *Sets) Cursor(r *index.Reader) *index.Cursor {
	n := len(p.cursors)
	if n == 0 {
		return r.Cursor()
	}
	c := p.cursors[n-1]
	p.cursors = p.cursors[:n-1]
	c.Reset(r)
	return c
}

func (p *Sets) Release(c *index.Cursor) {
	c.Reset(nil)
	p.cursors = append(p.cursors, c)
}

func (p *Sets) Get(lo, hi uint32) *index.Set {
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

func (p *Sets) Put(s *index.Set) { p.free = append(p.free, s) }

// Eval returns the ordinals from lo to hi that a plan gives, including tombstones and
// overwritten versions.
func (p *Sets) Eval(n *Plan, r *index.Reader, lo, hi uint32) (*index.Set, error) {
	s := p.Get(lo, hi)
	switch n.Op {
	case All:
		s.Fill()
	case Spans:
		if err := p.addSpans(r, n.Spans, s); err != nil {
			return nil, err
		}
	case Containing:
		if err := p.addContaining(r, n, s); err != nil {
			return nil, err
		}
	case Or:
		for _, sub := range n.Sub {
			t, err := p.Eval(sub, r, lo, hi)
			if err != nil {
				return nil, err
			}
			s.Or(t)
			p.Put(t)
		}
	case Minus:
		p.Put(s)
		all, err := p.Eval(n.Sub[0], r, lo, hi)
		if err != nil {
			return nil, err
		}
		t, err := p.Eval(n.Sub[1], r, lo, hi)
		if err != nil {
			return nil, err
		}
		all.AndNot(t)
		p.Put(t)
		return all, nil
	case And:
		p.Put(s)
		return p.and(n, r, lo, hi)
	}
	return s, nil
}

// and evaluates the parts of an And, those with the fewest documents first.
func (p *Sets) and(n *Plan, r *index.Reader, lo, hi uint32) (*index.Set, error) {
	parts, err := andParts(n, r)
	if err != nil {
		return nil, err
	}
	first, rest := &parts[0], parts[1:]
	var s *index.Set
	if first.large() && rest[0].large() && hi-lo >= chunkOrdinals {
		s = p.Get(lo, hi)
		err = first.posting.AddBoth(&rest[0].posting, s)
		rest = rest[1:]
	} else {
		s, err = p.Eval(first.Plan, r, lo, hi)
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
		if t, err = p.Eval(rest[i].Plan, r, lo, hi); err == nil {
			s.And(t)
			p.Put(t)
		}
	}
	return s, err
}

// chunkOrdinals is the number of ordinals in one container of a bitmap.
const chunkOrdinals = 1 << 16

// andPart is a part of an And.
type andPart struct {
	*Plan
	term    bool // the part is a single term, with this posting
	posting index.Posting
	size    int // the most ordinals that it can give
}

func (a *andPart) large() bool { return a.term && a.posting.Kind() == index.Large }

// andParts returns the parts of an And, those that may give the fewest ordinals
// first.
func andParts(n *Plan, r *index.Reader) ([]andPart, error) {
	parts := make([]andPart, len(n.Sub))
	for i, sub := range n.Sub {
		a := andPart{Plan: sub, size: int(r.Info().Items)}
		if sub.Op == Spans && len(sub.Spans) == 1 && oneTerm(&sub.Spans[0]) {
			var err error
			if a.posting, _, err = r.Lookup(sub.Spans[0].From); err != nil {
				return nil, err
			}
			a.term, a.size = true, a.posting.Len()
		}
		parts[i] = a
	}
	slices.SortStableFunc(parts, func(a, b andPart) int { return a.size - b.size })
	return parts, nil
}

// Countable says that countTerms may be able to count.
func (n *Plan) Countable() bool {
	return n.Op == All || n.Op == And && len(n.Sub) == 2 || n.Op == Spans && n.apart
}

// CountTerms returns how many ordinals of the file a plan gives, those in dead
// excepted. It counts by the lengths of postings, or by the intersection of two; if
// these do not suffice, ok is false. dead may be nil. countTerms may change it.
func (n *Plan) CountTerms(sets *Sets, r *index.Reader, dead *index.Set) (count int64, ok bool, err error) {
	switch {
	case n.Op == All:
		count = int64(r.Info().Items)
		if dead != nil {
			count -= int64(dead.Count())
		}
		return count, true, nil
	case n.Op == And && len(n.Sub) == 2:
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
	case n.Op != Spans || !n.apart:
		return 0, false, nil
	}
	ctx := lsm.OrBackground(sets.Ctx)
	find, done := sets.finder(r, len(n.Spans))
	defer done()
	for i := range n.Spans {
		span := &n.Spans[i]
		if err := sets.Ended(); err != nil {
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
		sets.Terms += terms
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
func (p *Sets) addSpans(r *index.Reader, spans []index.Span, set *index.Set) error {
	find, done := p.finder(r, len(spans))
	defer done()
	for i := range spans {
		s := &spans[i]
		if err := p.Ended(); err != nil {
			return err
		}
		if !oneTerm(s) {
			n, err := r.UnionCount(lsm.OrBackground(p.Ctx), *s, set)
			p.Terms += n
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
func (p *Sets) addContaining(r *index.Reader, n *Plan, set *index.Set) error {
	cur := p.Cursor(r)
	defer p.Release(cur)
	span := &n.Spans[0]
	for ok := cur.Seek(span.From); ok && string(cur.Key()) < string(span.To); ok = cur.Next() {
		if err := p.Ended(); err != nil {
			return err
		}
		p.Terms++
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
func (p *Sets) finder(r *index.Reader, n int) (find func(key []byte) (index.Posting, error), done func()) {
	if n <= fewLookups {
		return func(key []byte) (index.Posting, error) {
			p.Terms++
			posting, _, err := r.Lookup(key)
			return posting, err
		}, func() {}
	}
	cur := p.Cursor(r)
	return func(key []byte) (index.Posting, error) {
		p.Terms++
		if !cur.Seek(key) || string(cur.Key()) != string(key) {
			return index.Posting{}, cur.Err()
		}
		return *cur.Posting(), nil
	}, func() { p.Release(cur) }
}
