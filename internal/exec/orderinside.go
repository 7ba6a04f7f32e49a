package exec

import (
	"bytes"
	"errors"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/termset"
)

// Many candidates can have the same value at the first path of an order: ORDER BY c.half,
// c.u with two halves. The order among them is that of the next path, which an index has
// too. So a walk over the terms of that path, which passes over the candidates with
// another first value, takes the first ones without reading the others, if there are at
// least Limits.Inside and more than twice as many as are wanted.

// dense says whether so many candidates with one value are many more than are wanted.
func (w *orderWalk) dense(n int) bool {
	return w.o.next != nil && n >= Limits.Inside && n > 2*w.wanted()
}

// inside takes the candidates with the present term in the order of the next path. begins
// says that the order begins among them. It returns false, and takes none, if taking all of
// them is the better choice.
func (w *orderWalk) inside(at []*orderSource, begins bool) (done bool, err error) {
	n := 0
	for _, s := range at {
		n += s.cur.Posting().Len()
	}
	if !w.dense(n) {
		return false, nil
	}
	sets := make([]*index.Set, len(at))
	n = 0
	for i, s := range at {
		sets[i] = w.sets.Get(s.lo, s.hi)
		defer w.sets.Put(sets[i])
		if err := s.cur.Posting().AddTo(sets[i]); err != nil {
			return false, err
		}
		sets[i].And(s.in)
		n += sets[i].Count()
	}
	if !w.dense(n) {
		return false, nil
	}
	return w.insideSets(at, sets, n, begins)
}

// insideSets is inside for sets of n candidates with one value, a set for each source.
func (w *orderWalk) insideSets(at []*orderSource, sets []*index.Set, n int, begins bool) (bool, error) {
	for _, s := range w.sources {
		s.tied = s.tied[:0] // also of those that do not have the term
	}
	next := *w.o.next
	if !begins {
		next.after = nil
	}
	sub := orderWalk{o: &next, top: w.top, c: w.c, sets: w.sets, unsure: w.unsure, most: w.most - w.taken, left: Limits.TermsPerDocument*int64(n) + termset.PerLookup}
	sub.prefix = append(bytes.Clone(w.prefix), w.value...)
	if last, ok := bytes.CutPrefix(w.last, w.value); ok && w.last != nil {
		sub.last = last
	}
	for i, s := range at {
		o := &orderSource{candidateSource: s.candidateSource, of: s.of, i: i, r: s.r, cur: w.sets.Cursor(s.r), in: sets[i], out: w.sets.Get(s.lo, s.hi)}
		defer w.sets.Release(o.cur)
		defer w.sets.Put(o.out)
		sub.sources = append(sub.sources, o)
	}
	far, err := sub.far(int64(n))
	if far || err != nil {
		return false, err
	}
	if next.falling {
		err = sub.falling()
	} else {
		err = sub.rising()
	}
	if errors.Is(err, errFarApart) {
		for _, s := range at {
			s.alike = nil
		}
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for i, s := range at {
		s.out.Or(sub.sources[i].out)
		s.taken += sub.sources[i].taken
	}
	w.taken += sub.taken
	w.more, w.ties, w.tied = w.more || sub.more, sub.ties, sub.tied
	return true, nil
}
