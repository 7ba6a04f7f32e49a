package main

import (
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/cli"
)

func TestQuery(t *testing.T) {
	s := newSample(t)
	for query, want := range map[string]string{
		"SELECT TOP 2 c.id, c.people, c.nothing FROM c WHERE c.people >= 151000 ORDER BY c.people":   "id         people  nothing\ncity-0151  151000  -\ncity-0152  152000  -\n",
		"SELECT VALUE COUNT(1) FROM c WHERE c.people > 600000":                                       "19\n",
		"SELECT VALUE c.id FROM c WHERE c.people = 1000":                                             "city-0001\n",
		"SELECT c.country, COUNT(1) AS n FROM c WHERE c.people >= 610000 GROUP BY c.country LIMIT 2": "country  n\nC0       1\nC1       2\n",
		"SELECT * FROM c WHERE c.people = 1000":                                                      s.cities["city-0001"] + "\n",
	} {
		got := clean(t, "query", s.dir, "cities", query)
		if strings.HasPrefix(query, "SELECT VALUE c.id") {
			got = strings.ReplaceAll(got, `"`, "")
		}
		if got != want {
			t.Errorf("%s:\n%swant\n%s", query, got, want)
		}
	}
	text := clean(t, "query", s.dir, "cities", "SELECT VALUE COUNT(1) FROM c WHERE c.country = @c", "--param", "c=C3", "--explain")
	if !strings.Contains(text, `partition "C3"`) || !strings.Contains(text, "in 1 partition") {
		t.Errorf("%s", text)
	}
	if list := ofType(objects(t, clean(t, "query", s.dir, "cities", "SELECT * FROM c", "--key", `"C3"`, "--json")), "result"); len(list) == 0 || list[0]["key"] != `"C3"` {
		t.Errorf("%v", list)
	}
	for given, want := range map[string]string{"p=a;b": `"a;b"`, `p="a;"`: `"a;"`, "p=a;q=1": `"a;q=1"`, `p={"a=b":";"}`: `{"a=b":";"}`, "p=9007199254740993": "9007199254740993", "p=1e999": "1e999", `p=a\;`: `"a\\;"`} {
		if got := clean(t, "query", s.dir, "cities", "SELECT TOP 1 VALUE @p FROM c", "--param", given); strings.TrimSpace(got) != want {
			t.Errorf("--param %s is %s, want %s", given, got, want)
		}
	}
	for _, args := range [][]string{
		{"query", s.dir, "cities", "SELECT * FROM c WHERE"},
		{"query", s.dir, "nothing", "SELECT * FROM c"},
		{"query", s.dir, "cities", "SELECT * FROM c", "--key", `["a","b"]`},
	} {
		if r := pinspect(t, args...); r.status != cli.ExitUsage || r.stdout != "" {
			t.Errorf("%v: status %d\n%s%s", args, r.status, r.stdout, r.stderr)
		}
	}
	// A variable of a shell that is not set chooses no documents, and not all.
	for _, args := range [][]string{
		{"query", s.dir, "cities", "SELECT * FROM c", "--key", ""},
		{"export", s.dir, "cities", "--where", ""},
		{"export", s.dir, "cities", ""},
	} {
		if r := pinspect(t, args...); r.status != cli.ExitUsage || r.stdout != "" {
			t.Errorf("%q: status %d, %d bytes, %s", args, r.status, len(r.stdout), r.stderr)
		}
	}
	r := pinspect(t, "query", s.dir, "cities", "SELECT *\nFROM c WHERE c.a ~ 1")
	if !strings.Contains(r.stderr, "line 2, column 18") || !strings.Contains(r.stderr, "pinspect:                    ^") {
		t.Errorf("%s", r.stderr)
	}
	if r := pinspect(t, "query", s.dir, "cities", "SELECT c.country, c.people, COUNT(1) AS n FROM c GROUP BY c.country, c.people", "--no-scan"); r.status != cli.ExitUsage || !strings.Contains(r.stderr, "needs a scan") {
		t.Errorf("%d %s", r.status, r.stderr)
	}
}
