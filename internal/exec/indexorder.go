package exec

import (
	"bytes"
	"cmp"
	"errors"
	"slices"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/query"
	"github.com/cleavestore/cleave/internal/termset"
	"github.com/cleavestore/cleave/internal/toprows"
)

// indexOrder is an order whose first path is indexed. The index tells which
// candidates of a partition come first, and only these are read. Their documents
// tell their order among each other.
type indexOrder struct {
	path    index.Path
	read    query.Path    // path, to read documents
	span    index.Span    // of the terms that candidates can have
	all     bool          // span holds all values at path; candidates may also have no value
	rest    *termset.Plan // the plan without its demand for a term of span; nil: it has no such demand by itself
	falling bool
	single  bool // no other path decides between candidates with one value
	most    int  // how many candidates are wanted
	reach   int  // how many are taken if some of them may not match
	after   *orderPoint
	leftOut bool        // scans with this order have left out candidates
	unsure  bool        // scans with this order have taken candidates that may not match
	next    *indexOrder // order of the candidates with one value by the path that follows; nil: no index has it
	groups  bool        // the candidates are wanted for groups by the first path
	several int         // with groups: so many are wanted, if an index has all their paths; else 0
	// elements says that the path leads through the elements of arrays: a candidate is taken with
	// each of its terms, since each is a row of its own.
	elements bool
	end      []byte // with groups, or if unsure: sort key from which on candidates were left out; nil: none was
	// composite is the index whose terms have the order; then path, all and next are not
	// used, and equal are the values at the paths before those of the order.
	composite *index.Composite
	equal     []index.Value
	top       *toprows.Shared  // the first rows so far, of all units
	key       []byte           // order key of the current candidate, from its term; nil: only the document has it
	source    *candidateSource // of the current candidate
}

// orderHit is a candidate whose order key is known from a term: it is
// candidates.keys[from:to].
type orderHit struct{ at, from, to uint32 }

// orderKey returns the order key of the current candidate of a source, nil if no
// term tells it.
func (c *candidates) orderKey(s *candidateSource) []byte {
	i, ok := slices.BinarySearchFunc(s.hits, s.at, func(h orderHit, at uint32) int { return cmp.Compare(h.at, at) })
	if s.set == nil || !ok {
		return nil
	}
	return c.keys[s.hits[i].from:s.hits[i].to]
}

// orderPoint is where an order goes on: at a value, behind a key.
type orderPoint struct {
	value index.Span // the terms of the value; empty: candidates without one
	whole bool       // a candidate with a term of value has that value
	order []byte     // order key of the value
	key   item.Key
}

// restrict leaves out candidates that are not needed: of several units, which are in key order,
// it keeps those that come first in the order, behind o.after, as many as are wanted. If some
// may not match, it keeps o.reach of them.
func (o *indexOrder) restrict(list ...*candidates) error {
	total := int64(0)
	c := list[0]
	w := orderWalk{o: o, top: o, c: c, sets: &c.sets, most: o.most}
	if o.top != nil {
		w.last = o.top.Last()
	}
	if c.keys = c.keys[:0]; c.lent {
		c.keys, c.lent = nil, false
	}
	for _, of := range list {
		w.unsure = w.unsure || !of.exact || of.few // of one logical partition, some may be overwritten
		for _, s := range of.sources {
			if s.set == nil {
				continue // a memtable without an index: all of it is read
			}
			total += s.count
			w.unsure = w.unsure || s.guessed
			w.sources = append(w.sources, &orderSource{candidateSource: s, of: of, i: len(w.sources), in: s.set})
		}
	}
	if w.unsure {
		w.most = o.reach
	}
	if w.unsure && int64(w.most) >= total/2 {
		w.most = int(total)
	}
	w.left = Limits.TermsPerDocument*total + termset.PerLookup
	err := errFarApart
	if total > int64(w.most) {
		err = inAll(w.sets, w.sources, func() error {
			if wideErr := w.widen(total); wideErr != nil {
				return wideErr
			}
			if far, farErr := w.far(total); far || farErr != nil {
				return cmp.Or(farErr, errFarApart)
			}
			for _, s := range w.sources {
				s.out = w.sets.Get(s.lo, s.hi)
			}
			if o.falling {
				return w.falling()
			}
			return w.rising()
		})
	}
	for _, s := range w.sources {
		if err == nil {
			s.set, s.out, s.count = s.out, s.set, int64(s.taken)
		}
		if s.of != w.tied || err != nil {
			s.tied = s.tied[:0]
		}
		if s.out != nil {
			w.sets.Put(s.out)
		}
		if err != nil || w.unsure {
			s.hits = s.hits[:0]
		}
		slices.SortFunc(s.hits, func(a, b orderHit) int { return cmp.Compare(a.at, b.at) })
	}
	for _, other := range list[1:] {
		other.keys, other.lent, c.lent = c.keys, true, true
	}
	if err == errFarApart {
		for _, s := range w.sources {
			s.guessed, s.alike = s.guessed || s.loose, nil
			w.unsure = w.unsure || s.loose
		}
		o.unsure = o.unsure || w.unsure
		return nil
	}
	if w.tied != nil {
		w.tied.ties = w.ties
	}
	o.leftOut, o.unsure = o.leftOut || w.more, o.unsure || w.unsure
	return err
}

// errFarApart ends a walk over so many terms that reading all candidates takes less.
var errFarApart = errors.New("candidates are far apart")

// far says whether the walk should not begin, since the candidates wanted of so many are
// likely to lie among too many terms.
func (w *orderWalk) far(total int64) (bool, error) {
	isFar := func(terms int64) bool {
		return float64(terms)*float64(min(int64(w.wanted()), total))/float64(total) > float64(w.left)
	}
	terms := int64(0)
	for _, s := range w.sources {
		terms += int64(s.r.Info().Items)
	}
	if !w.o.elements && !isFar(terms) {
		return false, nil // no document has two terms at the path
	}
	terms = 0
	for _, s := range w.sources {
		n, err := s.r.Estimate(w.o.span)
		if err != nil {
			return false, err
		}
		terms += n
	}
	return isFar(terms), nil
}

// wanted returns how many candidates are still to be taken.
func (w *orderWalk) wanted() int { return w.most - w.taken }

// orderWalk takes candidates of all sources term by term.
type orderWalk struct {
	o       *indexOrder
	top     *indexOrder // of which o is the order itself, or one that follows
	prefix  []byte      // with one that follows: order key of the values before
	c       *candidates // of the first unit
	sets    *termset.Sets
	sources []*orderSource // of one unit after the other
	unsure  bool           // some of the candidates may not match
	most    int            // how many are wanted
	left    int64          // terms that may still be walked
	taken   int
	more    bool        // candidates were left out
	tied    *candidates // the unit of which more than are wanted were taken; nil: none
	ties    int         // see candidates.ties; of tied
	group   string      // prefix that the strings of the present group share; see take
	head    []byte      // with which the order keys of the present group begin
	list    []uint32

	last     []byte // key of the last wanted row; nil: there are fewer rows than wanted
	from, to uint32 // candidates.keys[from:to] is the order key of the present term; to 0: it has none
	value    []byte // order key of the present value, if candidates may not match
}

// begin sets the value of the present term; nil: the term does not tell it. It
// returns false if candidates with that value, or a later one in the order, come
// after the last wanted row.
func (w *orderWalk) begin(v *query.Value) bool {
	w.to = 0
	if v == nil {
		return true
	}
	from := len(w.c.keys)
	keys := v.AppendOrder(w.c.keys)
	if w.o.falling {
		query.Invert(keys[from:])
	}
	return w.beginKey(keys)
}

// beginKey is begin for an order key, which keys has behind w.c.keys.
func (w *orderWalk) beginKey(keys []byte) bool {
	from := len(w.c.keys)
	w.c.keys = keys
	key := keys[from:]
	if w.o.single && !w.o.elements && !w.unsure && w.o == w.top {
		w.from, w.to = uint32(from), uint32(len(w.c.keys))
	} else {
		w.c.keys = w.c.keys[:from]
	}
	if w.last == nil {
		return true
	}
	switch bytes.Compare(key, w.last[:min(len(key), len(w.last))]) {
	case 0:
		return !w.o.single || !w.behindLast(w.last[len(key):])
	case 1:
		return false
	}
	return true
}

// behindLast says whether all candidates have keys after that of the last row. last
// is the EPK, the partition key and the id of that row, or what a key before which all rows lie
// has in their place.
func (w *orderWalk) behindLast(last []byte) bool {
	for _, part := range [...][]byte{w.c.lo.EPK, w.c.lo.PK, w.c.lo.ID} {
		n := min(len(part), len(last))
		if c := bytes.Compare(part[:n], last[:n]); c != 0 {
			return c > 0
		}
		last = last[n:]
	}
	return len(last) == 0
}

// orderSource is a source with a cursor over its terms.
type orderSource struct {
	*candidateSource
	of  *candidates // which it belongs to
	i   int         // its index in orderWalk.sources
	r   *index.Reader
	cur *index.Cursor
	ok  bool
	in  *index.Set // the candidates to choose from
	out *index.Set // the candidates that were chosen

	taken int
	ahead bool // its candidates in the present group were taken by a kept order
}

// inAll calls fn while the indexes of all sources may be used.
func inAll(p *termset.Sets, sources []*orderSource, fn func() error) error {
	if len(sources) == 0 {
		return fn()
	}
	return sources[0].Use(func(r *index.Reader) error {
		sources[0].r, sources[0].cur = r, p.Cursor(r)
		defer p.Release(sources[0].cur)
		return inAll(p, sources[1:], fn)
	})
}

func (w *orderWalk) rising() error {
	o := w.o
	from := o.span.From
	if o.after != nil && !o.after.value.Empty() {
		if string(o.after.value.From) > string(from) {
			from = o.after.value.From
		}
	} else if o.all {
		if err := w.takeRest(); err != nil {
			return err
		}
		if w.taken >= w.most || w.more {
			w.leave([]byte{byte(jsondoc.KindNull)}) // that of the values which come next
			return nil
		}
	}
	for _, s := range w.sources {
		s.ok = s.cur.Seek(from) && string(s.cur.Key()) < string(o.span.To)
	}
	return w.terms(func(s *orderSource) bool { return s.cur.Next() && string(s.cur.Key()) < string(o.span.To) })
}

func (w *orderWalk) falling() error {
	o := w.o
	to := o.span.To
	if o.after != nil && string(o.after.value.To) < string(to) {
		to = o.after.value.To
	}
	if o.after == nil || !o.after.value.Empty() {
		for _, s := range w.sources {
			s.ok = s.cur.SeekBefore(to) && string(s.cur.Key()) >= string(o.span.From)
		}
		err := w.terms(func(s *orderSource) bool { return s.cur.Prev() && string(s.cur.Key()) >= string(o.span.From) })
		if err != nil || w.more {
			return err
		}
	}
	if o.all {
		return w.takeRest()
	}
	return nil
}

// terms takes the candidates of one term after another, from all sources that have
// the term.
func (w *orderWalk) terms(advance func(*orderSource) bool) error {
	queue := make([]*orderSource, 0, len(w.sources)) // that are at a term, the first one last
	enter := func(s *orderSource) error {
		if !s.ok {
			return s.cur.Err()
		}
		at, _ := slices.BinarySearchFunc(queue, s, w.later)
		queue = slices.Insert(queue, at, s)
		return nil
	}
	for _, s := range w.sources {
		if err := enter(s); err != nil {
			return err
		}
	}
	var at []*orderSource
	for {
		if err := w.sets.Ended(); err != nil {
			return err
		}
		if w.left--; w.left < 0 {
			return errFarApart
		}
		w.sets.Terms++
		at = at[:0]
		for n := len(queue); n > 0 && (len(at) == 0 || bytes.Equal(queue[n-1].cur.Key(), at[0].cur.Key())); n-- {
			at, queue = append(at, queue[n-1]), queue[:n-1]
		}
		if len(at) == 0 {
			return nil
		}
		more, err := w.take(at)
		if !more || err != nil {
			return err
		}
		for _, s := range at {
			s.ok = advance(s)
			if err := enter(s); err != nil {
				return err
			}
		}
	}
}

// later compares sources, of which none is like another: the one at the later term comes first.
func (w *orderWalk) later(a, b *orderSource) int {
	c := bytes.Compare(b.cur.Key(), a.cur.Key())
	if w.o.falling {
		c = -c
	}
	return cmp.Or(c, b.i-a.i)
}

// take takes the candidates with the present term. at has the sources at that term.
// take returns false when no more candidates are wanted. The terms of long strings
// are cut: strings that begin alike can have any order among each other, so all
// candidates with such strings are taken together.
func (w *orderWalk) take(at []*orderSource) (bool, error) {
	if w.o.composite != nil {
		return w.takeComposite(at)
	}
	a := w.o.after
	key := at[0].cur.Key()
	term, known := at[0].cur.Term()
	begins := a != nil && string(key) >= string(a.value.From) && string(key) < string(a.value.To)
	if term.Cut && term.Value.Text == w.group {
		return true, w.takeAlike(at, begins)
	}
	var value *query.Value
	if !term.Cut && known && term.Value.Type < index.Array {
		v := valueOfTerm(&term.Value)
		value = &v
	}
	if !w.begin(value) {
		w.more = true
		return false, nil
	}
	if w.taken >= w.most || w.unsure || w.o.next != nil || term.Cut {
		if w.value = firstOrder(&term); w.o.falling {
			query.Invert(w.value)
		}
	}
	if w.taken >= w.most {
		w.leave(w.value)
		return false, nil
	}
	w.group = ""
	if term.Cut {
		w.group = term.Value.Text
		if err := w.beginAlike(key, begins); err != nil {
			return false, err
		}
		return true, w.takeAlike(at, begins)
	}
	// Of groups, arrays come in the order of their texts, and so do objects: the next path tells nothing of that.
	if apart := w.top.groups && term.Value.Type >= index.Array; !apart {
		done, err := w.inside(at, begins)
		if done || err != nil {
			return !w.more, err
		}
	}
	if begins && !a.whole {
		// It is not known which of these come behind the point.
		err := w.takeTerm(at, nil, false)
		w.taken = 0
		return true, err
	}
	var after *item.Key
	if begins {
		after = &a.key
	}
	return true, w.takeTerm(at, after, w.o.single)
}

// leave notes that candidates whose sort keys begin with end, or come later, are left out.
// Rows behind end must wait: some of these may come before them. There is no need for this
// where w.last told that candidates are not wanted, nor if all that are taken match: then
// there are as many rows as are wanted before those that are left out.
func (w *orderWalk) leave(end []byte) {
	w.more = true
	if o := w.top; o.groups || w.unsure {
		o.end = earlier(o.end, append(w.prefix[:len(w.prefix):len(w.prefix)], end...))
	}
}

// leaveAt is leave for candidates of a source with the present value.
func (w *orderWalk) leaveAt(s *orderSource, at uint32) error {
	w.more = true
	if !w.unsure {
		return nil
	}
	var k item.Key
	var v item.Version
	if err := s.Source.Version(at, &k, &v); err != nil {
		return err
	}
	w.leave(append(append(append(bytes.Clone(w.value), k.EPK...), k.PK...), k.ID...))
	return nil
}

// firstOrder returns the beginning of the order key of the first value that a term may
// stand for.
func firstOrder(t *index.Term) []byte {
	if t.Value.Type >= index.Array {
		return []byte{byte(jsondoc.KindArray) + byte(t.Value.Type-index.Array)}
	}
	v := valueOfTerm(&t.Value)
	key := v.AppendOrder(nil)
	if t.Cut {
		key = key[:len(key)-2] // without the end of the text
	}
	return key
}

// takeTerm takes the candidates with the present term from the sources in at. If
// first is set, it takes only those behind after, if that is not nil, and from each
// source no more than are still wanted.
func (w *orderWalk) takeTerm(at []*orderSource, after *item.Key, first bool) error {
	return w.takeValue(at, nil, after, first)
}

// takeValue is takeTerm; if sets is not nil, it takes what these have of the sources.
func (w *orderWalk) takeValue(at []*orderSource, sets []*index.Set, after *item.Key, first bool) error {
	for _, s := range w.sources {
		s.tied = s.tied[:0]
	}
	before := w.taken
	for i, s := range at {
		from, most := s.lo, int(^uint(0)>>1)
		if first {
			// The candidates of one unit come before those of the next.
			if i > 0 && s.of != at[i-1].of {
				before = w.taken
			}
			most = max(0, w.most-before)
			if after != nil {
				var err error
				if from, _, err = s.Cut(after, nil); err != nil {
					return err
				}
			}
		}
		var err error
		if sets != nil {
			err = w.takeSet(s, sets[i], from, most)
		} else {
			err = w.takeSome(s, s.cur.Posting(), from, most)
		}
		if err != nil {
			return err
		}
		if first && w.tied == nil && w.taken > w.most && !w.unsure && !w.o.elements {
			w.tied, w.ties, w.more = s.of, w.most-before, true
		}
	}
	return nil
}

// takeSome takes the candidates of a posting, from the ordinal from on. It takes no
// more than most.
func (w *orderWalk) takeSome(s *orderSource, p *index.Posting, from uint32, most int) error {
	if p.Kind() != index.Large {
		var err error
		if w.list, err = p.AppendTo(w.list[:0]); err != nil {
			return err
		}
		for _, at := range w.list {
			if at >= from && s.in.Contains(at) {
				if most--; most < 0 {
					return w.leaveAt(s, at)
				}
				w.takeOne(s, at)
			}
		}
		return nil
	}
	// Few candidates may be wanted: the posting is read step by step.
	lo, step := max(from, s.lo), Limits.FirstStep
	for lo < s.hi && most >= 0 {
		to := s.hi
		if s.hi-lo > step {
			to = lo + step
		}
		part := w.sets.Get(lo, to)
		err := p.AddTo(part)
		for at, ok := part.Next(lo); ok && err == nil; at, ok = part.Next(at + 1) {
			if !s.in.Contains(at) {
				continue
			}
			if most--; most < 0 {
				err = w.leaveAt(s, at)
				break
			}
			w.takeOne(s, at)
		}
		w.sets.Put(part)
		if err != nil {
			return err
		}
		lo, step = to, stepAfter(step, s.hi)
	}
	return nil
}

func (w *orderWalk) takeSet(s *orderSource, set *index.Set, from uint32, most int) error {
	for at, ok := set.Next(from); ok; at, ok = set.Next(at + 1) {
		if most--; most < 0 {
			return w.leaveAt(s, at)
		}
		w.takeOne(s, at)
	}
	return nil
}

func (w *orderWalk) takeOne(s *orderSource, at uint32) {
	if !w.o.elements || !s.out.Contains(at) {
		s.out.Add(at)
		s.taken++
	}
	s.tied = append(s.tied, at)
	if w.to > 0 {
		s.hits = append(s.hits, orderHit{at, w.from, w.to})
	}
	w.taken++
}

// takeRest takes the candidates without a value at the path.
func (w *orderWalk) takeRest() error {
	if !w.begin(new(query.Value)) {
		w.more = true
		return nil
	}
	a := w.o.after
	begins := a != nil && a.value.Empty()
	if w.value = []byte{byte(jsondoc.KindUndefined)}; w.o.falling {
		query.Invert(w.value)
	}
	rest := make([]*index.Set, len(w.sources))
	defer func() {
		for _, set := range rest {
			if set != nil {
				w.sets.Put(set)
			}
		}
	}()
	total := 0
	values := termset.ValuesAt(w.o.path)
	for i, s := range w.sources {
		valued, all, err := w.c.present(s.r, values, s.lo, s.hi)
		if err != nil {
			return err
		}
		rest[i] = w.sets.Get(s.lo, s.hi)
		if all {
			continue
		}
		rest[i].Or(s.in)
		rest[i].AndNot(valued)
		w.sets.Put(valued)
		total += rest[i].Count()
	}
	if w.dense(total) {
		if done, err := w.insideSets(w.sources, rest, total, begins); done || err != nil {
			return err
		}
	}
	var after *item.Key
	if begins {
		after = &a.key
	}
	if err := w.takeValue(w.sources, rest, after, w.o.single); err != nil {
		return err
	}
	if begins && !w.o.single {
		w.taken = 0 // it is not known which of these come behind the point
	}
	return nil
}
