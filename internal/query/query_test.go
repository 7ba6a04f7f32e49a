package query_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/query"
	"github.com/cleavestore/cleave/internal/query/reference"
	"github.com/cleavestore/cleave/internal/randtest"
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

// alike compares rows; those of groups that are arrays or objects have no
// order.
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

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		`SELECT * FROM c`:                                                                  "TRUE",
		`select value c from root c where c.a = 1`:                                         "/a = 1",
		`SELECT * FROM c WHERE c.a.b["x/y"][] >= -1.5e1`:                                   `/a/b/"x/y"/[] >= -15`,
		`SELECT * FROM c WHERE 5 < c.a AND NOT (c.b != 'it\'s' OR c["s"] <> @p)`:           `/a > 5 AND NOT (/b != "it's" OR /s != true)`,
		`SELECT * FROM c WHERE c.a IN (1, "x", null, @p) OR c.a NOT IN (2)`:                `/a IN (1, "x", null, true) OR NOT /a IN (2)`,
		`SELECT * FROM c WHERE c.a BETWEEN 1 AND 2 AND c.active`:                           `1 <= /a <= 2 AND /active = true`,
		`SELECT * FROM c WHERE startswith(c.a, 'x') AND Contains(c.b,@q)`:                  `STARTSWITH(/a, "x") AND CONTAINS(/b, "t")`,
		`SELECT * FROM c WHERE ARRAY_CONTAINS(c.t, 3) OR is_defined(c.x) AND IS_NULL(c.y)`: `ARRAY_CONTAINS(/t, 3) OR (IS_DEFINED(/x) AND /y IS null)`,
		`SELECT * FROM c WHERE NOT NOT c.a = null`:                                         `NOT NOT /a = null`,
		`SELECT * FROM c WHERE false OR true`:                                              `FALSE OR TRUE`,
		`SELECT * FROM c WHERE c.value = 1 AND c.count < 2`:                                `/value = 1 AND /count < 2`,
	} {
		s, err := query.Parse(text, map[string]any{"@p": true, "q": "t"})
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if s.Where.String() != want {
			t.Errorf("%s: %s", text, s.Where)
		}
	}
	s, err := query.Parse("SELECT TOP @n c.a, c.b.d AS x, c[\"e f\"] FROM cities AS c\nORDER BY c.a DESC, c.b.d ASC OFFSET 5", map[string]any{"n": 10})
	if err != nil {
		t.Fatal(err)
	}
	if s.Limit != 10 || s.Offset != 5 || len(s.Columns) != 3 || s.Columns[1].Name != "x" || s.Columns[2].Name != "e f" || len(s.OrderBy) != 2 || !s.OrderBy[0].Falling || s.OrderBy[1].Falling {
		t.Errorf("%+v", s)
	}
	s, err = query.Parse(`SELECT c.a, COUNT(1) AS n, MAX(c.b) FROM c WHERE c.x > 0 GROUP BY c.a OFFSET 1 LIMIT 2`, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !s.Grouped() || s.Columns[1].Func != query.Count || s.Columns[2].Name != "$1" || s.Columns[2].Func != query.Max || s.Limit != 2 || len(s.GroupBy) != 1 {
		t.Errorf("%+v", s)
	}
	if s, err = query.Parse(`SELECT VALUE count FROM count`, nil); err != nil || s.Value || len(s.Columns) != 0 {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		``:                                                      "column 1: expected SELECT, found the end",
		`SELECT * FROM c WHERE`:                                 "column 22: expected a path, found the end",
		`SELECT * FROM c WHERE c.a = `:                          "column 29: expected a constant, found the end",
		`SELECT * FROM c WHERE c.a = c.b`:                       "column 29: a path can be compared with a constant only",
		`SELECT * FROM c WHERE é.a = 1`:                         "column 23: expected a condition, found é; a path must begin with c",
		`SELECT x.a FROM c`:                                     "column 8: a path must begin with c",
		`SELECT * FROM c WHERE c.a = 'x`:                        "column 29: the string has no closing quote",
		"SELECT *\nFROM c\nWHERE c.a # 1":                       "line 3, column 11: unexpected character '#'",
		`SELECT * FROM c WHERE c.a = @x`:                        "column 29: parameter @x is not given",
		`SELECT * FROM c WHERE c.a[0] = 1`:                      "column 27: expected a name in quotes, or ] for any element, found 0",
		`SELECT c.a, COUNT(1) FROM c`:                           "column 8: column /a is neither an aggregate nor a group",
		`SELECT * FROM c LIMIT -1`:                              "column 23: expected a whole number from 0 to 2147483647, found -1",
		`SELECT TOP 1 * FROM c LIMIT 1`:                         "column 23: TOP and LIMIT are the same: give one",
		`SELECT c FROM c`:                                       "column 8: the whole document is no column: write * or VALUE c",
		`SELECT * FROM c, d`:                                    "column 16: expected the end of the query, found ,",
		`SELECT * FROM c WHERE c.a = 1x`:                        "column 29: a number ends with a letter",
		`SELECT * FROM c WHERE STARTSWITH(c.a, 1)`:              "column 39: expected a string, found 1",
		"SELECT c.a, c.b.a FROM c":                              "column 13: two columns are named \"a\"",
		"SELECT *\nFROM c GROUP BY c.a":                         "column 8: groups and distinct rows need columns",
		"SELECT DISTINCT c.a\nFROM c ORDER BY c.b":              "line 2, column 17: rows of groups, aggregates and distinct values come in the order of the values: no other order is possible",
		"SELECT c.a FROM c WHERE c.x GROUP BY c.a,\n c.t[]":     "line 2, column 2: group /t/[]: a path through the elements of an array has no single value",
		"SELECT c.a" + strings.Repeat(", c.a", 100) + " FROM c": "column 508: more than 100 columns or paths",
		`SELECT * FROM c ORDER BY c.t[]`:                        "column 26: order /t/[]: a path through the elements of an array has no single value",
		`SELECT * FROM c WHERE ` + strings.Repeat("(", 5000):    "column 123: more than 100 nested conditions",
		"SELECT \xff":                                           "column 8: not valid UTF-8",
	} {
		_, err := query.Parse(text, nil)
		var bad *query.SyntaxError
		if !errors.As(err, &bad) || err.Error() != want {
			t.Errorf("%.60s: %v, want %s", text, err, want)
		}
	}
}

// FuzzParse reads any text: it is a query that can be checked and compiled, or
// an error that is inside of the text.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		`SELECT * FROM c WHERE c.a = 1 AND NOT (c.b IN (1,'x',null) OR CONTAINS(c.s, "é"))`,
		`SELECT DISTINCT TOP 5 VALUE c.a["b"] FROM root c ORDER BY c.a DESC OFFSET 1`,
		`SELECT c.a, COUNT(1) AS n, AVG(c.b) FROM c GROUP BY c.a`,
		`SELECT * FROM c WHERE c.t[].x BETWEEN -1 AND 2e9 LIMIT @p`,
		`SELECT * FROM c WHERE '\ud83d\ude00' = c.x`,
	} {
		f.Add(text)
	}
	doc := []byte(`{"a":{"b":1},"t":[{"x":1}],"s":"é"}`)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := query.Parse(text, map[string]any{"p": 3})
		if err != nil {
			var bad *query.SyntaxError
			if !errors.As(err, &bad) || bad.Offset < 0 || bad.Offset > len(text) || bad.Column < 1 || bad.Line < 1 {
				t.Fatalf("%v", err)
			}
			return
		}
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
		e := query.Compile(s.Where, nil).Evaluator()
		if e.Match(doc) != reference.Matches(t, reference.Parse(t, doc), s.Where) {
			t.Fatal("the reference has another answer")
		}
	})
}

func BenchmarkMatch(b *testing.B) {
	doc := []byte(`{"id":"x","foodGroup":"Snacks","manufacturer":"Rowan Hill Organics","upc":"009911","description":"Oats, whole, raw, plain","tags":["oats","whole"],"price":4.25,"kcal":312,"nutrients":[` +
		strings.Repeat(`{"id":"203","name":"Protein","units":"g","value":12.5},`, 15) + `{"id":"1"}],"servings":[]}`)
	for _, text := range []string{`c.foodGroup = "Snacks"`, `c.kcal > 300 AND c.price < 5`, `c.nutrients[].value > 100`, `c.absent = 1`} {
		s, err := query.Parse("SELECT * FROM c WHERE "+text, nil)
		if err != nil {
			b.Fatal(err)
		}
		e := query.Compile(s.Where, nil).Evaluator()
		b.Run(text, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				e.Match(doc)
			}
		})
	}
}
