package exec

import (
	"context"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/cost"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/keybounds"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/query"
	"github.com/cleavestore/cleave/internal/termset"
)

// countUnit adds the documents of a unit to groups with the help of indexes. It
// returns false, and adds nothing, if the indexes of one of its partitions do not
// suffice. Of groups it adds the first ones behind e.groupAfter, as many as are wanted:
// others, from the key that it returns on, may be missing; nil: none is.
func (e *Execution) countUnit(ctx context.Context, u *unit, to *query.Grouper, t *tester) (bool, []byte, error) {
	all := true
	var end []byte
	paths, apart := to.Apart()
	var total int64 // the number of documents
	unit := e.Select.Grouper()
	if err := e.admit(e.h.Find(u.rng.Min), u); err != nil {
		return false, nil, err
	}
	visit := func(p Part, v *lsm.Version, past lifetime.Past, lo, hi *item.Key, whole bool) error {
		if err := p.Admit(u.key.Encoded(), true); err != nil {
			return err
		}
		c := candidatesPool.Get().(*candidates)
		defer c.release()
		c.ctx, c.lookup, c.few, c.sure, c.paged = ctx, e.look, u.key.Valid(), true, e.Select.Limit > 0
		c.onlyCount = len(paths) == 0
		defer func() { e.terms.Add(c.sets.Terms) }()
		fits, err := c.open(p, v, u.at, past, lo, hi, whole)
		if err != nil || !fits {
			all = all && err != nil
			return err
		}
		read, matched := t.charge, t.matched
		n, ok, err := c.count(func(k *item.Key, v *item.Version) bool {
			t.charge += cost.Read(len(v.Body))
			return t.match(k, v, false)
		})
		t.matched = matched
		if err != nil || !ok {
			all = all && err != nil
			return err
		}
		e.found.Add(c.found)
		defer func() {
			charge := t.charge - read
			if !u.same {
				charge += cost.Visit
			}
			e.spend(charge)
			if p.Metered() {
				p.Charge(u.key.Encoded(), charge)
			}
		}()
		total += n
		for _, path := range paths {
			if !apart {
				left, err := e.groupValues(c, path, unit, t)
				if err != nil {
					return err
				}
				end = earlier(end, left)
				continue
			}
			unit.Only(path)
			for _, s := range c.sources {
				if err := e.aggregate(c, s, path, unit, t); err != nil {
					return err
				}
			}
		}
		t.matched = matched + n
		return nil
	}
	if err := e.inParts(ctx, u, visit); err != nil || !all {
		return false, nil, err
	}
	if apart {
		unit.Only(nil)
		unit.AddMany(new(query.Value), total)
	}
	to.Merge(unit)
	return true, end, checkGroups(to)
}

// aggregate adds the candidates of a source to the aggregates of a path.
func (e *Execution) aggregate(c *candidates, s *candidateSource, path query.Path, to *query.Grouper, t *tester) error {
	if least, most := to.Extremes(path); least || most {
		if done, err := e.extremes(c, s, path, to, least, most); done || err != nil {
			return err
		}
	}
	return e.countValues(c, s, path, to, t)
}

// extremes adds the least or the greatest value at a path, or both. It returns false, and
// adds nothing, if the terms do not tell them.
func (e *Execution) extremes(c *candidates, s *candidateSource, path query.Path, to *query.Grouper, least, most bool) (bool, error) {
	done := false
	p := termset.PathOf(path)
	if _, containers := c.policy.Covers(p); !containers {
		return false, nil
	}
	err := s.Use(func(r *index.Reader) error {
		cur := c.sets.Cursor(r)
		defer c.sets.Release(cur)
		span := index.Exists(p)
		var low, high query.Value
		// first returns the first term that a candidate has; ok is false if it does not tell
		// the value.
		first := func(valid bool, move func() bool, v *query.Value) (ok bool, err error) {
			for ; valid && string(cur.Key()) >= string(span.From) && string(cur.Key()) < string(span.To); valid = move() {
				if err = c.sets.Ended(); err != nil {
					return false, err
				}
				c.sets.Terms++
				n := 0
				if n, err = c.having(s, cur.Posting()); err != nil {
					return false, err
				}
				if n == 0 {
					continue
				}
				term, fine := cur.Term()
				if !fine || term.Cut || term.Value.Type >= index.Array {
					return false, nil
				}
				*v = valueOfTerm(&term.Value)
				return true, nil
			}
			return true, cur.Err()
		}
		// Arrays and objects, which make the result undefined, have the last terms.
		var ok bool
		var err error
		if most {
			ok, err = first(cur.SeekBefore(span.To), cur.Prev, &high)
		} else {
			ok, err = first(cur.Seek(index.OfType(p, index.Array).From), cur.Next, &high)
		}
		if ok && err == nil && least {
			ok, err = first(cur.Seek(span.From), cur.Next, &low)
		}
		if done = ok && err == nil; !done {
			return err
		}
		for _, v := range [...]query.Value{low, high} {
			if v.Kind != jsondoc.KindUndefined {
				to.AddMany(&v, 1)
			}
		}
		return nil
	})
	return done, err
}

// having returns how many candidates of a source have a term.
func (c *candidates) having(s *candidateSource, p *index.Posting) (int, error) {
	if s.full && s.whole() {
		return p.Len(), nil
	}
	return p.CountIn(s.set)
}

// inParts calls visit, inside of an epoch guard, for each physical partition
// that has a part of a unit. The part lies between the keys lo and hi; whole says
// that it is all of the partition. If a partition was replaced meanwhile, inParts visits
// the partitions that replaced it instead. If visit was not admitted, inParts waits outside of
// the guard and calls it again.
func (e *Execution) inParts(ctx context.Context, u *unit, visit func(p Part, v *lsm.Version, past lifetime.Past, lo, hi *item.Key, whole bool) error) error {
	part := u.rng
	one := u.key.Valid()
	for one || !part.Empty() {
		p := e.h.Find(part.Min)
		of := p.Data().Range
		err := e.inPart(ctx, p, u.installEpoch, func(v *lsm.Version) error {
			if one {
				lo, hi := lsm.LimitsOf(&item.Key{Hash: part.Min.Head(), EPK: part.Min.Bytes(), PK: u.key.Encoded()})
				return visit(p, v, p.Past(), lo, hi, false)
			}
			common := part.Common(of)
			within := p.Data().Bounds()
			if common != of {
				within = keybounds.New(common, e.h.Levels())
			}
			return visit(p, v, p.Past(), &within.Lo, &within.Hi, common == of)
		})
		if err == lsm.ErrMoved {
			continue
		}
		if err != nil {
			if err = e.h.Wait(ctx, err); err == nil {
				continue
			}
		}
		if err != nil || one {
			return err
		}
		part.Min = of.Max
	}
	return nil
}

// inPart calls visit with the version of a partition. It returns lsm.ErrMoved if the
// partition was replaced.
func (e *Execution) inPart(ctx context.Context, p Part, installEpoch uint64, visit func(*lsm.Version) error) error {
	call, err := e.h.Enter(ctx)
	if err != nil {
		return err
	}
	defer call.Leave()
	v, err := load(p, e.Snapshot, installEpoch)
	if err != nil {
		return err
	}
	if err := visit(v); err != nil {
		return e.h.ReadError(err)
	}
	return nil
}

// countValues adds the candidates of a source to the groups of their values at a
// path. It reads the documents of candidates whose value no term has in full.
func (e *Execution) countValues(c *candidates, s *candidateSource, path query.Path, to *query.Grouper, t *tester) error {
	p := termset.PathOf(path)
	rest := c.sets.Get(s.lo, s.hi)
	defer c.sets.Put(rest)
	counted := 0
	err := s.Use(func(r *index.Reader) error {
		cur := c.sets.Cursor(r)
		defer c.sets.Release(cur)
		span := index.Exists(p)
		ok := cur.Seek(span.From)
		for ; ok && string(cur.Key()) < string(span.To); ok = cur.Next() {
			if err := c.sets.Ended(); err != nil {
				return err
			}
			term, fine := cur.Term()
			if !fine || term.Cut || term.Value.Type >= index.Array {
				continue
			}
			c.sets.Terms++
			n, err := c.having(s, cur.Posting())
			if err != nil {
				return err
			}
			if n > 0 {
				v := valueOfTerm(&term.Value)
				to.AddMany(&v, int64(n))
				counted += n
				if err := checkGroups(to); err != nil {
					return err
				}
			}
		}
		if cur.Err() != nil || counted == s.set.Count() {
			return cur.Err()
		}
		values := c.sets.Cursor(r)
		defer c.sets.Release(values)
		if err := unionScalars(&c.sets, values, p, rest); err != nil {
			return err
		}
		if _, containers := c.policy.Covers(p); !containers {
			return nil
		}
		// Candidates without a term have no value at the path.
		valued, every, err := c.present(r, termset.ValuesAt(p), s.lo, s.hi)
		if every || err != nil {
			return err
		}
		defer c.sets.Put(valued)
		none := c.sets.Get(s.lo, s.hi)
		defer c.sets.Put(none)
		none.Or(s.set)
		none.AndNot(valued)
		if n := none.Count(); n > 0 {
			to.AddMany(new(query.Value), int64(n))
			counted += n
			rest.Or(none)
		}
		return nil
	})
	if err != nil || counted == s.set.Count() {
		return err
	}
	var k item.Key
	var v item.Version
	for at, ok := s.set.Next(s.lo); ok; at, ok = s.set.Next(at + 1) {
		if rest.Contains(at) {
			continue
		}
		if err := c.sets.Ended(); err != nil {
			return err
		}
		if err := s.Source.Version(at, &k, &v); err != nil {
			return err
		}
		t.charge += cost.Read(len(v.Body))
		if t.match(&k, &v, true) {
			to.Add(t.values())
		}
		if err := checkGroups(to); err != nil {
			return err
		}
	}
	return nil
}

// unionScalars adds to set the ordinals that have a term with a scalar at path p in
// full.
func unionScalars(sets *termset.Sets, cur *index.Cursor, p index.Path, set *index.Set) error {
	span := index.Exists(p)
	for ok := cur.Seek(span.From); ok && string(cur.Key()) < string(span.To); ok = cur.Next() {
		if err := sets.Ended(); err != nil {
			return err
		}
		if term, fine := cur.Term(); fine && !term.Cut && term.Value.Type < index.Array {
			if err := cur.Posting().AddTo(set); err != nil {
				return err
			}
		}
	}
	return cur.Err()
}

// valueOfTerm converts a scalar of package index to one of package query.
func valueOfTerm(v *index.Value) query.Value {
	switch v.Type {
	case index.Null:
		return query.Value{Kind: jsondoc.KindNull}
	case index.Bool:
		return query.Value{Kind: jsondoc.KindBool, Bool: v.Bool}
	case index.Number:
		return query.Value{Kind: jsondoc.KindNumber, Number: v.Number}
	}
	return query.Value{Kind: jsondoc.KindString, Text: v.Text}
}
