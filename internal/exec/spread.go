package exec

import (
	"bytes"
	"context"
	"math"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/mergecut"
	"github.com/cleavestore/cleave/internal/toprows"
)

// The first hundred documents in an order may lie in any of several units: one hundred of each
// are candidates. Before it reads any, a pass lets each unit tell by its terms how many
// candidates it has with which values, about its share of what is wanted and some more. Package
// mergecut merges this. Units that have most of the first ones tell more. Then the pass reads
// in each unit the candidates before the place where there are enough in all units together.
//
// That place is no more than a guess: candidates may not match, or have expired. Rows behind it
// are not given out, whatever the pass finds before it, and another pass goes on there.

// told is what the walk of an order tells of the candidates of a unit.
type told struct {
	mergecut.Walk
	enough int // so many candidates of one value need not be told apart from more
}

// len returns the number of runs that were told; 0 of none.
func (t *told) len() int {
	if t == nil {
		return 0
	}
	return len(t.Runs)
}

// most is enough, 0 of none.
func (t *told) most() int {
	if t == nil {
		return 0
	}
	return t.enough
}

// retract leaves no more than so many runs: all candidates that come after them are taken.
func (t *told) retract(runs int) {
	if t != nil {
		t.Runs = t.Runs[:runs]
	}
}

// tell tells of the candidates that were taken since then: they have the present value. They
// are told already if there are more than so many runs.
func (w *orderWalk) tell(taken, runs int) {
	t := w.top.told
	if t == nil || w.taken <= taken || len(t.Runs) > runs {
		return
	}
	key := append(w.prefix[:len(w.prefix):len(w.prefix)], w.value...)
	t.Runs = append(t.Runs, mergecut.Run{Key: key, N: w.taken - taken, Parted: w.o.single && w.group == ""})
}

// spread returns a sort key before which the units together have as many candidates of an order
// as are wanted, and how many each of them is likely to take, 0 if that is not known. It returns
// nil if the units have less, or there is only one.
func (e *Execution) spread(o *indexOrder) (expect []int, end []byte, err error) {
	n := len(e.units)
	if n == 1 {
		return nil, nil, nil
	} else if o.reach > maxIndexOrder {
		o.reach = max(o.most, o.reach/n)
		return nil, nil, nil
	}
	walks, share := make([]mergecut.Walk, n), float64(o.reach)/float64(n)
	first := *o
	first.most = min(o.reach, int(share+2*math.Sqrt(share))+4)
	first.told, first.top = &told{enough: o.reach}, nil
	if err := e.tellAll(&first, walks, func(int) bool { return true }); err != nil {
		return nil, nil, err
	}
	cut := mergecut.Of(walks, o.reach)
	short := func(i int) bool { return cut.Short(&walks[i]) }
	for i := range walks {
		if !short(i) {
			continue
		}
		first.most, first.top = o.reach, &toprows.Shared{Rows: toprows.Rows{Most: 1, End: cut.End}}
		if err := e.tellAll(&first, walks, short); err != nil {
			return nil, nil, err
		}
		cut = mergecut.Of(walks, o.reach)
		break
	}
	if cut.End == nil {
		return nil, nil, nil
	}
	for i := range walks {
		if len(walks[i].Runs) > 0 {
			cut.Rows[i]++ // one more shows that the walk is at its end
		}
	}
	return cut.Rows, cut.End, nil
}

// tellAll lets units tell of the candidates of an order, in walks.
func (e *Execution) tellAll(o *indexOrder, walks []mergecut.Walk, which func(i int) bool) error {
	chosen := make([]bool, len(walks))
	for i := range walks {
		chosen[i] = which(i)
	}
	return e.each(func() (func(context.Context, int) error, func() error) {
		work := func(ctx context.Context, i int) error {
			if !chosen[i] {
				return nil
			}
			order := *o
			order.told = &told{enough: o.told.enough}
			err := e.tellUnit(ctx, &e.units[i], &order)
			walks[i] = order.told.Walk
			return err
		}
		return work, func() error { return nil }
	})
}

// tellUnit lets a unit tell of the candidates of an order.
func (e *Execution) tellUnit(ctx context.Context, u *unit, o *indexOrder) error {
	if e.Select.Where.Never() {
		return nil
	}
	if err := e.admit(e.h.Find(u.rng.Min), u); err != nil {
		return err
	}
	o.told.Behind = u.rng.Max.Bytes()
	if u.key.Valid() {
		o.told.Behind = append(bytes.Clone(u.rng.Min.Bytes()), 0xFF)
	}
	o.reach = o.most
	err := e.inParts(ctx, u, func(p Part, v *lsm.Version, past lifetime.Past, lo, hi *item.Key, whole bool) error {
		if err := p.Admit(u.key.Encoded()); err != nil {
			return err
		}
		c := candidatesPool.Get().(*candidates)
		defer c.release()
		c.ctx, c.lookup, c.few, c.order, c.paged, c.units = ctx, e.look, u.key.Valid(), o, e.bounded(), len(e.units)
		defer func() { e.terms.Add(c.sets.terms) }()
		if of := e.pasts(p.Data().Range.Min); of != (lifetime.Past{}) {
			past = of
		}
		_, err := c.open(p, v, u.at, past, lo, hi, whole)
		return err
	})
	o.told.End = o.end
	return err
}
