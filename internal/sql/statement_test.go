package sql

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"
	"weak"

	"github.com/cleavestore/cleave/internal/exec"
	"github.com/cleavestore/cleave/internal/query"
	"github.com/cleavestore/cleave/internal/sql/eval"
	"github.com/cleavestore/cleave/internal/sql/syntax"
	"github.com/cleavestore/cleave/internal/sql/value"
	"github.com/cleavestore/cleave/partmap"
)

// TestWays: what indexes can answer goes to exec, and the rest is done here.
func TestWays(t *testing.T) {
	names := [...]string{whole: "whole", mapped: "mapped", joined: "joined", collected: "collected", constant: "constant"}
	for text, want := range map[string]string{
		"SELECT * FROM c WHERE c.a = 1 AND c.b > 'x'":                                    `whole /a = 1 AND /b > "x"`,
		"SELECT * FROM c WHERE 1 + 1 = c.a AND c.b LIKE 'x%'":                            `whole /a = 2 AND STARTSWITH(/b, "x")`,
		"SELECT * FROM c WHERE c.b LIKE 'x%y' AND c.a LIKE '%z%' AND c.d NOT LIKE 'q'":   `whole STARTSWITH(/b, "x") AND (c.b LIKE "x%y") AND CONTAINS(/a, "z") AND NOT /d = "q"`,
		"SELECT * FROM c WHERE NOT (c.a = 1 OR LOWER(c.b) = 'x')":                        `whole NOT (/a = 1 OR (LOWER(c.b) = "x"))`,
		"SELECT c.a, COUNT(c.b) AS n FROM c WHERE c.a != c.b GROUP BY c.a":               `whole (c.a != c.b)`,
		"SELECT c.x FROM c WHERE c['a b'].d IN (1, 2 * 3) ORDER BY c.x DESC":             `whole /a b/d IN (1, 6)`,
		"SELECT VALUE c FROM c WHERE c.a[0] = 1":                                         `whole (c.a[0] = 1)`,
		"SELECT * FROM c WHERE c.a IN (1, c.b)":                                          `whole (c.a IN (1, c.b))`,
		"SELECT * FROM c WHERE c.a BETWEEN 1 AND 'x'":                                    `whole (c.a BETWEEN 1 AND "x")`,
		"SELECT * FROM c WHERE STRINGEQUALS(c.a, 'x') AND CONTAINS(c.a, 'y', true)":      `whole /a = "x" AND (CONTAINS(c.a, "y", true))`,
		"SELECT c.a + 1 AS b FROM c WHERE c.a > 2 ORDER BY c.a":                          `mapped /a > 2`,
		"SELECT {a: c.a} FROM c WHERE IS_DEFINED(c.a) AND c.b":                           `mapped IS_DEFINED(/a) AND /b = true`,
		"SELECT t FROM c JOIN t IN c.t WHERE c.a = 1 AND t > 2 AND ABS(c.b) = 3":         `joined /a = 1 AND (ABS(c.b) = 3)`,
		"SELECT t FROM c JOIN t IN c.t WHERE c.a = 1 OR t > 2":                           `joined TRUE`,
		"SELECT VALUE t FROM t IN c.t WHERE t.a = 1":                                     `joined TRUE`,
		"SELECT c.a, t FROM c JOIN t IN c.o.t JOIN u IN c.t WHERE t > 2 ORDER BY t DESC": `joined TRUE by /o/t/[]`,
		"SELECT c.a, t FROM c JOIN t IN c.t JOIN u IN t.t ORDER BY u":                    `collected TRUE`,
		"SELECT c.a, t FROM c JOIN t IN c.t ORDER BY t.a":                                `collected TRUE`,
		"SELECT DISTINCT t FROM c JOIN t IN c.t ORDER BY t":                              `collected TRUE`,
		"SELECT DISTINCT VALUE c.a * 2 FROM c WHERE c.a = 1":                             `collected /a = 1`,
		"SELECT UPPER(c.a) AS u, COUNT(1) AS n FROM c WHERE c.a = 1 GROUP BY UPPER(c.a)": `collected /a = 1`,
		"SELECT * FROM c WHERE c.a = 1 ORDER BY LOWER(c.b)":                              `collected /a = 1`,
		"SELECT VALUE 1 + 1": `constant FALSE`,
	} {
		s, err := Parse(text, nil, Options{})
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got := names[s.way] + " " + s.Select.Where.Simplify().String()
		if s.ByElement() {
			got += " by " + s.Select.OrderBy[0].Path.String()
		}
		if got != want {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
		if again, err := Parse(text, nil, Options{}); err != nil || again.Text() != s.Text() || s.Whole() != (s.Text() == "") {
			t.Errorf("%s: text %q", text, s.Text())
		}
	}
}

// TestManyRowConditions: a filter of many conditions on joined rows is read at once.
func TestManyRowConditions(t *testing.T) {
	list := make([]string, 10_000)
	for i := range list {
		list[i] = fmt.Sprintf("t.some.members.of.joined.rows > %d", i)
	}
	s, err := Parse("SELECT VALUE t FROM c JOIN t IN c.t WHERE "+strings.Join(list, " AND "), nil, Options{})
	if err != nil || s.way != joined || s.Select.Where.Simplify().String() != "TRUE" || !s.sifts {
		t.Errorf("%+v, error %v", s, err)
	}
}

// documents is a Source of documents in order.
type documents struct {
	list []string
	sel  *query.Select
	to   *exec.Progress
}

func (d *documents) Run(yield func(*exec.Row) bool) (bool, error) {
	key, err := partmap.FromEncoded(partmap.AppendString(nil, []byte("k")))
	if err != nil {
		return false, err
	}
	e := query.Compile(d.sel.Where, nil).Evaluator()
	for i, doc := range d.list {
		if !e.Match([]byte(doc)) {
			if e.Err != nil {
				return false, e.Err
			}
			continue
		}
		at := exec.Position{Key: key, ID: fmt.Sprintf("%04d", i)}
		d.to.Set(at, 0)
		if !yield(&exec.Row{Key: at.Key, ID: at.ID, Seq: 1, Body: []byte(doc)}) {
			return false, nil
		}
	}
	return true, nil
}

// results runs a query over documents.
func results(t *testing.T, text string, o Options, list ...string) (out []string, err error) {
	t.Helper()
	s, err := Parse(text, nil, o)
	if err != nil {
		return nil, err
	}
	var to exec.Progress
	q := exec.Query{Select: s.Select}
	p, err := s.Begin(&q, nil, s.Offset, s.Limit)
	if err != nil {
		return nil, err
	}
	_, err = p.Run(t.Context(), &documents{list, q.Select, &to}, &to, func(row *exec.Row) bool {
		out = append(out, string(row.Body))
		return true
	})
	return out, err
}

// lent is a Source of documents, each in memory that has its key and its id too.
type lent struct{ list []weak.Pointer[[1 << 16]byte] }

func (l *lent) Run(yield func(*exec.Row) bool) (bool, error) {
	for i := range l.list {
		text := new([1 << 16]byte)
		l.list[i] = weak.Make(text)
		pk := len(partmap.AppendString(text[:0], []byte("k")))
		id := pk + copy(text[pk:], fmt.Sprintf("%04d", i))
		body := id + copy(text[id:], fmt.Sprintf(`{"n":%d}`, -i))
		if !yield(&exec.Row{Key: partmap.FromTrusted(text[:pk]), ID: unsafe.String(&text[pk], id-pk), Seq: 1, Body: text[id:body]}) {
			return false, nil
		}
	}
	return true, nil
}

// TestOrderHoldsNoDocuments: results that wait for their order hold what was made of the documents, and not the
// memory of these.
func TestOrderHoldsNoDocuments(t *testing.T) {
	for _, text := range []string{"SELECT VALUE c.n FROM c ORDER BY c.n * 2", "SELECT DISTINCT * FROM c ORDER BY c.n"} {
		s, err := Parse(text, nil, Options{})
		if err != nil {
			t.Fatal(err)
		}
		var to exec.Progress
		q := exec.Query{Select: s.Select}
		p, err := s.Begin(&q, nil, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		source := &lent{make([]weak.Pointer[[1 << 16]byte], 20)}
		n, held := 0, 0
		_, err = p.Run(t.Context(), source, &to, func(row *exec.Row) bool {
			if n++; n > 1 {
				return true
			}
			if row.ID != "0019" {
				t.Errorf("%s: %s comes first", text, row.ID)
			}
			runtime.GC()
			for _, document := range source.list {
				if document.Value() != nil {
					held++
				}
			}
			return true
		})
		if err != nil || n != len(source.list) || held > 2 { // the newest one may be in use
			t.Errorf("%s: %d results, which hold the memory of %d documents, error %v", text, n, held, err)
		}
	}
}

// TestComputedProperties: an expression takes the place of a computed property, in filters,
// orders and columns, which keep its name.
func TestComputedProperties(t *testing.T) {
	o := Options{Computed: map[string]string{
		"low": "SELECT VALUE LOWER(d.name) FROM d", "double": "SELECT VALUE c.n * 2 FROM c", "order": "SELECT VALUE c.n FROM c", "the rest": "SELECT VALUE c FROM c",
		"pair": "SELECT VALUE [c.n, c.n + 1] FROM c", "labels": "SELECT VALUE c.tags FROM c", "in": "SELECT VALUE {list: c.tags, n: c.n} FROM c",
	}}
	docs := []string{`{"name":"B","n":1,"tags":["x","y"]}`, `{"name":"A","n":2,"low":"stored"}`, `{"name":"C","n":3}`}
	for text, want := range map[string][]string{
		"SELECT c.low, c.double AS d FROM c WHERE c.double > 2 ORDER BY c.low DESC": {`{"low":"c","d":6}`, `{"low":"a","d":4}`},
		"SELECT VALUE x.low FROM x WHERE x.low = 'a'":                               {`"a"`},
		"SELECT VALUE c.o.low || 'x' FROM c":                                        nil,
		"SELECT VALUE ARRAY(SELECT VALUE x || c.low FROM x IN c.tags) FROM c":       {`["xb","yb"]`, `[]`, `[]`},
		"SELECT VALUE ARRAY(SELECT VALUE c.n FROM c IN c.tags) FROM c":              {`[]`, `[]`, `[]`},

		"SELECT c.order, c['the rest'].n, 7, c.double, c.in FROM c WHERE c.n = 3":        {`{"order":3,"n":3,"$1":7,"double":6,"in":{"n":3}}`},
		"SELECT c['the rest'] FROM c WHERE c.n = 3":                                      {`{"the rest":{"name":"C","n":3}}`},
		"SELECT c.low, c.n AS low2 FROM c WHERE c.n = 3":                                 {`{"low":"c","low2":3}`},
		"SELECT VALUE (SELECT c.low, c.order) FROM c WHERE c.n > 1":                      {`{"low":"a","order":2}`, `{"low":"c","order":3}`},
		"SELECT y.low, y.x FROM c JOIN (SELECT c.low, x FROM x IN c.tags) y":             {`{"low":"b","x":"x"}`, `{"low":"b","x":"y"}`},
		"SELECT VALUE [p, c.low] FROM c JOIN p IN c.pair WHERE p > 3":                    {`[4,"c"]`},
		"SELECT VALUE t FROM c JOIN t IN c.labels":                                       {`"x"`, `"y"`},
		"SELECT VALUE t FROM c JOIN t IN c.in.list":                                      {`"x"`, `"y"`},
		"SELECT VALUE [low, q[1], labels] FROM c JOIN c.low JOIN c.pair q JOIN c.labels": {`["b",2,["x","y"]]`},
		"SELECT VALUE ARRAY(SELECT VALUE p FROM p IN c.pair WHERE p > 2) FROM c":         {`[]`, `[3]`, `[3,4]`},
		"SELECT c.n FROM c JOIN c.in JOIN c['the rest'] WHERE c.n = 3":                   {`{"n":3}`},
	} {
		got, err := results(t, text, o, docs...)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s is %v, error %v, want %v", text, got, err, want)
		}
		// The printed query has the same results.
		tree, err := syntax.Parse(text)
		if err == nil {
			tree, err = Substitute(text, tree, o.Computed)
		}
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if got, err = results(t, tree.String(), Options{}, docs...); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s as\n%s is %v, error %v, want %v", text, tree, got, err, want)
		}
	}
	for _, body := range []string{
		"SELECT", "SELECT c.a FROM c", "SELECT VALUE c.a FROM c JOIN t IN c.t", "SELECT VALUE s.a FROM c.sub s",
		"SELECT VALUE ARRAY(SELECT VALUE d.a FROM d IN d.list) FROM d", "SELECT VALUE ARRAY(SELECT VALUE d.a || c FROM c IN d.list) FROM d",
	} {
		if _, err := results(t, "SELECT c.p FROM c", Options{Computed: map[string]string{"p": body}}, docs...); err == nil || !strings.Contains(err.Error(), "computed property p") {
			t.Errorf("%s: error %v", body, err)
		}
	}
	for _, text := range []string{
		"SELECT VALUE ARRAY(SELECT VALUE c.low FROM c IN c.list) FROM c",
		"SELECT VALUE x FROM c JOIN x IN (SELECT VALUE c.low FROM c IN c.list)",
	} {
		if _, err := results(t, text, o, docs...); err == nil || !strings.Contains(err.Error(), "computed property low") {
			t.Errorf("%s: error %v", text, err)
		}
	}
}

// TestComputedInDeepSubqueries: the time that it takes to put a computed property in does not double with each level of
// subqueries.
func TestComputedInDeepSubqueries(t *testing.T) {
	o := Options{Computed: map[string]string{"low": "SELECT VALUE LOWER(d.name) FROM d"}}
	inner, source := "c.low", "c.low"
	for range 60 {
		inner = "(SELECT VALUE " + inner + ")"
	}
	for range 40 {
		source = "(SELECT VALUE x FROM (SELECT VALUE " + source + ") x)"
	}
	for _, e := range []string{inner, source} {
		got, err := results(t, "SELECT VALUE "+e+" FROM c", o, `{"name":"A"}`)
		if err != nil || !slices.Equal(got, []string{`"a"`}) {
			t.Errorf("%.40s: %v, error %v", e, got, err)
		}
	}
}

// TestUDF: functions of users are called with values, and their errors end the query.
func TestUDF(t *testing.T) {
	broken := errors.New("broken")
	o := Options{Options: eval.Options{UDF: func(name string) (eval.UDF, bool) {
		return map[string]eval.UDF{
			"twice": func(args []value.Value) (value.Value, error) {
				f, _ := args[0].Number()
				return value.Number(2 * f), nil
			},
			"fails": func([]value.Value) (value.Value, error) { return value.Value{}, broken },
		}[name], name == "twice" || name == "fails"
	}}}
	docs := []string{`{"n":1}`, `{"n":5}`}
	got, err := results(t, "SELECT VALUE udf.twice(c.n) FROM c WHERE udf.twice(c.n) > 3", o, docs...)
	if err != nil || !slices.Equal(got, []string{"10"}) {
		t.Errorf("results %v, error %v", got, err)
	}
	for _, text := range []string{"SELECT VALUE udf.fails(c.n) FROM c", "SELECT * FROM c WHERE c.n = 1 AND udf.fails(c.n) = 1", "SELECT VALUE t FROM c JOIN t IN [1] WHERE udf.fails(t)"} {
		if strings.Contains(text, "JOIN") {
			text = "SELECT VALUE t FROM c JOIN (SELECT VALUE c.n) AS t WHERE udf.fails(t)"
		}
		if got, err := results(t, text, o, docs...); !errors.Is(err, broken) || len(got) > 0 {
			t.Errorf("%s: results %v, error %v", text, got, err)
		}
	}
}

// TestNothing: TOP 0 and LIMIT 0 give nothing, not even a group of nothing.
func TestNothing(t *testing.T) {
	for _, text := range []string{"SELECT TOP 0 VALUE UPPER(c.a) FROM c", "SELECT VALUE COUNT(1) + 0 FROM c OFFSET 0 LIMIT 0", "SELECT * FROM c WHERE ABS(c.a) = 1 OFFSET 0 LIMIT 0", "SELECT VALUE 1 OFFSET 0 LIMIT 0"} {
		if got, err := results(t, text, Options{}, `{"a":1}`); err != nil || len(got) > 0 {
			t.Errorf("%s: results %v, error %v", text, got, err)
		}
	}
}

// TestParametersBounded: a query is refused if its parameters take more than their bound. That holds for all forms
// of queries and for texts, lists and objects as parameters. A parameter counts once, and by another bound as often as
// the query names it.
func TestParametersBounded(t *testing.T) {
	text := func(n int) string { return strings.Repeat("x", n) }
	list := func(n int, of any) (l []any) {
		for range n {
			l = append(l, of)
		}
		return l
	}
	for _, test := range []struct {
		text string
		p    any
		fine bool
	}{
		{`SELECT * FROM c WHERE c.a = @p`, text(2 << 20), true},
		{`SELECT * FROM c WHERE c.a = @p`, text(64 << 20), false},
		{`SELECT * FROM c WHERE CONTAINS(c.a, @p)`, text(syntax.MaxParameters), false},
		{`SELECT VALUE CONCAT(c.a, @p, @p, @p) FROM c`, text(2 << 20), true},
		{`SELECT VALUE CONCAT(c.a, @p, @p2) FROM c`, text(3 << 20), false},
		{`SELECT * FROM c WHERE ARRAY_CONTAINS(@p, c.a)`, list(40_000, 1), true},
		{`SELECT * FROM c WHERE ARRAY_CONTAINS(@p, c.a)`, list(100_000, 1), false},
		{`SELECT * FROM c WHERE ARRAY_CONTAINS(@p, c.a)`, list(3, text(2<<20)), false},
		{`SELECT * FROM c WHERE ARRAY_CONTAINS(@p, c.a)`, json.RawMessage(`["` + text(5<<20) + `"]`), false},
		{`SELECT * FROM c WHERE c.a = @p`, map[string]any{text(5 << 20): 1}, false},
		{`SELECT VALUE [` + strings.Repeat("@p, ", 8) + `@p] FROM c`, text(2 << 20), false},
		{`SELECT * FROM c WHERE CONTAINS_ALL_CS(c.a` + strings.Repeat(", @p", 9) + `)`, text(2 << 20), false},
		{`SELECT VALUE [` + strings.Repeat("@p, ", 9_999) + `@p] FROM c`, 1, true},
	} {
		_, err := Parse(test.text, map[string]any{"@p": test.p, "@p2": test.p}, Options{})
		var bad *syntax.Error
		if (err == nil) != test.fine || err != nil && (!errors.As(err, &bad) || !strings.Contains(err.Error(), "parameters of more than") || len(err.Error()) > 200) {
			t.Errorf("%s, %T: %.300v, want it to be refused: %t", test.text, test.p, err, !test.fine)
		}
	}
}
