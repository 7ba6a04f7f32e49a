package sql_test

import (
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/query"
	"github.com/cleavestore/cleave/internal/sql"
)

// TestErrorsAreShort: an error repeats the beginning of what is wrong.
func TestErrorsAreShort(t *testing.T) {
	long := strings.Repeat("é", 200<<10)
	for _, text := range []string{
		`'` + long + `'`, long, `SELECT ` + long + ` FROM c`, `SELECT c.a FROM ` + long, `SELECT * FROM c WHERE '` + long + `' 1`,
		`SELECT * FROM c WHERE c.a = @` + long, `SELECT * FROM c '` + long + `'`, `SELECT * FROM ` + long + ` WHERE x = 1`,
		`SELECT * FROM ` + long + ` x WHERE ` + long[:1000] + ` = 1`, `SELECT TOP '` + long + `' * FROM c`, `SELECT * FROM c WHERE CONTAINS(c.a, x.` + long + `)`,
		`SELECT * FROM c ORDER BY ` + long + `(1)`, `SELECT * FROM c ORDER BY c.` + long + `[]`, `SELECT c.` + long + `, COUNT(1) FROM c`,
		`SELECT 1 AS ` + long + `, 2 AS ` + long + ` FROM c`, `SELECT * FROM c WHERE ` + long + `(c.a)`,
	} {
		if _, err := sql.Parse(text, nil, sql.Options{}); err == nil || len(err.Error()) > 400 {
			t.Errorf("%.40s: error %.100v", text, err)
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
		{`SELECT c.a FROM c WHERE c.a = 1` + strings.Repeat(" OR c.a = 1", most), "column 110032: more than 10000 conditions joined by OR", nil},
		{`SELECT c.a FROM c WHERE c.b = 1 OR c.a IN (1` + strings.Repeat(",1", most-1) + `)`, "column 25: a filter of more than 10000 conditions and values", nil},
		{`SELECT * FROM c WHERE c.a = @p`, "", map[string]any{"p": strings.Repeat("x", 2<<20+1)}}, // documents are read
		{`SELECT * FROM c WHERE c.a = @p OR c.a = @p`, "column 23: a filter with more than 2097152 bytes of strings to compare with", map[string]any{"p": strings.Repeat("x", 1<<20+1)}},
		{`SELECT * FROM c WHERE c.a = @p`, "", map[string]any{"p": strings.Repeat("x", 2<<20)}},
	} {
		_, err := sql.Parse(test.text, test.parameters, sql.Options{})
		if got := ""; err != nil {
			if got = err.Error(); got != test.want {
				t.Errorf("%.60s: %s, want %s", test.text, got, test.want)
			}
		} else if test.want != "" {
			t.Errorf("%.60s: no error", test.text)
		}
	}
}
