package query_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/query"
)

// TestNotOffered: what other dialects have is named, and what to do in its place.
func TestNotOffered(t *testing.T) {
	const compute = "a path is compared with a constant; compute in the program, or keep the result in the document"
	for text, want := range map[string]string{
		`SELECT name FROM c`:                                         "column 8: name is no path, which begins with the name behind FROM: write c.name",
		`SELECT name FROM cities AS x`:                               "column 8: name is no path, which begins with the name behind FROM: write x.name",
		`SELECT t FROM c JOIN t IN c.tags`:                           "column 17: JOIN is not offered: use a path through the elements, as in c.tags[] = 'x'",
		`SELECT c.k, COUNT(1) FROM c GROUP BY c.k ORDER BY COUNT(1)`: "column 51: ORDER BY COUNT(…) is not offered: it takes paths, and groups come in the order of their values",
		`SELECT * FROM c WHERE c.name LIKE 'a%'`:                     "column 30: LIKE is not offered: there are STARTSWITH and CONTAINS",
		`SELECT * FROM c WHERE LOWER(c.name) = 'a'`:                  "column 23: LOWER is not offered: " + compute,
		`SELECT lower(c.name) FROM c`:                                "column 8: LOWER is not offered: " + compute,
		`SELECT * FROM c WHERE c.n + 1 = 2`:                          "column 27: + is not offered: " + compute,
		`SELECT * FROM c WHERE c.n - 1 = 2`:                          "column 27: expected the end of the query, found -; arithmetic is not offered: " + compute,
		`SELECT c.n * 2 FROM c`:                                      "column 12: expected FROM, found *; arithmetic is not offered: " + compute,
		`SELECT {"n": c.n} FROM c`:                                   "column 8: { is not offered: objects and arrays are neither made nor compared with: " + compute,
		`SELECT * FROM c WHERE c.t = [1]`:                            "column 29: expected a constant, found [; objects and arrays are neither made nor compared with: " + compute,
		`SELECT * FROM c WHERE c.n IN (SELECT VALUE 1)`:              "column 31: (SELECT …) is not offered: ask one query after the other",
		`SELECT c.like FROM c WHERE c.left = 1 AND c.n = `:           "column 49: expected a constant, found the end",
	} {
		_, err := query.Parse(text, nil)
		var bad *query.SyntaxError
		if !errors.As(err, &bad) || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// TestAccepted: what the model accepts.
func TestAccepted(t *testing.T) {
	for _, text := range []string{
		`SELECT DISTINCT c.k, c.n FROM c ORDER BY c.k`,
		`SELECT DISTINCT VALUE c.k FROM c ORDER BY c.k ASC`,
		`SELECT c.k, COUNT(1) n FROM c GROUP BY c.k ORDER BY c.k`,
		`SELECT c.like, c.left AS join FROM c WHERE c.lower = 1`,
		`SELECT VALUE join FROM join`,
	} {
		if _, err := query.Parse(text, nil); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	s, err := query.Parse(`SELECT c.name name2, MAX(c.n) most FROM c GROUP BY c.name`, nil)
	if err != nil || s.Columns[0].Name != "name2" || s.Columns[1].Name != "most" {
		t.Errorf("%+v, %v", s, err)
	}
	for _, text := range []string{`SELECT TOP 0 * FROM c WHERE c.n = 1`, `SELECT COUNT(1) FROM c LIMIT 0`, `SELECT c.k FROM c OFFSET 5 LIMIT 0`} {
		if s, err := query.Parse(text, nil); err != nil || !s.Where.Never() || s.Offset == 0 {
			t.Errorf("%s: %+v, %v", text, s, err)
		}
	}
	if _, err := query.Parse(`SELECT TOP 0 * FROM c LIMIT 0`, nil); err == nil {
		t.Error("TOP and LIMIT")
	}
}

// TestErrorsAreShort: an error repeats the beginning of what is wrong.
func TestErrorsAreShort(t *testing.T) {
	long := strings.Repeat("é", 200<<10)
	for _, text := range []string{
		`'` + long + `'`, long, `SELECT ` + long + ` FROM c`, `SELECT c.a FROM ` + long, `SELECT * FROM c WHERE '` + long + `'`,
		`SELECT * FROM c WHERE c.a = @` + long, `SELECT * FROM c '` + long + `'`, `SELECT * FROM ` + long + ` WHERE x = 1`,
		`SELECT * FROM ` + long + ` x WHERE ` + long[:1000] + ` = 1`, `SELECT TOP '` + long + `' * FROM c`, `SELECT * FROM c WHERE CONTAINS(c.a, c.` + long + `)`,
		`SELECT * FROM c ORDER BY ` + long + `(1)`, `SELECT * FROM c ORDER BY c.` + long + `[]`, `SELECT c.` + long + `, COUNT(1) FROM c`,
		`SELECT 1 AS ` + long + ` FROM c`, `SELECT * FROM c WHERE ` + long + `(c.a)`,
	} {
		if _, err := query.Parse(text, nil); err == nil || len(err.Error()) > 400 {
			t.Errorf("%.40s: an error of %d bytes", text, len(err.Error()))
		}
	}
	if _, err := query.ParsePath(long); err == nil || len(err.Error()) > 400 {
		t.Error("a path")
	}
}

// TestFilterLimits: what is too large is told, at its place.
func TestFilterLimits(t *testing.T) {
	const most = 10_000
	for _, test := range []struct {
		text, want string
		parameters map[string]any
	}{
		{`SELECT c.a FROM c WHERE c.a = 1` + strings.Repeat(" OR c.a = 1", most-1), "", nil},
		{`SELECT c.a FROM c WHERE (c.a = 1 AND NOT c.b = 1)` + strings.Repeat(" OR c.a = 1", most-2), "", nil},
		{`SELECT c.a FROM c WHERE c.a = 1` + strings.Repeat(" OR c.a = 1", most), "column 25: a filter of more than 10000 conditions and values", nil},
		{`SELECT * FROM c WHERE c.a = @p`, "column 29: parameter @p: a string of 2097153 bytes: at most 2097152 can be compared with", map[string]any{"p": strings.Repeat("x", 2<<20+1)}},
		{`SELECT * FROM c WHERE c.a = @p OR c.a = @p`, "column 23: a filter with more than 2097152 bytes of strings to compare with", map[string]any{"p": strings.Repeat("x", 1<<20+1)}},
		{`SELECT * FROM c WHERE c.a = @p`, "", map[string]any{"p": strings.Repeat("x", 2<<20)}},
	} {
		_, err := query.Parse(test.text, test.parameters)
		if got := ""; err != nil {
			if got = err.Error(); got != test.want {
				t.Errorf("%.60s: %s, want %s", test.text, got, test.want)
			}
		} else if test.want != "" {
			t.Errorf("%.60s: no error", test.text)
		}
	}
}
