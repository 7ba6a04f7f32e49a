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
// _self and _attachments stand in filters.
func TestComputedProperties(t *testing.T) {
	s := start(t, nil)
	s.do(201, "POST", "/dbs", `{"id":"d"}`)
	s.do(201, "POST", "/dbs/d/colls", `{"id":"c","partitionKey":{"paths":["/pk"]},"computedProperties":[
		{"name":"low","query":"SELECT VALUE LOWER(x.name) FROM x"},{"name":"sum","query":"SELECT VALUE c.n + 1 FROM c"}]}`)
	docs := "/dbs/d/colls/c/docs"
	for i, name := range []string{"Ada", "BOB", "ada", "Cy"} {
		s.do(201, "POST", docs, fmt.Sprintf(`{"id":"%d","pk":"a","name":%q,"n":%d}`, i, name, i), pk, `["a"]`)
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
	} {
		if got, _ := s.query(docs, text, pk, `["a"]`); !slices.Equal(texts(got), want) {
			t.Errorf("%s: %s, want %s", text, texts(got), want)
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
