package eval

import (
	"github.com/cleavestore/cleave/internal/query"
	"github.com/cleavestore/cleave/internal/sql/value"
)

// aggregateFunc is an aggregate.
type aggregateFunc uint8

const (
	count aggregateFunc = iota
	countIf
	sum
	avg
	least
	most
	makeList
	makeSet
)

var aggregateFuncs = map[string]aggregateFunc{
	"COUNT": count, "COUNTIF": countIf, "SUM": sum, "AVG": avg, "MIN": least, "MAX": most, "MAKELIST": makeList, "MAKESET": makeSet,
}

// IsAggregate says whether a name in capitals is that of an aggregate.
func IsAggregate(name string) bool {
	_, ok := aggregateFuncs[name]
	return ok
}

// aggregate is an aggregate of a query.
type aggregate struct {
	fn   aggregateFunc
	arg  node
	slot int // of its value
}

// Groups collects groups of rows. It serves one goroutine.
type Groups struct {
	plan  *groupPlan
	byKey map[string]*group
	list  []*group // in the order in which they came
	bytes int64
	key   []byte
}

// group is a group: the values of the expressions of GROUP BY, and the aggregates.
type group struct {
	key    string
	values []value.Value
	aggs   []state
}

// state is what an aggregate has seen.
type state struct {
	count int64
	total query.Total
	bad   bool // a value makes it undefined
	best  value.Value
	list  []value.Value
	seen  map[string]bool
}

// NewGroups returns no groups yet.
func (q *Query) NewGroups() *Groups { return newGroups(q.plan.group) }

func newGroups(p *groupPlan) *Groups {
	g := &Groups{plan: p, byKey: make(map[string]*group)}
	if len(p.keys) == 0 {
		g.at("") // there is a group of no rows, too
	}
	return g
}

// Bytes estimates the memory of the groups.
func (g *Groups) Bytes() int64 { return g.bytes }

func (g *Groups) at(key string) *group {
	at, ok := g.byKey[key]
	if !ok {
		at = &group{key: key, values: make([]value.Value, len(g.plan.keys)), aggs: make([]state, len(g.plan.aggs))}
		g.byKey[key], g.list = at, append(g.list, at)
		g.bytes += 2*int64(len(key)) + 192 + 112*int64(len(at.aggs))
	}
	return at
}

// Add adds the present row. What it keeps does not refer to the document.
func (g *Groups) Add(f *Frame) { g.add(f, true) }

func (g *Groups) add(f *Frame, keep bool) {
	var few [4]value.Value
	values := few[:0]
	g.key = g.key[:0]
	for _, n := range g.plan.keys {
		v := n(f)
		if !v.Defined() {
			v = value.Value{}
		}
		values = append(values, v)
		g.key = v.AppendKey(g.key)
	}
	at, ok := g.byKey[string(g.key)]
	if !ok {
		at = g.at(string(g.key))
		for i, v := range values {
			if keep {
				v = v.Keep()
			}
			at.values[i] = v
			g.bytes += v.Size()
		}
	}
	for i := range g.plan.aggs {
		a := &g.plan.aggs[i]
		v := a.arg(f)
		if v.IsUndefined() {
			continue
		}
		g.bytes += at.aggs[i].add(a.fn, v, keep)
	}
}

// add counts a value and returns by how many bytes the state has grown.
func (s *state) add(fn aggregateFunc, v value.Value, keep bool) (grown int64) {
	kept := func() value.Value {
		if keep {
			return v.Keep()
		}
		return v
	}
	switch fn {
	case countIf:
		if b, ok := v.Bool(); !ok || !b {
			return 0
		}
	case sum, avg:
		f, ok := v.Number()
		s.total.Add(f, 1)
		s.bad = s.bad || !ok
	case least, most:
		if v.IsArray() || v.IsObject() {
			s.bad = true
			return 0
		}
		if !v.Defined() {
			return 0 // NaN has no place in the order
		}
		better := s.count == 0
		if !better {
			c := compareAny(v, s.best)
			better = fn == least && c < 0 || fn == most && c > 0
		}
		if better {
			grown = v.Size() - s.best.Size()
			s.best = kept()
		}
	case makeSet:
		key := string(v.AppendKey(nil))
		if s.seen[key] {
			return 0
		}
		if s.seen == nil {
			s.seen = make(map[string]bool)
		}
		s.seen[key] = true
		s.list = append(s.list, kept())
		return v.Size() + 2*int64(len(key)) + 64
	case makeList:
		s.list = append(s.list, kept())
		return v.Size() + 16
	}
	s.count++
	return grown
}

// compareAny orders scalars of any types.
func compareAny(a, b value.Value) int {
	if a.Kind() != b.Kind() {
		return int(a.Kind()) - int(b.Kind())
	}
	order, _ := value.Compare(a, b)
	return order
}

func (s *state) result(fn aggregateFunc) value.Value {
	switch fn {
	case count, countIf:
		return value.Int(s.count)
	case makeList, makeSet:
		return value.Array(append([]value.Value{}, s.list...))
	}
	switch {
	case s.bad, fn != sum && s.count == 0:
		return value.Value{}
	case fn == sum:
		return value.Number(s.total.Sum())
	case fn == avg:
		return value.Number(s.total.Mean(s.count))
	}
	return s.best
}

// Each makes each group the present one and calls visit with its key, until that returns
// false. Keys compare as the values of GROUP BY do; the groups come in no order.
func (g *Groups) Each(f *Frame, visit func(key string) bool) {
	for _, at := range g.list {
		f.env.Reset()
		if g.present(f, at); !f.env.Step(1) || !visit(at.key) {
			return
		}
	}
}

func (g *Groups) each(f *Frame, visit func() bool) {
	for _, at := range g.list {
		if g.present(f, at); !visit() {
			return
		}
	}
}

// present makes a group the present one.
func (g *Groups) present(f *Frame, at *group) {
	for i, slot := range g.plan.into {
		f.set(slot, at.values[i])
	}
	for i := range g.plan.aggs {
		f.set(g.plan.aggs[i].slot, at.aggs[i].result(g.plan.aggs[i].fn))
	}
}
