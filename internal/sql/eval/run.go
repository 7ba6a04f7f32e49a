package eval

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/cleavestore/cleave/internal/query"
	"github.com/cleavestore/cleave/internal/sql/function"
	"github.com/cleavestore/cleave/internal/sql/value"
)

// Frame is the memory of an evaluation. It serves one goroutine.
type Frame struct {
	env   function.Env
	vars  []variableState
	memos []memo
	kept  int64 // by memos, in bytes
}

// frameSize says how much a Frame holds.
type frameSize struct{ slots, memos int }

// variableState is the value of a slot. Each time it is set it has another turn.
type variableState struct {
	v    value.Value
	turn uint64
}

func newFrame(size frameSize, begun time.Time, clock func() time.Time) *Frame {
	return &Frame{env: function.Env{Begun: begun, Clock: clock}, vars: make([]variableState, size.slots), memos: make([]memo, size.memos)}
}

// NewFrame returns a frame for the query. begun is the time of the query; clock tells the
// present one, nil for that of the system.
func (q *Query) NewFrame(begun time.Time, clock func() time.Time) *Frame {
	return newFrame(q.size, begun, clock)
}

// NewFrame is Query.NewFrame.
func (e *Expr) NewFrame(begun time.Time, clock func() time.Time) *Frame {
	return newFrame(e.size, begun, clock)
}

// SetContext sets the context with which evaluations end.
func (f *Frame) SetContext(ctx context.Context) { f.env.Ctx = ctx }

// read returns a variable. Who reads it may look at all of it.
func (f *Frame) read(slot int) (v value.Value) {
	if f.env.Look(int(f.vars[slot].v.Size())) {
		v = f.vars[slot].v
	}
	return v
}

// set sets a variable.
func (f *Frame) set(slot int, v value.Value) {
	f.vars[slot].v = v
	f.vars[slot].turn++
}

// SetSeq sets the sequence of the version of the documents that follow.
func (f *Frame) SetSeq(seq uint64) { f.env.Seq = seq }

// Err returns why the evaluation ended early, nil if it did not.
func (f *Frame) Err() error { return f.env.Err() }

// Value returns the value for a document. The error says that it takes too much.
func (e *Expr) Value(f *Frame, root value.Value) (value.Value, error) {
	f.env.Reset()
	f.set(0, root)
	v := e.node(f)
	return v, f.Err()
}

// Run gives the results for one document to emit, until that returns false.
func (q *Query) Run(f *Frame, root value.Value, emit func(value.Value) bool) error {
	f.env.Reset()
	f.set(0, root)
	q.plan.run(f, emit)
	return f.Err()
}

// Grouped says that results stand for groups of rows.
func (q *Query) Grouped() bool { return q.plan.group != nil }

// Ordered says that the query has an order.
func (q *Query) Ordered() bool { return len(q.plan.order) > 0 }

// Distinct says that no two results are the same.
func (q *Query) Distinct() bool { return q.plan.distinct }

// Rows calls visit for each row of a document for which WHERE is true, until it returns
// false. Result and AppendOrder are about that row.
func (q *Query) Rows(f *Frame, root value.Value, visit func() bool) error {
	f.env.Reset()
	f.set(0, root)
	q.plan.rows(f, 0, func() bool {
		f.env.NextRow()
		return visit()
	})
	return f.Err()
}

// Result returns the result of the present row or group; ok is false if there is none.
func (q *Query) Result(f *Frame) (v value.Value, ok bool) {
	v = q.plan.result(f)
	return v, f.Err() == nil && v.Defined()
}

// AppendOrder appends bytes that compare as the order of the present row or group.
func (q *Query) AppendOrder(f *Frame, dst []byte) []byte { return q.plan.appendOrder(f, dst) }

func (p *plan) appendOrder(f *Frame, dst []byte) []byte {
	for _, o := range p.order {
		n := len(dst)
		v := o.node(f)
		if !v.Defined() {
			v = value.Value{}
		}
		if dst = v.AppendOrder(dst); o.desc {
			query.Invert(dst[n:])
		}
	}
	return dst
}

// rows gives the rows of the sources from number i on. It returns false if visit did, or if
// there is an error.
func (p *plan) rows(f *Frame, i int, visit func() bool) bool {
	if i == len(p.sources) {
		if p.where != nil {
			made := f.env.Made()
			b, ok := p.where(f).Bool()
			if f.env.Drop(f.env.Made() - made); !ok || !b {
				return f.env.Err() == nil
			}
		}
		return f.env.Step(1) && visit()
	}
	s := &p.sources[i]
	next := func(v value.Value) bool {
		f.set(s.slot, v)
		return f.env.Step(1) && p.rows(f, i+1, visit)
	}
	all := true
	each := func(v value.Value) bool {
		if !s.in {
			all = next(v)
			return all
		}
		v.Each(func(e value.Value) bool {
			all = next(e)
			return all
		})
		return all
	}
	switch {
	case s.sub != nil:
		// What the subquery gives may change its own slots only, so that the loop goes on.
		s.sub.run(f, each)
	default:
		if v := s.node(f); v.Defined() {
			each(v)
		}
	}
	return all && f.env.Err() == nil
}

// run gives the results of a query in its order to emit, until that returns false.
func (p *plan) run(f *Frame, emit func(value.Value) bool) {
	skip, left := p.skip, p.most
	if left == 0 {
		return
	}
	give := func(v value.Value) bool {
		if skip > 0 {
			skip--
			return f.env.Step(1)
		}
		left--
		return emit(v) && left != 0
	}
	var list []result
	seen := make(map[string]bool)
	row := func() bool {
		made := f.env.Made()
		v := p.result(f)
		made = f.env.Made() - made // until v is given: who keeps it counts its size
		if !v.Defined() || f.env.Err() != nil {
			f.env.Drop(made)
			return f.env.Err() == nil
		}
		if p.distinct {
			key := string(v.AppendKey(nil))
			if seen[key] {
				f.env.Drop(made)
				return true
			}
			if seen[key] = true; !f.env.Grow(len(key) + 64) {
				return false
			}
		}
		if len(p.order) == 0 {
			more := give(v)
			f.env.Drop(made)
			return more
		}
		r := result{v: v, key: string(p.appendOrder(f, nil))}
		list = append(list, r)
		f.env.Drop(made)
		return f.env.Grow(int(v.Size()) + len(r.key))
	}
	if p.group == nil {
		p.rows(f, 0, row)
	} else {
		g := newGroups(p.group)
		p.rows(f, 0, func() bool {
			made, n := f.env.Made(), g.bytes
			g.add(f, false)
			f.env.Drop(f.env.Made() - made) // but for what groups keep
			return f.env.Grow(int(g.bytes - n))
		})
		if f.env.Err() != nil {
			return
		}
		g.each(f, row)
	}
	if f.env.Err() != nil || len(p.order) == 0 {
		return
	}
	slices.SortStableFunc(list, func(a, b result) int { return strings.Compare(a.key, b.key) })
	for _, r := range list {
		if !give(r.v) {
			return
		}
	}
}

// result is a result with its order.
type result struct {
	v   value.Value
	key string
}

// Fail ends the evaluation.
func (f *Frame) Fail(err error) { f.env.Fail(err) }
