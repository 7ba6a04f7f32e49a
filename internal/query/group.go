package query

import (
	"bytes"
	"maps"
	"math"
	"slices"

	"github.com/cleavestore/cleave/internal/jsondoc"
)

// Grouper collects groups with their aggregates, for queries that are Grouped.
// It serves one goroutine.
type Grouper struct {
	s      *Select
	paths  []Path // of groups, then of the aggregates that have one
	groups map[string]*group
	bytes  int64
	key    []byte
	order  []byte
	one    bool   // Add and AddMany count for some aggregates only:
	only   string // for those of this path; "": of no path
}

// group has an aggregate for each column.
type group struct{ columns []aggregate }

type aggregate struct {
	count int64
	total Total
	bad   bool   // there was a value that makes it undefined
	best  []byte // order key; nil: none
}

// Grouper returns an empty grouper.
func (s *Select) Grouper() *Grouper {
	g := &Grouper{s: s, paths: s.groups(), groups: make(map[string]*group)}
	g.paths = g.paths[:len(g.paths):len(g.paths)]
	for _, c := range s.Columns {
		if c.Func != NoFunc && c.Path != nil {
			g.paths = append(g.paths, c.Path)
		}
	}
	if len(s.groups()) == 0 {
		g.at(nil) // there is a row of no documents too
	}
	return g
}

// Only makes Add and AddMany count only for the aggregates of a path, in a query without
// groups; nil: for those of no path.
func (g *Grouper) Only(path Path) {
	g.one, g.only = true, ""
	if path != nil {
		g.only = path.String()
	}
}

// passes says whether an aggregate is not counted for now.
func (g *Grouper) passes(c *Column) bool {
	return g.one && (c.Path == nil) != (g.only == "") || g.one && c.Path != nil && c.Path.String() != g.only
}

// Grouped returns the paths whose values tell the groups apart.
func (g *Grouper) Grouped() []Path { return g.s.groups() }

// Len returns the number of groups.
func (g *Grouper) Len() int { return len(g.groups) }

// Drop drops the groups up to a key, inclusive.
func (g *Grouper) Drop(upTo string) {
	for key, at := range g.groups {
		if key <= upTo {
			g.bytes -= int64(len(key)) + 128 + 64*int64(len(at.columns))
			for i := range at.columns {
				g.bytes -= int64(len(at.columns[i].best))
			}
			delete(g.groups, key)
		}
	}
}

// Extremes says which of the least and the greatest value at a path a query without groups
// wants: neither if it wants something else of the values there.
func (g *Grouper) Extremes(path Path) (least, most bool) {
	if len(g.s.groups()) > 0 {
		return false, false
	}
	for i := range g.s.Columns {
		c := &g.s.Columns[i]
		if c.Path == nil || c.Path.String() != path.String() {
			continue
		}
		switch c.Func {
		case Min:
			least = true
		case Max:
			most = true
		default:
			return false, false
		}
	}
	return least, most
}

// Paths returns the paths of the values that Add takes.
func (g *Grouper) Paths() []Path { return g.paths }

// Bytes estimates the memory of the groups.
func (g *Grouper) Bytes() int64 { return g.bytes }

// at returns a group, a new one if there is none.
func (g *Grouper) at(key []byte) *group {
	at, ok := g.groups[string(key)]
	if !ok {
		at = &group{columns: make([]aggregate, len(g.s.Columns))}
		g.groups[string(key)] = at
		g.bytes += int64(len(key)) + 128 + 64*int64(len(at.columns))
	}
	return at
}

// Add counts a document with these values.
func (g *Grouper) Add(values []jsondoc.Value) {
	n := len(g.s.groups())
	g.key = g.key[:0]
	for i := range values[:n] {
		g.key = AppendOrder(g.key, &values[i], true)
	}
	to := g.at(g.key)
	for i, c := range g.s.Columns {
		if c.Func == NoFunc {
			continue
		}
		a := &to.columns[i]
		if c.Path == nil {
			if !g.passes(&c) {
				a.count++
			}
			continue
		}
		v := &values[n]
		n++
		if g.passes(&c) {
			continue
		}
		g.bytes -= int64(len(a.best))
		a.add(c.Func, v, &g.order)
		g.bytes += int64(len(a.best))
	}
}

func (a *aggregate) add(f Func, v *jsondoc.Value, scratch *[]byte) {
	if v.Kind == jsondoc.KindUndefined {
		return
	}
	a.count++
	switch f {
	case Sum, Avg:
		if v.Kind != jsondoc.KindNumber {
			a.bad = true
			return
		}
		a.total.Add(v.Number(), 1)
	case Min, Max:
		if v.Kind >= jsondoc.KindArray {
			a.bad = true
			return
		}
		*scratch = AppendOrder((*scratch)[:0], v, false)
		a.take(f, *scratch)
	}
}

// take makes key the best if it is better.
func (a *aggregate) take(f Func, key []byte) {
	if c := bytes.Compare(key, a.best); a.best == nil || f == Min && c < 0 || f == Max && c > 0 {
		a.best = append(a.best[:0], key...)
	}
}

// AddMany counts n documents with one value, for queries that have an OnlyPath;
// where there is no path the value does not matter.
func (g *Grouper) AddMany(v *Value, n int64) {
	if len(g.s.groups()) > 0 {
		g.key = v.AppendOrder(g.key[:0])
		to := g.at(g.key)
		for i := range to.columns {
			to.columns[i].count += n
		}
		return
	}
	to := g.at(nil)
	for i, c := range g.s.Columns {
		a := &to.columns[i]
		if g.passes(&c) {
			continue
		}
		if c.Path == nil {
			a.count += n
			continue
		}
		g.bytes -= int64(len(a.best))
		a.addMany(c.Func, v, n, &g.order)
		g.bytes += int64(len(a.best))
	}
}

func (a *aggregate) addMany(f Func, v *Value, n int64, scratch *[]byte) {
	if v.Kind == jsondoc.KindUndefined {
		return
	}
	a.count += n
	switch f {
	case Sum, Avg:
		if v.Kind != jsondoc.KindNumber {
			a.bad = true
			return
		}
		a.total.Add(v.Number, float64(n))
	case Min, Max:
		*scratch = v.AppendOrder((*scratch)[:0])
		a.take(f, *scratch)
	}
}

// Apart returns the paths whose aggregates can be computed one after the other, each
// once; ok is false if there are groups.
func (g *Grouper) Apart() (paths []Path, ok bool) {
	for i, p := range g.paths {
		if !slices.ContainsFunc(g.paths[:i], func(q Path) bool { return q.String() == p.String() }) {
			paths = append(paths, p)
		}
	}
	return paths, len(g.s.groups()) == 0
}

// OnlyPath returns the path whose values are all that the query wants of the
// documents, nil if it wants none; ok is false if it wants more: groups that it
// only counts, or aggregates of one path.
func (g *Grouper) OnlyPath() (p Path, ok bool) {
	groups := len(g.s.groups())
	for i, q := range g.paths {
		if i > 0 && (groups > 0 || q.String() != g.paths[0].String()) {
			return nil, false
		}
	}
	if len(g.paths) == 0 {
		return nil, true
	}
	return g.paths[0], true
}

// Merge adds what another grouper of the query has collected.
func (g *Grouper) Merge(o *Grouper) {
	for key, from := range o.groups {
		to := g.at([]byte(key))
		for i := range from.columns {
			a, b := &to.columns[i], &from.columns[i]
			a.count += b.count
			a.total.merge(&b.total)
			a.bad = a.bad || b.bad
			if b.best != nil {
				g.bytes -= int64(len(a.best))
				a.take(g.s.Columns[i].Func, b.best)
				g.bytes += int64(len(a.best))
			}
		}
	}
}

// Keys returns the keys of the groups, rising.
func (g *Grouper) Keys() []string { return slices.Sorted(maps.Keys(g.groups)) }

// Append appends the row of a group; it returns false if there is none: its
// only value is undefined.
func (g *Grouper) Append(dst []byte, key string) ([]byte, bool) {
	values := make([]Value, len(g.s.groups()))
	rest := []byte(key)
	for i := range values {
		var n int
		values[i], n = ReadOrder(rest, false, true)
		rest = rest[n:]
	}
	at := g.groups[key]
	if !g.s.Value {
		dst = append(dst, '{')
	}
	some := false
	for i, c := range g.s.Columns {
		var v Value
		if c.Func != NoFunc {
			v = at.columns[i].result(c.Func)
		} else if g.s.Distinct {
			v = values[i]
		} else {
			v = values[g.s.group(c.Path)]
		}
		if v.Kind == jsondoc.KindUndefined {
			continue
		}
		if !g.s.Value {
			if some {
				dst = append(dst, ',')
			}
			dst = append(jsondoc.AppendString(dst, c.Name), ':')
		}
		some = true
		dst = v.Append(dst)
	}
	if g.s.Value {
		return dst, some
	}
	return append(dst, '}'), true
}

func (a *aggregate) result(f Func) Value {
	number := func(f float64) Value {
		if math.IsNaN(f) {
			return Value{} // infinite numbers of both signs
		}
		return Value{Kind: jsondoc.KindNumber, Number: f}
	}
	switch {
	case f == Count:
		return number(float64(a.count))
	case a.bad || f != Sum && a.count == 0:
		return Value{}
	case f == Sum:
		return number(a.total.Sum())
	case f == Avg:
		return number(a.total.Mean(a.count))
	}
	v, _ := ReadOrder(a.best, false, false)
	return v
}
