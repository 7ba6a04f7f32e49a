// Package reference answers queries in the plainest way, over the values of encoding/json, so
// that tests can compare what internal/sql finds. It shares the parser with it, and nothing
// else. Draw writes queries and documents at random.
//
// Only tests import it. It panics on a query that the parser accepts and this package does
// not know, so that such a query fails the test instead of passing it.
package reference

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/cleavestore/cleave/internal/sql/syntax"
)

// undef is undefined.
type undef struct{}

// Undefined is the value that no JSON has.
var Undefined any = undef{}

// Tooth ends an evaluation that has no result: a subquery with several of them.
type Tooth struct{ Msg string }

// env are the values of names.
type env struct {
	outer *env
	name  string
	v     any
}

func (e *env) with(name string, v any) *env { return &env{e, name, v} }

func (e *env) get(name string) any {
	for ; e != nil; e = e.outer {
		if e.name == name {
			return e.v
		}
	}
	panic("no name " + name)
}

// Results returns the results of a query over documents in their order.
func Results(q *syntax.Query, docs []any) (list []any, err error) {
	defer func() {
		if r := recover(); r != nil {
			t, ok := r.(Tooth)
			if !ok {
				panic(r)
			}
			err = fmt.Errorf("%s", t.Msg)
		}
	}()
	var rows []*env
	if q.From == nil {
		rows = filtered(q, []*env{nil})
	} else {
		for _, doc := range docs {
			name := baseName(q.From.Collection)
			rows = append(rows, rowsOf(q, (*env)(nil).with(name, doc), nil)...)
		}
	}
	return finished(q, rows), nil
}

func baseName(e syntax.Expr) string {
	switch e := e.(type) {
	case *syntax.Member:
		return baseName(e.Of)
	case *syntax.Index:
		return baseName(e.Of)
	case *syntax.Ident:
		return e.Name
	}
	panic("no collection")
}

// rowsOf returns the rows of the sources for which WHERE is true. first are the names with
// which the first source is found, then those of outer count.
func rowsOf(q *syntax.Query, first, outer *env) []*env {
	rows := []*env{outer}
	for i, s := range append([]*syntax.Source{q.From}, q.Joins...) {
		var next []*env
		for _, row := range rows {
			at := row
			if i == 0 {
				at = first
			}
			var values []any
			if s.Query != nil {
				values = sub(s.Query, at)
			} else if v := expr(s.Collection, at, nil); v != Undefined {
				values = []any{v}
			}
			for _, v := range values {
				if !s.In {
					next = append(next, row.with(s.Name, v))
					continue
				}
				list, _ := v.([]any)
				for _, e := range list {
					next = append(next, row.with(s.Name, e))
				}
			}
		}
		rows = next
	}
	return filtered(q, rows)
}

func filtered(q *syntax.Query, rows []*env) (out []*env) {
	for _, row := range rows {
		if q.Where == nil || expr(q.Where, row, nil) == true {
			out = append(out, row)
		}
	}
	return out
}

// sub returns the results of a subquery.
func sub(q *syntax.Query, outer *env) []any {
	if q.From == nil {
		return finished(q, filtered(q, []*env{outer}))
	}
	return finished(q, rowsOf(q, outer, outer))
}

// row is what stands behind a result: one row, or with group those of a group.
type row struct {
	at    *env
	group *group
}

type group struct {
	exprs []syntax.Expr
	keys  []any
	rows  []*env
}

func hasAggregate(e syntax.Expr) bool {
	found := false
	syntax.Walk(e, func(x syntax.Expr) bool {
		if c, ok := x.(*syntax.Call); ok && !c.UDF && slices.Contains([]string{"COUNT", "COUNTIF", "SUM", "AVG", "MIN", "MAX", "MAKELIST", "MAKESET"}, c.Name) {
			found = true
		}
		_, isSub := x.(*syntax.Sub)
		return !isSub
	})
	return found
}

func finished(q *syntax.Query, rows []*env) []any {
	grouped := len(q.GroupBy) > 0
	for _, item := range q.Items {
		grouped = grouped || hasAggregate(item.Expr)
	}
	for _, o := range q.OrderBy {
		grouped = grouped || hasAggregate(o.Expr)
	}
	var list []row
	if !grouped {
		for _, r := range rows {
			list = append(list, row{at: r})
		}
	} else {
		var groups []*group
		if len(q.GroupBy) == 0 {
			groups = append(groups, &group{})
		}
		for _, r := range rows {
			var keys []any
			for _, e := range q.GroupBy {
				keys = append(keys, expr(e, r, nil))
			}
			i := slices.IndexFunc(groups, func(g *group) bool { return same(g.keys, keys) })
			if i < 0 {
				i = len(groups)
				groups = append(groups, &group{exprs: q.GroupBy, keys: keys})
			}
			groups[i].rows = append(groups[i].rows, r)
		}
		for _, g := range groups {
			r := row{group: g}
			if len(g.rows) > 0 {
				r.at = g.rows[0]
			}
			list = append(list, r)
		}
	}
	type result struct {
		v     any
		order []any
	}
	var results []result
	for _, r := range list {
		v := projected(q, r)
		if v == Undefined || q.Distinct && slices.ContainsFunc(results, func(x result) bool { return same(x.v, v) }) {
			continue
		}
		x := result{v: v}
		for _, o := range q.OrderBy {
			x.order = append(x.order, expr(o.Expr, r.at, r.group))
		}
		results = append(results, x)
	}
	sort.SliceStable(results, func(i, j int) bool {
		for n, o := range q.OrderBy {
			c := Compare(results[i].order[n], results[j].order[n])
			if o.Desc {
				c = -c
			}
			if c != 0 {
				return c < 0
			}
		}
		return false
	})
	var out []any
	skip, most := 0, len(results)
	if q.Offset != nil {
		skip = q.Offset.N
	}
	if q.Top != nil {
		most = q.Top.N
	}
	if q.Limit != nil {
		most = q.Limit.N
	}
	for _, r := range results[min(skip, len(results)):] {
		if len(out) == most {
			break
		}
		out = append(out, r.v)
	}
	return out
}

func projected(q *syntax.Query, r row) any {
	if q.Star {
		return r.at.get(q.From.Name)
	}
	if q.Value {
		return expr(q.Items[0].Expr, r.at, r.group)
	}
	out := make(map[string]any)
	unnamed := 0
	for _, item := range q.Items {
		name := item.As
		if m, ok := item.Expr.(*syntax.Member); ok && name == "" {
			name = m.Name
		}
		if m, ok := item.Expr.(*syntax.Ident); ok && name == "" {
			name = m.Name
		}
		if name == "" {
			unnamed++
			name = fmt.Sprintf("$%d", unnamed)
		}
		if v := expr(item.Expr, r.at, r.group); v != Undefined {
			out[name] = v
		}
	}
	return out
}

func int32Of(f float64) int32 { return int32(uint32(int64(math.Mod(math.Trunc(f), 1<<32)))) }

// expr returns the value of an expression for a row or, if g is not nil, for a group.
func expr(e syntax.Expr, at *env, g *group) any {
	if g != nil {
		for i, k := range g.exprs {
			if syntax.Text(k) == syntax.Text(e) {
				return g.keys[i]
			}
		}
	}
	x := func(e syntax.Expr) any { return expr(e, at, g) }
	switch e := e.(type) {
	case *syntax.Literal:
		if e.V.IsUndefined() {
			return Undefined
		}
		var v any
		if err := json.Unmarshal([]byte(e.V.String()), &v); err != nil {
			panic(err)
		}
		return v
	case *syntax.Ident:
		return at.get(e.Name)
	case *syntax.Member:
		return member(x(e.Of), e.Name)
	case *syntax.Index:
		of, by := x(e.Of), x(e.By)
		if name, ok := by.(string); ok {
			return member(of, name)
		}
		list, ok := of.([]any)
		i, isNumber := by.(float64)
		if !ok || !isNumber || i != math.Trunc(i) || i < 0 || int(i) >= len(list) {
			return Undefined
		}
		return list[int(i)]
	case *syntax.Unary:
		v := x(e.X)
		if e.Op == "NOT" {
			return negated(v, true)
		}
		f, ok := v.(float64)
		if !ok {
			return Undefined
		}
		switch e.Op {
		case "-":
			return 0 - f
		case "~":
			return float64(^int32Of(f))
		}
		return f
	case *syntax.Binary:
		return binary(e.Op, x(e.L), x(e.R))
	case *syntax.Logic:
		var list []any
		for _, y := range e.List {
			list = append(list, x(y))
		}
		return joined(list, e.Or)
	case *syntax.Between:
		v := x(e.X)
		return negated(joined([]any{compared(">=", v, x(e.Lo)), compared("<=", v, x(e.Hi))}, false), e.Not)
	case *syntax.In:
		var list []any
		for _, y := range e.List {
			list = append(list, compared("=", x(e.X), x(y)))
		}
		return negated(joined(list, true), e.Not)
	case *syntax.Like:
		s, ok := x(e.X).(string)
		p, okToo := x(e.Pattern).(string)
		if !ok || !okToo {
			return Undefined
		}
		return like([]rune(s), []rune(p)) != e.Not
	case *syntax.Cond:
		if x(e.If) == true {
			return x(e.Then)
		}
		return x(e.Else)
	case *syntax.Call:
		if hasAggregate(&syntax.Call{Name: e.Name}) {
			var values []any
			for _, r := range g.rows {
				if v := expr(e.Args[0], r, nil); v != Undefined {
					values = append(values, v)
				}
			}
			return aggregate(e.Name, values)
		}
		var args []any
		for _, y := range e.Args {
			args = append(args, x(y))
		}
		return call(e.Name, args)
	case *syntax.Object:
		out := make(map[string]any)
		for i, name := range e.Names {
			if v := x(e.List[i]); v != Undefined {
				out[name] = v
			}
		}
		return out
	case *syntax.Array:
		out := []any{}
		for _, y := range e.List {
			if v := x(y); v != Undefined {
				out = append(out, v)
			}
		}
		return out
	case *syntax.Sub:
		results := sub(e.Q, at)
		switch e.Kind {
		case syntax.SubExists:
			return len(results) > 0
		case syntax.SubArray:
			return append([]any{}, results...)
		}
		switch len(results) {
		case 0:
			return Undefined
		case 1:
			return results[0]
		}
		panic(Tooth{"several results of a subquery"})
	}
	panic(fmt.Sprintf("%T", e))
}

func member(of any, name string) any {
	if o, ok := of.(map[string]any); ok {
		if v, ok := o[name]; ok {
			return v
		}
	}
	return Undefined
}

func binary(op string, a, b any) any {
	switch op {
	case "=", "!=", "<", "<=", ">", ">=":
		return compared(op, a, b)
	case "??":
		if a != Undefined {
			return a
		}
		return b
	case "||":
		s, ok := a.(string)
		t, okToo := b.(string)
		if !ok || !okToo {
			return Undefined
		}
		return s + t
	}
	x, ok := a.(float64)
	y, okToo := b.(float64)
	if !ok || !okToo {
		return Undefined
	}
	var f float64
	switch op {
	case "+":
		f = x + y
	case "-":
		f = x - y
	case "*":
		f = x * y
	case "/":
		f = x / y
	case "%":
		f = math.Mod(x, y)
	case "&":
		f = float64(int32Of(x) & int32Of(y))
	case "|":
		f = float64(int32Of(x) | int32Of(y))
	case "^":
		f = float64(int32Of(x) ^ int32Of(y))
	default:
		panic("operator " + op)
	}
	if math.IsNaN(f) {
		panic(Tooth{"NaN"}) // the generator leaves such queries out
	}
	return f + 0
}

// like matches by trying everything.
func like(s, p []rune) bool {
	if len(p) == 0 {
		return len(s) == 0
	}
	switch p[0] {
	case '%':
		for i := range len(s) + 1 {
			if like(s[i:], p[1:]) {
				return true
			}
		}
		return false
	case '_':
		return len(s) > 0 && like(s[1:], p[1:])
	}
	return len(s) > 0 && s[0] == p[0] && like(s[1:], p[1:])
}
