package sql_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/cleavestore/cleave/internal/query"
	"github.com/cleavestore/cleave/internal/query/reference"
	"github.com/cleavestore/cleave/internal/sql"
	"github.com/cleavestore/cleave/internal/sql/syntax"
)

// TestAnyElement: a condition on any element of an array stands wherever a condition of a filter
// may stand, beside what is evaluated; nothing else has such a path.
func TestAnyElement(t *testing.T) {
	for text, want := range map[string]string{
		`SELECT * FROM c WHERE c.tags[] = 'x' AND UPPER(c.name) = 'A'`:              `/tags/[] = "x" AND (UPPER(c.name) = "A")`,
		`SELECT VALUE UPPER(c.name) FROM c WHERE NOT c.tags[] IN ('x', 'y')`:        `NOT /tags/[] IN ("x", "y")`,
		`SELECT t FROM c JOIN t IN c.tags WHERE c.lines[].sku = 'x' AND t != 'y'`:   `/lines/[]/sku = "x"`,
		`SELECT * FROM c WHERE 1 < c.a[][] OR c.b[]`:                                `/a/[]/[] > 1 OR /b/[] = true`,
		`SELECT * FROM c WHERE c.tags[] LIKE 'x%' AND c.tags[] BETWEEN 'a' AND 'b'`: `STARTSWITH(/tags/[], "x") AND "a" <= /tags/[] <= "b"`,
		`SELECT * FROM c WHERE c.tags [ ] = 'x'`:                                    `/tags/[] = "x"`,
	} {
		s, err := sql.Parse(text, nil, sql.Options{})
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if got := s.Select.Where.String(); got != want {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
	}
	const other = "[] stands for any element only in simple conditions, which compare a path with a constant: expected an index or a JOIN"
	for text, want := range map[string]string{
		`SELECT VALUE c.tags[] FROM c`:                                     "column 20: " + other,
		`SELECT * FROM c ORDER BY c.tags[]`:                                "column 32: " + other,
		`SELECT COUNT(1) FROM c GROUP BY c.tags[]`:                         "column 39: " + other,
		`SELECT t FROM c JOIN t IN c.tags[]`:                               "column 33: " + other,
		`SELECT t FROM c JOIN t IN c.tags WHERE c.tags[] = 'x' OR t = 'y'`: "column 46: " + other,
		"SELECT *\nFROM c\nWHERE c.a = 1 AND c.tags[] = c.b":               "line 3, column 25: " + other,
		`SELECT * FROM c WHERE UPPER(c.tags[]) = 'X'`:                      "column 35: " + other,
		`SELECT * FROM c WHERE (c.tags[] = 'x') = true`:                    "column 30: " + other,
		`SELECT * FROM c WHERE EXISTS(SELECT 1 FROM c WHERE c.tags[] = 1)`: "column 58: " + other,
	} {
		_, err := sql.Parse(text, nil, sql.Options{})
		if bad := (*syntax.Error)(nil); !errors.As(err, &bad) || err.Error() != want {
			t.Errorf("%s: error %v, want %s", text, err, want)
		}
	}
}

// FuzzParse reads any text: it is an error that is inside of the text, or a query whose filter
// means the same to a second evaluator.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		`SELECT * FROM c WHERE c.a = 1 AND NOT (c.b IN (1,'x',null) OR CONTAINS(c.s, "é"))`,
		`SELECT DISTINCT TOP 5 VALUE c.a["b"] FROM root c ORDER BY c.a DESC OFFSET 1`,
		`SELECT c.a, COUNT(1) AS n, AVG(c.b) FROM c GROUP BY c.a`,
		`SELECT * FROM c WHERE c.t[].x BETWEEN -1 AND 2e9 LIMIT @p`,
		`SELECT * FROM c WHERE '\ud83d\ude00' = c.x`,
		`SELECT t FROM c JOIN t IN c.t WHERE c.s LIKE 'é%' AND c.t[].x = @p AND t.x = 1`,
	} {
		f.Add(text)
	}
	doc := []byte(`{"a":{"b":1},"t":[{"x":1}],"s":"é"}`)
	f.Fuzz(func(t *testing.T, text string) {
		st, err := sql.Parse(text, map[string]any{"p": 3}, sql.Options{})
		if err != nil {
			var bad *syntax.Error
			if !errors.As(err, &bad) || bad.Offset < 0 || bad.Offset > len(text) || bad.Column < 1 || bad.Line < 1 {
				t.Fatalf("%v", err)
			}
			return
		}
		s := st.Select
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
		if computed(s.Where) {
			return
		}
		e := query.Compile(s.Where, nil).Evaluator()
		if e.Match(doc) != reference.Matches(t, reference.Parse(t, doc), s.Where) {
			t.Fatal("the reference has another answer")
		}
	})
}

// computed says whether a filter has a condition that only package sql knows.
func computed(f *query.Filter) bool {
	found := f.Op == query.Computed
	for _, s := range f.Sub {
		found = found || computed(s)
	}
	return found
}

func BenchmarkParse(b *testing.B) {
	parameters := map[string]any{"@id": "order-17", "@least": json.Number("100")}
	for _, test := range []struct{ name, text string }{
		{"simple", `SELECT * FROM c WHERE c.id = 'order-17'`},
		{"parameters", `SELECT * FROM c WHERE c.id = @id AND c.total >= @least`},
		{"page", `SELECT TOP 10 c.id, c.customer.name AS customer, c.total FROM c WHERE c.status IN ('open', 'paid', 'sent') AND c.total BETWEEN 10 AND 500 ORDER BY c.total DESC`},
		{"groups", `SELECT c.status, COUNT(1) AS orders, SUM(c.total) AS total FROM c WHERE NOT IS_NULL(c.status) GROUP BY c.status`},
		{"computed", `SELECT c.id, c.total * 1.2 AS gross FROM c WHERE UPPER(c.status) = 'OPEN'`},
	} {
		b.Run(test.name, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				if _, err := sql.Parse(test.text, parameters, sql.Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
