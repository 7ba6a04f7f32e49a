package exec

import (
	"context"
	"sync"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/lsm"
)

// The first hundred documents in an order may lie in any of several units. So the candidates of
// many units are opened before documents are read, each unit's by itself, and one walk over the
// terms of all their sources takes the first hundred of all, as if one unit had the sources.
// Then each unit is read, with the candidates that were taken of it.
//
// A unit whose partition was replaced meanwhile takes the first hundred of its own instead, which
// are no less than those.

// spread opens the candidates of units from one on, and takes the first ones of an order. It
// returns the first unit that was not opened: as many as Limits.Together are open at a time.
func (e *Execution) spread(o *indexOrder, from int) (to int, err error) {
	to = len(e.units)
	if from == to-1 || e.Select.Where.Never() {
		return to, nil
	}
	var mu sync.Mutex
	open := int64(0)
	err = e.each(from, to, func() (func(context.Context, int) error, func() error) {
		work := func(ctx context.Context, i int) error {
			mu.Lock()
			full := i > from && open >= Limits.Together
			if full {
				to = min(to, i)
			}
			mu.Unlock()
			if full {
				return nil
			}
			u := &e.units[i]
			if openErr := e.openUnit(ctx, u, o); openErr != nil || u.opened == nil {
				return openErr
			}
			mu.Lock()
			defer mu.Unlock()
			for _, s := range u.opened.sources {
				open += int64(s.hi-s.lo) + perSource
			}
			return nil
		}
		return work, func() error { return nil }
	})
	if err != nil {
		return to, err
	}
	for i := to; i < len(e.units); i++ {
		e.drop(&e.units[i])
	}
	return to, e.restrict(e.units[from:to], o)
}

// perSource is the number of candidates, beyond its own, that a source takes of Limits.Together.
const perSource = 1 << 16

// openUnit opens the candidates of a unit for an order, if indexes can answer there.
func (e *Execution) openUnit(ctx context.Context, u *unit, o *indexOrder) error {
	if err := e.admit(e.h.Find(u.rng.Min), u); err != nil {
		return err
	}
	return e.inParts(ctx, u, func(p Part, v *lsm.Version, past lifetime.Past, lo, hi *item.Key, whole bool) error {
		if u.opened != nil {
			return nil // the scan opens those of the other partitions of the unit
		}
		if err := p.Admit(u.key.Encoded(), true); err != nil {
			return err
		}
		if of := e.pasts(p.Data().Range.Min); of != (lifetime.Past{}) {
			past = of
		}
		c := e.candidates(u, o)
		c.begin(ctx)
		fits, err := c.prepare(p, v, u.at, past, lo, hi, whole)
		if err != nil || !fits {
			e.terms.Add(c.sets.Terms)
			c.release()
			return err
		}
		u.opened, u.part = c, p
		return nil
	})
}

// restrict restricts the candidates of units to the first ones of an order.
func (e *Execution) restrict(units []unit, o *indexOrder) error {
	call, err := e.h.Enter(e.ctx)
	if err != nil {
		return err
	}
	defer call.Leave()
	var list []*candidates
	for i := range units {
		u := &units[i]
		if u.opened == nil {
			continue
		}
		v, moved := load(u.part, e.Snapshot, u.installEpoch)
		if moved != nil && moved != lsm.ErrMoved {
			return moved
		}
		if v != u.opened.version || moved != nil {
			e.drop(u)
			continue
		}
		u.opened.begin(e.ctx)
		list = append(list, u.opened)
	}
	if len(list) == 0 {
		return nil
	}
	if err = o.restrict(list...); err != nil {
		return e.h.ReadError(err)
	}
	for _, c := range list {
		c.name()
		c.opened = true
	}
	return nil
}

// drop releases the candidates of a unit that were opened and not read, if there are any.
func (e *Execution) drop(u *unit) {
	if u.opened != nil {
		e.terms.Add(u.opened.sets.Terms)
		u.opened.release()
		u.opened, u.part = nil, nil
	}
}
