package gateway

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cleavestore/cleave/gateway/internal/script"
)

// TestFunctions: queries call user-defined functions wherever an expression stands, also by a
// plan, and fail as a whole with a function.
func TestFunctions(t *testing.T) {
	s := start(t, &Options{LiberalQueries: true})
	docs := s.items()
	for i := range 6 {
		s.do(201, "POST", docs, fmt.Sprintf(`{"id":"%d","pk":"%d","n":%d,"price":{"net":%d},"list":[1,2]}`, i, i%3, i, 10*i), pk, fmt.Sprintf(`["%d"]`, i%3))
	}
	udfs := coll + "/udfs"
	s.define(udfs, "double", "function (x) { return 2 * x }", "")
	s.define(udfs, "tax", "function tax(price, rate) { if (!rate) rate = 0.5; return {gross: price.net * (1 + rate)} }", "")
	s.define(udfs, "odd", "(x) => x % 2 === 1", "")
	s.define(udfs, "nothing", "function () { }", "")
	s.define(udfs, "fails", "function (x) { throw new Error('no ' + x) }", "")
	s.define(udfs, "broken", "function (", "")
	s.define(udfs, "slow", "function () { for (;;); }", "")
	s.define(udfs, "large", "function () { const a = []; for (;;) a.push('x'.repeat(1e5) + a.length) }", "")
	for text, want := range map[string]string{
		`SELECT VALUE udf.double(c.n) FROM c WHERE udf.odd(c.n) ORDER BY c.n`:                         `[2 6 10]`,
		`SELECT c.id, udf.tax(c.price) AS tax FROM c WHERE c.n = 2`:                                   `[{"id":"2","tax":{"gross":30}}]`,
		`SELECT VALUE c.id FROM c WHERE udf.tax(c.price, 1).gross > 60 AND c.n < 5 ORDER BY c.n`:      `["4"]`,
		`SELECT VALUE udf.nothing(c) FROM c`:                                                          `[]`,
		`SELECT VALUE udf.double(7)`:                                                                  `[14]`,
		`SELECT VALUE SUM(udf.double(c.n)) FROM c`:                                                    `[30]`,
		`SELECT VALUE udf.double(udf.double(c.missing ?? c.n)) FROM c WHERE UDF.odd(c.n) AND c.n < 2`: `[4]`,
	} {
		if all, _ := s.query(docs, text); fmt.Sprintf("%s", all) != want {
			t.Errorf("%s: %s, want %s", text, all, want)
		}
	}
	head := []string{"x-ms-documentdb-isquery", "True", "x-ms-documentdb-query-enablecrosspartition", "true"}
	for text, want := range map[string]struct {
		status int
		sub    string
	}{
		"udf.fails(c.n)": {400, ""}, "udf.broken(1)": {400, "65535"}, "udf.none(1)": {400, ""}, "udf.Double(1)": {400, ""},
		"udf.slow()": {408, ""}, "udf.large()": {400, ""}, "(SELECT VALUE x FROM x IN c.list)": {400, ""},
	} {
		s.h.scripts = script.NewPool(1, limitsFor(want.status))
		if r := s.do(want.status, "POST", docs, `{"query":"SELECT VALUE `+text+` FROM c"}`, head...); r.sub() != want.sub {
			t.Errorf("%s: %s", text, r.body)
		}
	}
	r := s.do(200, "POST", docs, `{"query":"SELECT VALUE udf.double(c.n) FROM c ORDER BY c.n"}`, "x-ms-cosmos-is-query-plan-request", "True")
	if info, _ := r.member(t, "queryInfo").(map[string]any); info["rewrittenQuery"] == "" {
		t.Errorf("%s", r.body)
	}
	s.h.scripts = script.NewPool(1, limitsFor(200))
	if all, _ := s.query(docs, `SELECT VALUE udf.double(c.n) FROM c WHERE c.n = 5`); fmt.Sprintf("%s", all) != "[10]" {
		t.Errorf("after all: %s", all)
	}
}

// TestManyFunctions: a query knows the functions that it names, whatever else its container has: together they may be larger than a
// message to the process that computes them.
func TestManyFunctions(t *testing.T) {
	s := start(t, nil)
	docs := s.items()
	s.do(201, "POST", docs, `{"id":"1","pk":"a","n":1}`, pk, `["a"]`)
	s.define(coll+"/udfs", "twice", "function (n) { return 2 * n }", "")
	s.define(coll+"/udfs", "thrice", "function (n) { return 3 * n }", "")
	k, bad := s.h.catalog.container("d", "c")
	if bad != nil {
		t.Fatal(bad)
	}
	large := json.RawMessage(`{"body":"function () { return '` + strings.Repeat("x", maxMetaBody) + `' }"}`)
	s.h.catalog.mu.Lock()
	for i := range 40 {
		s.h.catalog.keepResource(&child{record: resourceRecord{Owner: k.record.Number, Type: kindFunction, Name: fmt.Sprint("large", i), Definition: large}})
	}
	s.h.catalog.mu.Unlock()
	if all, _ := s.query(docs, `SELECT VALUE [udf.twice(c.n), udf.thrice(c.n)] FROM c`, pk, `["a"]`); fmt.Sprintf("%s", all) != "[[2,3]]" {
		t.Errorf("%s", all)
	}
	r := s.execute(200, `function () {
		const ask = (text, next) => __.queryDocuments(__.getSelfLink(), text, (err, list) => { if (err) throw err; next(list) });
		ask("SELECT VALUE udf.twice(c.n) FROM c", (a) => ask("SELECT VALUE udf.thrice(c.n) FROM c", (b) => __.response.setBody([a, b])));
	}`, "[]")
	if string(r.body) != "[[2],[3]]" {
		t.Errorf("a script: %s", r.body)
	}
}

// limitsFor returns limits under which a script is answered with a status: only one that never
// ends runs out of time.
func limitsFor(status int) script.Limits {
	l := script.Limits{Time: time.Minute, Memory: 96 << 20}
	if status == 408 {
		l.Time = 300 * time.Millisecond
	}
	return l
}
