package query_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/query"
	"github.com/cleavestore/cleave/internal/query/reference"
	"github.com/cleavestore/cleave/internal/randtest"
	"github.com/cleavestore/cleave/internal/sql"
	"github.com/cleavestore/cleave/internal/sql/eval"
	"github.com/cleavestore/cleave/internal/sql/syntax"
	"github.com/cleavestore/cleave/internal/sql/value"
)

func newDraw(t testing.TB) reference.Draw { return reference.Draw{Rand: randtest.New(t), T: t} }

// TestMatch compares filters, as they are and simplified, with the reference.
func TestMatch(t *testing.T) {
	d := newDraw(t)
	for range 3000 {
		f := d.Filter(4)
		if err := f.Check(); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		e := query.Compile(f, nil).Evaluator()
		simple := query.Compile(f.Simplify(), nil).Evaluator()
		for range 20 {
			doc := []byte(d.Members("id", "a", "b", "n", "s", "o", "t", "l"))
			want := reference.Matches(t, reference.Parse(t, doc), f)
			if got := e.Match(doc); got != want {
				t.Fatalf("%s\n%s\ngot %v, want %v", f, doc, got, want)
			}
			if got := simple.Match(doc); got != want {
				t.Fatalf("%s, simplified %s\n%s\ngot %v, want %v", f, f.Simplify(), doc, got, want)
			}
		}
	}
}

// TestLongConditionsEnd: what many conditions, or one with many values, look at in a document ends with the context.
func TestLongConditionsEnd(t *testing.T) {
	leaf := func(op query.Op, path string, values ...any) *query.Filter {
		f, err := query.Leaf(op, path, values...)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	texts := &query.Filter{Op: query.Or}
	var values []any
	for i := range 1000 {
		texts.Sub = append(texts.Sub, leaf(query.Contains, "/s", strings.Repeat("y", i+1)))
		values = append(values, i+2)
	}
	doc := []byte(`{"a":[` + strings.Repeat("1,", 999) + `1],"s":"` + strings.Repeat("x", 1<<12) + `"}`)
	for _, f := range []*query.Filter{texts, leaf(query.In, "/a/[]", values...)} {
		e := query.Compile(f, nil).Evaluator()
		e.Ctx = &randtest.AskedContext{Context: t.Context(), Left: 10}
		if e.Match(doc); !errors.Is(e.Err, context.Canceled) {
			t.Errorf("%.40s: error %v, want that of the context", f, e.Err)
		}
		e = query.Compile(f, []query.Path{{{Name: "s"}}}).Evaluator()
		if e.Ctx = t.Context(); e.Match(doc) || e.Err != nil || len(e.Wanted[0].Text) != 1<<12+2 {
			t.Errorf("%.40s: it matches, or error %v", f, e.Err)
		}
	}
}

// failing is a condition that cannot be tested.
type failing struct{}

func (failing) String() string { return "failing" }

func (failing) Tester() query.Tester {
	return func(context.Context, []byte, uint64) (is, defined bool, err error) {
		return true, true, errors.New("failed")
	}
}

// TestComputedSpared: a computed condition is tested only where the others do not decide.
func TestComputedSpared(t *testing.T) {
	one, err := query.Leaf(query.Eq, "/a", 1)
	if err != nil {
		t.Fatal(err)
	}
	computed := &query.Filter{Op: query.Computed, Cond: failing{}}
	not := &query.Filter{Op: query.Not, Sub: []*query.Filter{computed}}
	for op, doc := range map[query.Op]string{query.Or: `{"a":1}`, query.And: `{"a":2}`} {
		for _, other := range []*query.Filter{computed, not} {
			e := query.Compile(&query.Filter{Op: op, Sub: []*query.Filter{other, one}}, nil).Evaluator()
			if is := e.Match([]byte(doc)); is != (op == query.Or) || e.Err != nil {
				t.Errorf("op %d with %s: %v, error %v", op, other, is, e.Err)
			}
			if e.Match([]byte(`{"a":3}`)); op == query.Or && e.Err == nil {
				t.Error("a condition that decides is not tested")
			}
		}
	}
}

// TestSelect compares projections, groups and aggregates with the reference.
func TestSelect(t *testing.T) {
	d := newDraw(t)
	for range 2000 {
		s := d.Select()
		s.OrderBy = nil
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
		var docs []reference.Document
		var rows []any
		g, half := s.Grouper(), s.Grouper()
		paths := s.ColumnPaths()
		if s.Grouped() {
			paths = g.Paths()
		}
		e := query.Compile(s.Where, paths).Evaluator()
		for i := range d.IntN(30) {
			doc := []byte(d.Members("id", "a", "b", "n", "s", "o", "t", "l"))
			docs = append(docs, reference.Document{Place: string(rune('a' + i)), Root: reference.Parse(t, doc)})
			if !e.Match(doc) {
				continue
			}
			switch {
			case s.Grouped() && i%2 == 0:
				g.Add(e.Wanted)
			case s.Grouped():
				half.Add(e.Wanted)
			case len(s.Columns) == 0:
				rows = append(rows, reference.Parse(t, doc))
			default:
				if row, ok := s.Projector().Append(nil, e.Wanted); ok {
					rows = append(rows, reference.Parse(t, row))
				}
			}
		}
		if s.Grouped() {
			g.Merge(half)
			for _, key := range g.Keys() {
				if row, ok := g.Append(nil, key); ok {
					rows = append(rows, reference.Parse(t, row))
				}
			}
		}
		want := reference.Rows(t, docs, s)
		if len(rows)+len(want) > 0 && !alike(rows, want) {
			t.Fatalf("%+v\ngot  %v\nwant %v", s, rows, want)
		}
	}
}

// TestLargeSums: a sum whose parts leave the range of doubles is the same, whether documents or the terms
// of an index are counted, and in whatever order.
func TestLargeSums(t *testing.T) {
	for _, test := range []struct{ text, numbers, want string }{
		{"SUM", "1e308 -1e308 1e308 -1e308", "0"}, {"SUM", "1e308 1e308 -1e308 -1e308", "0"}, {"AVG", "1e308 1e308 -1e308 -1e308", "0"},
		{"SUM", "1e308 1e308", "1e999"}, {"SUM", "1e999 1e308", "1e999"}, {"SUM", "1e999 -1e999", ""}, {"AVG", "1 2", "1.5"},
		{"SUM", "1e308 1e308 -1e308", "1e+308"}, {"AVG", "1e308 1e308", "1e+308"}, {"AVG", "-1e308 -1e308 -1e308 1e308", "-5e+307"}, {"AVG", "1e999 1", "1e999"}, {"AVG", "1e999 -1e999", ""},
	} {
		st, err := sql.Parse("SELECT VALUE "+test.text+"(c.n) FROM c", nil, sql.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s := st.Select
		scan, half, index := s.Grouper(), s.Grouper(), s.Grouper()
		e := query.Compile(s.Where, scan.Paths()).Evaluator()
		many := make(map[float64]int64)
		for i, number := range strings.Fields(test.numbers) {
			e.Match([]byte(`{"n":` + number + `}`))
			[]*query.Grouper{scan, half}[i/2].Add(e.Wanted)
			many[e.Wanted[0].Number()]++
		}
		scan.Merge(half)
		for _, f := range slices.Sorted(maps.Keys(many)) {
			index.AddMany(&query.Value{Kind: jsondoc.KindNumber, Number: f}, many[f])
		}
		for _, g := range []*query.Grouper{scan, index} {
			if got, _ := g.Append(nil, ""); string(got) != test.want {
				t.Errorf("%s of %s is %s, want %s", test.text, test.numbers, got, test.want)
			}
		}
		// So it is of values that are computed, and in a subquery.
		list := value.Parse([]byte("[" + strings.Join(strings.Fields(test.numbers), ",") + "]"))
		for _, text := range []string{"SELECT VALUE " + test.text + "(n * 1) FROM n IN c.list", "SELECT VALUE (SELECT VALUE " + test.text + "(n) FROM n IN c.list) FROM c"} {
			tree, err := syntax.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			q, err := eval.Compile(text, tree, eval.Options{})
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			err = q.Run(q.NewFrame(time.Now(), nil), value.Object([]string{"list"}, []value.Value{list}), func(v value.Value) bool {
				got = v.String()
				return true
			})
			if err != nil || got != test.want {
				t.Errorf("%s of %s is %s, error %v, want %s", text, test.numbers, got, err, test.want)
			}
		}
	}
}

// alike compares rows without their order.
func alike(a, b []any) bool {
	texts := func(rows []any) map[string]int {
		m := make(map[string]int)
		for _, r := range rows {
			b, _ := json.Marshal(r)
			m[string(b)]++
		}
		return m
	}
	return reflect.DeepEqual(texts(a), texts(b))
}

// TestOrderKeys compares order keys with values, and reads them again.
func TestOrderKeys(t *testing.T) {
	d := newDraw(t)
	type keyed struct {
		value any
		text  string
		key   []byte
	}
	p, err := query.ParsePath("/v")
	if err != nil {
		t.Fatal(err)
	}
	e := query.Compile(&query.Filter{}, []query.Path{p}).Evaluator()
	var list []keyed
	for range 300 {
		text := d.Value("v")
		e.Match([]byte(`{"v":` + text + `}`))
		k := query.AppendOrder(nil, &e.Wanted[0], false)
		list = append(list, keyed{reference.Parse(t, []byte(text)), text, k})
		v, n := query.ReadOrder(append(k, 7), false, false)
		if n != len(k) {
			t.Fatalf("%s: key of %d bytes reads as %d", text, len(k), n)
		}
		if v.Kind < jsondoc.KindArray {
			if back := reference.Parse(t, []byte(v.String())); reference.Compare(back, reference.Parse(t, []byte(text))) != 0 || !bytes.Equal(v.AppendOrder(nil), k) {
				t.Fatalf("%s reads as %s", text, v)
			}
		}
		for i := range k {
			k[i] = ^k[i]
		}
		if w, n := query.ReadOrder(k, true, false); n != len(k) || w != v {
			t.Fatalf("%s: falling %v %d", text, w, n)
		}
		for i := range k {
			k[i] = ^k[i]
		}
	}
	for _, a := range list {
		for _, b := range list {
			if bytes.Compare(a.key, b.key) != reference.Compare(a.value, b.value) {
				t.Fatalf("%s and %s: %x and %x", a.text, b.text, a.key, b.key)
			}
		}
	}
}

func BenchmarkMatch(b *testing.B) {
	doc := []byte(`{"id":"x","foodGroup":"Snacks","manufacturer":"Rowan Hill Organics","upc":"009911","description":"Oats, whole, raw, plain","tags":["oats","whole"],"price":4.25,"kcal":312,"nutrients":[` +
		strings.Repeat(`{"id":"203","name":"Protein","units":"g","value":12.5},`, 15) + `{"id":"1"}],"servings":[]}`)
	for _, text := range []string{`c.foodGroup = "Snacks"`, `c.kcal > 300 AND c.price < 5`, `c.nutrients[].value > 100`, `c.absent = 1`} {
		s, err := sql.Parse("SELECT * FROM c WHERE "+text, nil, sql.Options{})
		if err != nil {
			b.Fatal(err)
		}
		e := query.Compile(s.Select.Where, nil).Evaluator()
		b.Run(text, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				e.Match(doc)
			}
		})
	}
}
