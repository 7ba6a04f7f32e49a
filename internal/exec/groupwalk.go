package exec

import (
	"bytes"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/cost"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/query"
	"github.com/cleavestore/cleave/internal/termset"
)

// groupValues adds the candidates to the groups of their values at a path: the first groups
// behind e.groupAfter, as many as are wanted, and all if end is nil. Groups from the key end
// on may be missing or not whole.
func (e *Execution) groupValues(c *candidates, path query.Path, to *query.Grouper, t *tester) (end []byte, err error) {
	p := termset.PathOf(path)
	if _, containers := c.policy.Covers(p); e.groupsWanted == 0 || !containers {
		for _, s := range c.sources {
			if err := e.countValues(c, s, path, to, t); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}
	w := groupWalk{e: e, c: c, span: index.Exists(p), groups: e.Select.Grouper(), t: t}
	w.from = w.span.From
	for _, s := range c.sources {
		w.sources = append(w.sources, &orderSource{candidateSource: s, out: c.sets.Get(s.lo, s.hi)})
	}
	defer func() {
		for _, s := range w.sources {
			c.sets.Put(s.out)
		}
	}()
	if e.groupBegun {
		after, _ := query.ReadOrder([]byte(e.groupAfter), false, true)
		o := indexOrder{path: p}
		if o.begin(&after); !o.after.value.Empty() {
			w.from = o.after.value.From
		}
	} else if err := w.absent(); err != nil {
		return nil, err
	}
	for more := true; more; {
		if err := inAll(&c.sets, w.sources, func() (err error) { more, err = w.walk(); return err }); err != nil {
			return nil, err
		}
		if err := w.tell(); err != nil {
			return nil, err
		}
	}
	to.Merge(w.groups)
	return w.end, nil
}

// groupWalk makes groups in the order of the terms of all sources of a partition.
type groupWalk struct {
	e       *Execution
	c       *candidates
	span    index.Span // the terms of all values at the path
	groups  *query.Grouper
	t       *tester
	sources []*orderSource // out: candidates whose documents tell their values
	from    []byte         // the next term
	end     []byte         // the order key of the first group that was not made; nil: all were
}

// absent makes the group of the candidates without a value.
func (w *groupWalk) absent() error {
	values := &termset.Plan{Op: termset.Spans, Spans: []index.Span{w.span}}
	for _, s := range w.sources {
		err := s.Use(func(r *index.Reader) error {
			some, all, err := w.c.present(r, values, s.lo, s.hi)
			if all || err != nil {
				return err
			}
			s.out.Or(s.set)
			s.out.AndNot(some)
			if n := s.out.Count(); n > 0 {
				w.groups.AddMany(new(query.Value), int64(n))
			}
			w.c.sets.Put(some)
			s.out.Reset(s.lo, s.hi)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// first returns the sources that are at the first term of all, in at.
func (w *groupWalk) first(at []*orderSource) ([]*orderSource, error) {
	at = at[:0]
	for _, s := range w.sources {
		if !s.ok {
			if err := s.cur.Err(); err != nil {
				return nil, err
			}
			continue
		}
		order := -1
		if len(at) > 0 {
			order = bytes.Compare(s.cur.Key(), at[0].cur.Key())
		}
		if order < 0 {
			at = at[:0]
		}
		if order <= 0 {
			at = append(at, s)
		}
	}
	return at, nil
}

// walk makes groups of terms until it has enough, or must read documents before it goes on:
// then more is true.
func (w *groupWalk) walk() (more bool, err error) {
	inside := func(s *orderSource, ok bool) bool { return ok && string(s.cur.Key()) < string(w.span.To) }
	for _, s := range w.sources {
		s.ok = inside(s, s.cur.Seek(w.from))
	}
	var group []byte // what the order keys of the values of out begin with
	var at []*orderSource
	for {
		if err = w.c.sets.Ended(); err != nil {
			return false, err
		}
		if at, err = w.first(at); len(at) == 0 || err != nil {
			return false, err
		}
		w.c.sets.Terms += int64(len(at))
		if term, ok := at[0].cur.Term(); ok {
			first := firstOrder(&term)
			if group != nil && !bytes.Equal(first, group) {
				w.from = bytes.Clone(at[0].cur.Key())
				return true, nil
			}
			if group == nil && w.groups.Len() >= w.e.groupsWanted {
				w.end = first
				return false, nil
			}
			switch {
			case term.Cut || term.Value.Type >= index.Array:
				group = first
				for _, s := range at {
					if err := s.cur.Posting().AddTo(s.out); err != nil {
						return false, err
					}
				}
			case string(first) > w.e.groupAfter:
				if err := w.take(at, &term); err != nil {
					return false, err
				}
			}
		}
		for _, s := range at {
			s.ok = inside(s, s.cur.Next())
		}
	}
}

// take makes the group of a value that a term tells.
func (w *groupWalk) take(at []*orderSource, term *index.Term) error {
	n := 0
	for _, s := range at {
		more, err := w.c.having(s.candidateSource, s.cur.Posting())
		if err != nil {
			return err
		}
		n += more
	}
	if n == 0 {
		return nil
	}
	v := valueOfTerm(&term.Value)
	w.groups.AddMany(&v, int64(n))
	return checkGroups(w.groups)
}

// tell makes groups of the documents that must be read.
func (w *groupWalk) tell() error {
	var k item.Key
	var v item.Version
	told := false
	for _, s := range w.sources {
		s.out.And(s.set)
		for at, ok := s.out.Next(s.lo); ok; at, ok = s.out.Next(at + 1) {
			if err := w.c.sets.Ended(); err != nil {
				return err
			}
			if err := s.Source.Version(at, &k, &v); err != nil {
				return err
			}
			w.t.charge += cost.Read(len(v.Body))
			if w.t.match(&k, &v, true) {
				w.groups.Add(w.t.values())
			}
			if err := checkGroups(w.groups); err != nil {
				return err
			}
			told = true
		}
		s.out.Reset(s.lo, s.hi)
	}
	if told && w.e.groupBegun {
		w.groups.Drop(w.e.groupAfter)
	}
	return nil
}
