package gateway

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// texts returns results as texts.
func texts(list []json.RawMessage) (out []string) {
	for _, v := range list {
		out = append(out, string(v))
	}
	return out
}

// TestComputedProperties: a computed property stands in every clause, and in no document.
// _self and _attachments stand in filters. Queries of scripts have the same results.
func TestComputedProperties(t *testing.T) {
	s := start(t, nil)
	s.do(201, "POST", "/dbs", `{"id":"d"}`)
	s.do(201, "POST", "/dbs/d/colls", `{"id":"c","partitionKey":{"paths":["/pk"]},"computedProperties":[
		{"name":"low","query":"SELECT VALUE LOWER(x.name) FROM x"},{"name":"sum","query":"SELECT VALUE c.n + 1 FROM c"},
		{"name":"group","query":"SELECT VALUE c.n FROM c"},{"name":"both","query":"SELECT VALUE [c.n, c.n + 1] FROM c"},
		{"name":"the \"n\"","query":"SELECT VALUE c.n FROM c"}]}`)
	docs := "/dbs/d/colls/c/docs"
	for i, name := range []string{"Ada", "BOB", "ada", "Cy"} {
		s.do(201, "POST", docs, fmt.Sprintf(`{"id":"%d","pk":"a","name":%q,"n":%d,"list":[%s]}`, i, name, i, []string{"", fmt.Sprint(i)}[min(i, 1)]), pk, `["a"]`)
	}
	for text, want := range map[string][]string{
		"SELECT VALUE c.id FROM c WHERE c.low = 'ada'":                                  {`"0"`, `"2"`},
		"SELECT c.low, c.id FROM c WHERE c.id = '1'":                                    {`{"low":"bob","id":"1"}`},
		"SELECT VALUE d.low FROM d ORDER BY d.low DESC":                                 {`"cy"`, `"bob"`, `"ada"`, `"ada"`},
		"SELECT c.low, COUNT(1) AS n FROM c GROUP BY c.low":                             {`{"low":"ada","n":2}`, `{"low":"bob","n":1}`, `{"low":"cy","n":1}`},
		"SELECT VALUE c.sum * 2 FROM c WHERE c.sum > 3":                                 {`8`},
		"SELECT VALUE c.id FROM c WHERE c['low'] = 'cy'":                                {`"3"`},
		"SELECT VALUE c.id FROM c WHERE c._attachments = 'attachments/' AND c.id < '1'": {`"0"`},
		"SELECT VALUE c.id FROM c WHERE STARTSWITH(c._self, 'dbs/') AND c.name = 'Cy'":  {`"3"`},
		"SELECT VALUE [c.low, x] FROM c JOIN x IN c.list WHERE x < c.sum":               {`["bob",1]`, `["ada",2]`, `["cy",3]`},
		"SELECT c.low FROM c JOIN (SELECT VALUE x FROM x IN c.list WHERE x < c.sum) y":  {`{"low":"bob"}`, `{"low":"ada"}`, `{"low":"cy"}`},
		"SELECT VALUE c.low FROM c WHERE EXISTS(SELECT 1 FROM x IN c.list WHERE x = 3)": {`"cy"`},
		"SELECT DISTINCT VALUE c.low FROM c ORDER BY c.low":                             {`"ada"`, `"bob"`, `"cy"`},
		"SELECT VALUE (SELECT c.low, c.id) FROM c WHERE c.id = '1'":                     {`{"low":"bob","id":"1"}`},
		"SELECT y.low, y.x FROM c JOIN (SELECT c.low, x FROM x IN c.list) y":            {`{"low":"bob","x":1}`, `{"low":"ada","x":2}`, `{"low":"cy","x":3}`},
		"SELECT c.low, c.group, c.order, c['a b'] FROM c WHERE c.id = '1'":              {`{"low":"bob","group":1}`},
		"SELECT VALUE b FROM c JOIN b IN c.both WHERE c.id = '1'":                       {`1`, `2`},
		`SELECT VALUE c["the \"n\""] FROM c WHERE c["l\u006fw"] = 'bob'`:                {`1`},
		`SELECT VALUE c["the ""n"""] FROM c WHERE c.id = '2'`:                           {`2`},
		"SELECT VALUE ARRAY(SELECT VALUE b FROM b IN c.both) FROM c WHERE c.id = '1'":   {`[1,2]`},
	} {
		if got, _ := s.query(docs, text, pk, `["a"]`); !slices.Equal(texts(got), want) {
			t.Errorf("%s: %s, want %s", text, texts(got), want)
		}
		asked, _ := json.Marshal(text)
		r := s.execute(200, `function () {
			__.queryDocuments(__.getSelfLink(), `+string(asked)+`, function (err, list) { if (err) throw err; getContext().getResponse().setBody(list) })
		}`, "[]")
		if got := string(r.body); got != "["+strings.Join(want, ",")+"]" {
			t.Errorf("a script, %s: %s, want %s", text, got, want)
		}
	}
	all, _ := s.query(docs, "SELECT * FROM c WHERE c.low = 'cy'", pk, `["a"]`)
	var doc struct {
		Self string `json:"_self"`
		Low  any
	}
	if len(all) != 1 || json.Unmarshal(all[0], &doc) != nil || doc.Low != nil {
		t.Fatalf("documents %s", texts(all))
	}
	if got, _ := s.query(docs, "SELECT VALUE c.id FROM c WHERE c._self = '"+doc.Self+"'", pk, `["a"]`); !slices.Equal(texts(got), []string{`"3"`}) {
		t.Errorf("by _self %s: %s", doc.Self, texts(got))
	}
	if r := s.do(200, "GET", "/dbs/d/colls/c", ""); !strings.Contains(string(r.body), `"SELECT VALUE LOWER(x.name) FROM x"`) {
		t.Errorf("the definition is %s", r.body)
	}
}

// TestETagInQueries: queries filter, project, order and group by the etags that documents have
// when they are returned, with joins, aggregates, plans and in scripts too.
func TestETagInQueries(t *testing.T) {
	s := start(t, nil)
	docs := s.items()
	tags := make(map[string]string)
	write := func(id string, n int) {
		r := s.do(200, "POST", docs, fmt.Sprintf(`{"id":%q,"pk":"a","n":%d,"list":[{"v":1,"_etag":"inner"},{"v":2}]}`, id, n), pk, `["a"]`, "x-ms-documentdb-is-upsert", "True")
		var doc struct {
			ETag string `json:"_etag"`
		}
		if err := json.Unmarshal(r.body, &doc); err != nil || doc.ETag == "" || doc.ETag != r.head.Get("etag") {
			t.Fatalf("%s: %v, etag %q", r.body, err, r.head.Get("etag"))
		}
		tags[id] = doc.ETag
	}
	for i := range 4 {
		id := fmt.Sprint(i)
		s.do(201, "POST", docs, `{"id":"`+id+`","pk":"a","n":9}`, pk, `["a"]`)
	}
	for i, id := range []string{"2", "0", "3", "1"} {
		write(id, i%2)
	}
	quoted := func(id string) string { b, _ := json.Marshal(tags[id]); return string(b) }
	one := "'" + strings.ReplaceAll(tags["1"], `"`, `\"`) + "'"
	check := func(text string, want ...string) {
		t.Helper()
		if got, _ := s.query(docs, text, pk, `["a"]`); !slices.Equal(texts(got), want) {
			t.Errorf("%s: %s, want %s", text, texts(got), want)
		}
	}
	check("SELECT VALUE c.id FROM c WHERE c._etag = "+one, `"1"`)
	check("SELECT VALUE c.id FROM c WHERE c['_etag'] = "+one, `"1"`)
	check("SELECT VALUE c.id FROM c WHERE c._etag != "+one+" AND c.n = 1", `"0"`)
	check("SELECT VALUE c.id FROM c WHERE c._etag IN ('x', "+one+") OR c.id = '3'", `"1"`, `"3"`)
	check("SELECT VALUE c._etag FROM c WHERE c.id = '2'", quoted("2"))
	check("SELECT c.id, c._etag FROM c WHERE c.n = 1 ORDER BY c.id", `{"id":"0","_etag":`+quoted("0")+`}`, `{"id":"1","_etag":`+quoted("1")+`}`)
	check("SELECT VALUE d.id FROM d ORDER BY d._etag", `"2"`, `"0"`, `"3"`, `"1"`)
	check("SELECT VALUE d.id FROM d ORDER BY d._etag DESC OFFSET 1 LIMIT 2", `"3"`, `"0"`)
	check("SELECT VALUE MAX(c._etag) FROM c", quoted("1"))
	check("SELECT VALUE COUNT(1) FROM c WHERE c._etag >= "+one, "1")
	check("SELECT c._etag, COUNT(1) AS n FROM c WHERE c.id < '1' GROUP BY c._etag", `{"_etag":`+quoted("0")+`,"n":1}`)
	check("SELECT DISTINCT VALUE c._etag FROM c WHERE c.id = '3'", quoted("3"))
	check("SELECT VALUE {v: x.v, e: c._etag} FROM c JOIN x IN c.list WHERE c._etag = "+one, `{"v":1,"e":`+quoted("1")+`}`, `{"v":2,"e":`+quoted("1")+`}`)
	check("SELECT VALUE x.v FROM c JOIN x IN c.list WHERE x._etag = 'inner' AND c.id = '1'", "1")
	check("SELECT VALUE c.id FROM c WHERE EXISTS(SELECT VALUE x FROM x IN c.list WHERE c._etag = "+one+")", `"1"`)
	check("SELECT VALUE (SELECT c._etag, c.id) FROM c WHERE c.id = '1'", `{"_etag":`+quoted("1")+`,"id":"1"}`)
	check("SELECT c.id, c.order, c._etag FROM c WHERE c.id = '1'", `{"id":"1","_etag":`+quoted("1")+`}`)
	check("SELECT c.id, c.order, c['a b'] FROM c WHERE c.id = '1' AND CONTAINS('an _etag', 'an')", `{"id":"1"}`)
	all, _ := s.query(docs, "SELECT * FROM c WHERE c._etag = "+one, pk, `["a"]`)
	if len(all) != 1 || !strings.Contains(string(all[0]), `"_etag":`+quoted("1")) {
		t.Errorf("documents %s", texts(all))
	}
	// The forms of queries that name items are read one by one, unless they say more.
	for _, where := range []string{"c.id IN ('1', '2')", "c.pk = 'a' AND c.id IN ('1', '2')", "(c.id = '1' AND c.pk = 'a') OR (c.id = '2' AND c.pk = 'a')"} {
		for _, tie := range []string{"(" + where + ") AND c._etag = ", "c._etag = "} {
			tail := ""
			if tie == "c._etag = " {
				tail = " AND (" + where + ")"
			}
			got, _ := s.query(docs, "SELECT * FROM c WHERE "+tie+one+tail, "x-ms-documentdb-partitionkeyrangeid", k0(s))
			if !slices.Equal(ids(t, got), []string{"1"}) {
				t.Errorf("%s%s: %s", tie, tail, texts(got))
			}
		}
	}
	// The rewritten query of a plan finds them as well.
	body, _ := json.Marshal(map[string]any{"query": "SELECT VALUE c.id FROM c WHERE c.n = 1 ORDER BY c._etag"})
	r := s.do(200, "POST", docs, string(body), "x-ms-cosmos-is-query-plan-request", "True", "x-ms-cosmos-supported-query-features", "OrderBy", "x-ms-cosmos-query-version", "1.0", "Content-Type", "application/query+json", "x-ms-documentdb-query-enablecrosspartition", "True")
	var plan struct {
		QueryInfo struct{ RewrittenQuery string }
	}
	if err := json.Unmarshal(r.body, &plan); err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(plan.QueryInfo.RewrittenQuery, "{documentdb-formattableorderbyquery-filter}", "true")
	rows, _ := s.query(docs, text, "x-ms-documentdb-partitionkeyrangeid", k0(s))
	if len(rows) != 2 || !strings.Contains(string(rows[0]), quoted("0")) || !strings.Contains(string(rows[1]), quoted("1")) {
		t.Errorf("%s: %s", text, texts(rows))
	}
	r = s.execute(200, `function (tag) {
		__.queryDocuments(__.getSelfLink(), {query: "SELECT c.id, c._etag FROM c WHERE c._etag = @tag", parameters: [{name: "@tag", value: tag}]},
			function (err, list) { if (err) throw err; getContext().getResponse().setBody(list) })
	}`, "["+quoted("1")+"]")
	if want := `[{"id":"1","_etag":` + quoted("1") + `}]`; string(r.body) != want {
		t.Errorf("a script finds %s, want %s", r.body, want)
	}
	// A column that is neither grouped nor in an aggregate is refused, as any other.
	body, _ = json.Marshal(map[string]any{"query": "SELECT c._etag, COUNT(1) FROM c GROUP BY c.n"})
	s.do(400, "POST", docs, string(body), "x-ms-documentdb-query", "True", "Content-Type", "application/query+json", pk, `["a"]`)
}

// TestComputedRefused: definitions that have no meaning are refused, and so is a query that
// they would make longer than a query may be.
func TestComputedRefused(t *testing.T) {
	s := start(t, nil)
	s.do(201, "POST", "/dbs", `{"id":"d"}`)
	define := func(want int, id, list string) {
		t.Helper()
		s.do(want, "POST", "/dbs/d/colls", `{"id":"`+id+`","partitionKey":{"paths":["/pk"]},"computedProperties":`+list+`}`)
	}
	var many []string
	for i := range 21 {
		many = append(many, fmt.Sprintf(`{"name":"p%d","query":"SELECT VALUE c.a FROM c"}`, i))
	}
	for _, list := range []string{
		`7`, `[{"name":"","query":"SELECT VALUE c.a FROM c"}]`, `[{"name":"id","query":"SELECT VALUE c.a FROM c"}]`, `[{"name":"_ts","query":"SELECT VALUE c.a FROM c"}]`,
		`[{"name":"pk","query":"SELECT VALUE c.a FROM c"}]`, `[{"name":"a","query":"SELECT c.a FROM c"}]`, `[{"name":"a","query":"SELECT VALUE c.a FROM c WHERE c.b"}]`,
		`[{"name":"a","query":"SELECT VALUE COUNT(1) FROM c"}]`, `[{"name":"a","query":"SELECT VALUE NOSUCH(c.a) FROM c"}]`, `[{"name":"a","query":"SELECT VALUE c.b FROM c"},{"name":"a","query":"SELECT VALUE c.b FROM c"}]`,
		`[{"name":"a","query":"SELECT VALUE c.b FROM c"},{"name":"b","query":"SELECT VALUE c.d FROM c"}]`, `[` + strings.Join(many, ",") + `]`,
	} {
		define(400, "bad", list)
	}
	define(201, "c", `[{"name":"p","query":"SELECT VALUE '`+strings.Repeat("x", 30_000)+`' FROM c"}]`)
	body, _ := json.Marshal(map[string]any{"query": "SELECT VALUE [" + strings.Repeat("c.p,", 50) + "c.p] FROM c"})
	s.do(400, "POST", "/dbs/d/colls/c/docs", string(body), "x-ms-documentdb-query", "True", "Content-Type", "application/query+json", pk, `["a"]`)
}

// TestContinuationSize: with keys and values of 2 KB no continuation is larger than the client
// says, and a client that deletes what it has read comes to the end all the same.
func TestContinuationSize(t *testing.T) {
	s := start(t, nil)
	docs := s.items()
	long := func(i int) string { return strings.Repeat("k", 250) + fmt.Sprintf("%02d", i) }
	key := strings.Repeat("p", 1900)
	for i := range 12 {
		s.do(201, "POST", docs, fmt.Sprintf(`{"id":%q,"pk":%q,"s":%q}`, long(i), key, strings.Repeat("s", 3000)+long(i)), pk, `["`+key+`"]`)
	}
	body, _ := json.Marshal(map[string]any{"query": "SELECT * FROM c ORDER BY c.s"})
	seen := 0
	for next := ""; ; {
		r := s.do(200, "POST", docs, string(body), "x-ms-documentdb-query", "True", "Content-Type", "application/query+json", pk, `["`+key+`"]`,
			"x-ms-max-item-count", "5", "x-ms-documentdb-responsecontinuationtokenlimitinkb", "1", "x-ms-continuation", next)
		var page struct{ Documents []json.RawMessage }
		if err := json.Unmarshal(r.body, &page); err != nil {
			t.Fatal(err)
		}
		for _, id := range ids(t, page.Documents) {
			if id != long(seen) {
				t.Fatalf("result %d is %s", seen, id)
			}
			seen++
			s.do(204, "DELETE", docs+"/"+id, "", pk, `["`+key+`"]`)
		}
		if next = r.head.Get("x-ms-continuation"); len(next) > 1024 {
			t.Fatalf("a continuation of %d characters", len(next))
		}
		if next == "" {
			break
		}
	}
	if seen != 12 {
		t.Errorf("%d results of 12", seen)
	}
}
