package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestQueryPages: pages follow each other without a gap, in the order of creation, and a
// full page without an order says that there may be another one.
func TestQueryPages(t *testing.T) {
	s := start(t, nil)
	docs := s.items()
	var made []string
	for i := range 10 {
		for _, key := range []string{"a", "b"} {
			id := fmt.Sprint(key, i)
			made = append(made, id)
			s.do(201, "POST", docs, fmt.Sprintf(`{"id":%q,"pk":%q,"n":%d}`, id, key, 100-i), pk, fmt.Sprintf(`[%q]`, key))
		}
	}
	five := []string{"x-ms-max-item-count", "5"}
	one := append(five, pk, `["a"]`)
	all, pages := s.query(docs, "SELECT * FROM c", five...)
	if got := ids(t, all); !slices.Equal(got, made) || !slices.Equal(pages, []int{5, 5, 5, 5, 0}) {
		t.Errorf("%v in pages %v", got, pages)
	}
	for _, tc := range []struct {
		text  string
		head  []string
		want  int
		pages []int
	}{
		{"SELECT * FROM c ORDER BY c.n", one, 10, []int{5, 5}},
		{"SELECT * FROM c WHERE c.pk = 'a' ORDER BY c.n", five, 10, []int{5, 5}},
		{"SELECT TOP 7 * FROM c", one, 7, []int{5, 2}},
		{"SELECT TOP 5 * FROM c", one, 5, []int{5}},
		{"SELECT * FROM c ORDER BY c.n OFFSET 3 LIMIT 6", one, 6, []int{5, 1}},
		{"SELECT VALUE c.id FROM c WHERE c.n > 97", five, 6, []int{5, 1}},
		{"SELECT VALUE COUNT(1) FROM c", one, 1, []int{1}},
		{"SELECT * FROM c WHERE c.n = 7", five, 0, []int{0}},
	} {
		got, pages := s.query(docs, tc.text, tc.head...)
		if len(got) != tc.want || !slices.Equal(pages, tc.pages) {
			t.Errorf("%s: %d results in pages %v, want %d in %v", tc.text, len(got), pages, tc.want, tc.pages)
		}
	}
}

// dated is a container that is told until when its queries may take.
type dated struct {
	Items
	ends chan<- bool
}

func (d dated) Find(ctx context.Context, s *Search) Rows {
	_, ends := ctx.Deadline()
	d.ends <- ends
	return d.Items.Find(ctx, s)
}

// TestQueriesEnd: a page of a query has an end, whatever it computes: it holds one of few places. So has a page of a list.
func TestQueriesEnd(t *testing.T) {
	s := start(t, nil)
	docs := s.items()
	k, bad := s.h.catalog.container("d", "c")
	if bad != nil {
		t.Fatal(bad)
	}
	ends := make(chan bool, 2)
	k.items = dated{k.items, ends}
	s.ask(200, docs, "SELECT * FROM c", pk, `["a"]`)
	s.do(200, "GET", docs, "", pk, `["a"]`)
	if query, list := <-ends, <-ends; !query || !list {
		t.Errorf("the query has an end: %v, the list: %v", query, list)
	}
}

// ask sends a query and checks the status.
func (s *server) ask(want int, path, text string, head ...string) *reply {
	s.t.Helper()
	body, _ := json.Marshal(map[string]any{"query": text})
	return s.do(want, "POST", path, string(body), append([]string{"x-ms-documentdb-query", "True"}, head...)...)
}

// TestRefusedQueries: what the service leaves to its clients is refused as the service
// does, unless the gateway is liberal, and queries that are none are answered 400.
func TestRefusedQueries(t *testing.T) {
	crosses := []string{"x-ms-documentdb-query-enablecrosspartition", "True"}
	s, liberal := start(t, nil), start(t, &Options{LiberalQueries: true})
	docs := s.items()
	liberal.items()
	for _, text := range []string{"SELECT * FROM c ORDER BY c.id", "SELECT VALUE COUNT(1) FROM c", "SELECT DISTINCT c.n FROM c", "SELECT TOP 1 * FROM c",
		"SELECT c.n, COUNT(1) FROM c GROUP BY c.n", "SELECT * FROM c OFFSET 1 LIMIT 1"} {
		r := s.ask(400, docs, text, crosses...)
		if r.sub() != "1004" || !strings.Contains(string(r.body), "cross partition query can not be directly served by the gateway") {
			t.Errorf("%s: %s %s", text, r.sub(), r.body)
		}
		liberal.ask(200, docs, text, crosses...)
		s.ask(200, docs, text, pk, `["a"]`)
	}
	if r := s.ask(400, docs, "SELECT * FROM c"); !strings.Contains(string(r.body), "enablecrosspartition") {
		t.Errorf("%s", r.body)
	}
	for _, text := range []string{"SELECT", "SELECT * FROM c WHERE", "DROP TABLE c", strings.Repeat("(", 1_000_00), "SELECT * FROM c WHERE " + strings.Repeat("NOT ", 100_000) + "true"} {
		s.ask(400, docs, text, crosses...)
	}
	for _, body := range []string{"", "x", "{}", `{"query":7}`, `{"query":"SELECT * FROM c","parameters":[{"name":"n","value":1}]}`} {
		s.do(400, "POST", docs, body, append(crosses, "x-ms-documentdb-query", "True")...)
	}
	s.ask(400, docs, "SELECT * FROM c", append(crosses, "x-ms-continuation", "garbage")...)
	s.ask(400, docs, "SELECT * FROM c", append(crosses, "x-ms-max-item-count", "0")...)
}

// TestParameters: numbers of parameters keep their digits, and those beyond all doubles are infinite. A parameter without a
// value is null. Objects and arrays are compared as those of documents are.
func TestParameters(t *testing.T) {
	s := start(t, nil)
	docs := s.items()
	s.do(201, "POST", docs, `{"id":"1","pk":"a","n":9007199254740993,"o":{"a":[1,"x"],"b":null}}`, pk, `["a"]`)
	for _, test := range []struct{ query, parameters, want string }{
		{"SELECT VALUE INTADD(@n, 1) FROM c", `{"name":"@n","value":9007199254740993}`, "9007199254740994"},
		{"SELECT VALUE c.n < @n FROM c", `{"name":"@n","value":1e400}`, "true"},
		{"SELECT VALUE c.n > @n FROM c", `{"name":"@n","value":-1e400}`, "true"},
		{"SELECT VALUE [@n, @m] FROM c", `{"name":"@n"},{"name":"@m","value":null}`, "[null,null]"},
		{"SELECT VALUE c.o = @n FROM c WHERE c.o = @n", `{"name":"@n","value":{ "b" : null, "a":[1.0,"\u0078"] }}`, "true"},
		{"SELECT VALUE c.id FROM c WHERE ARRAY_CONTAINS(@n, c.id)", `{"name":"@n","value":["0","1"]}`, `"1"`},
		{"SELECT TOP @n VALUE c.id FROM c", `{"name":"@n","value":1}`, `"1"`},
	} {
		query, _ := json.Marshal(test.query)
		r := s.do(200, "POST", docs, `{"query":`+string(query)+`,"parameters":[`+test.parameters+`]}`, "x-ms-documentdb-query", "True", "Content-Type", "application/query+json", pk, `["a"]`)
		if !strings.Contains(string(r.body), `"Documents":[`+test.want+`]`) {
			t.Errorf("%s with %s: %s, want %s", test.query, test.parameters, r.body, test.want)
		}
	}
}

// TestDistinctDocuments: distinct documents have their etags, in whatever pages they come. Other distinct results have none.
func TestDistinctDocuments(t *testing.T) {
	s := start(t, nil)
	docs := s.items()
	for i := range 4 {
		s.do(201, "POST", docs, fmt.Sprintf(`{"id":"%d","pk":"a","n":%d,"list":[1,1]}`, i, i%2), pk, `["a"]`)
	}
	plain, _ := s.query(docs, "SELECT * FROM c", pk, `["a"]`)
	want := texts(plain)
	slices.Sort(want)
	for _, text := range []string{"SELECT DISTINCT * FROM c", "SELECT DISTINCT VALUE c FROM c ORDER BY c.n DESC", "SELECT DISTINCT VALUE c FROM c JOIN x IN c.list"} {
		for _, size := range []string{"1", "3", "10"} {
			list, _ := s.query(docs, text, pk, `["a"]`, "x-ms-max-item-count", size)
			got := texts(list)
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("%s in pages of %s:\n%s, want\n%s", text, size, got, want)
			}
		}
	}
	for text, want := range map[string]string{"SELECT DISTINCT VALUE c.n FROM c": "0 1", "SELECT DISTINCT VALUE {n: c.n} FROM c": `{"n":0} {"n":1}`} {
		if list, _ := s.query(docs, text, pk, `["a"]`, "x-ms-max-item-count", "1"); strings.Join(texts(list), " ") != want {
			t.Errorf("%s: %s, want %s", text, texts(list), want)
		}
	}
}

// TestCompositeIndexes: the composite indexes of a definition are made, kept as they were
// given, replaced, and named by index metrics.
func TestCompositeIndexes(t *testing.T) {
	s := start(t, nil)
	const with = `"indexingPolicy":{"includedPaths":[{"path":"/*"}],"excludedPaths":[],"compositeIndexes":[[{"path":"/a","order":"ascending"},{"path":"/b/?","order":"descending"}]]}`
	s.do(201, "POST", "/dbs", `{"id":"d"}`)
	r := s.do(201, "POST", "/dbs/d/colls", `{"id":"c","partitionKey":{"paths":["/pk"]},`+with+`}`)
	if !strings.Contains(string(r.body), `"compositeIndexes":[[{"path":"/a","order":"ascending"},{"path":"/b/?","order":"descending"}]]`) {
		t.Errorf("%s", r.body)
	}
	for i := range 20 {
		s.do(201, "POST", "/dbs/d/colls/c/docs", fmt.Sprintf(`{"id":"%02d","pk":"x","a":%d,"b":%d}`, i, i%3, i), pk, `["x"]`)
	}
	metrics := func(text string) string {
		r := s.ask(200, "/dbs/d/colls/c/docs", text, pk, `["x"]`, "x-ms-cosmos-populateindexmetrics-V2", "true")
		return r.head.Get("x-ms-cosmos-index-utilization")
	}
	if got := metrics("SELECT VALUE c.id FROM c WHERE c.a = 1 AND c.b > 7"); !strings.Contains(got, `"UtilizedIndexes":{"CompositeIndexes":[{"IndexSpecs":["/a","/b DESC"]}]`) {
		t.Errorf("metrics %s", got)
	}
	if got := metrics("SELECT TOP 3 VALUE c.id FROM c ORDER BY c.a, c.b"); !strings.Contains(got, `"PotentialIndexes":{"CompositeIndexes":[{"IndexSpecs":["/a","/b"]}]`) {
		t.Errorf("metrics %s", got)
	}
	s.do(200, "PUT", "/dbs/d/colls/c", `{"id":"c","partitionKey":{"paths":["/pk"]},"indexingPolicy":{"includedPaths":[{"path":"/*"}]}}`)
	if got := metrics("SELECT VALUE c.id FROM c WHERE c.a = 1 AND c.b > 7"); strings.Contains(got, `DESC`) {
		t.Errorf("metrics %s", got)
	}
	for _, bad := range []string{`[{"path":"/a"}]`, `[{"path":"/a"},{"path":"/b","order":"up"}]`, `[{"path":"/a"},{"path":"/b/*"}]`, `[{"path":"/a"},{"path":"/a"}]`} {
		s.do(400, "POST", "/dbs/d/colls", `{"id":"bad","partitionKey":{"paths":["/pk"]},"indexingPolicy":{"compositeIndexes":[`+bad+`]}}`)
	}
}

// TestOrderOfOneResult: aggregates without GROUP BY take an ORDER BY of documents, which says
// nothing, by themselves and in a plan.
func TestOrderOfOneResult(t *testing.T) {
	s := start(t, &Options{LiberalQueries: true})
	docs := s.items()
	for i := range 4 {
		s.do(201, "POST", docs, fmt.Sprintf(`{"id":"%d","pk":"%d","n":%d}`, i, i%2, i), pk, fmt.Sprintf(`["%d"]`, i%2))
	}
	if all, _ := s.query(docs, "SELECT VALUE AVG(c.n) FROM c WHERE IS_NUMBER(c.n) ORDER BY c.n"); fmt.Sprintf("%s", all) != "[1.5]" {
		t.Errorf("%s", all)
	}
	s.do(400, "POST", docs, `{"query":"SELECT VALUE AVG(c.n) FROM c ORDER BY d.n"}`, "x-ms-documentdb-isquery", "True")
	s.do(400, "POST", docs, `{"query":"SELECT c.pk, AVG(c.n) AS a FROM c GROUP BY c.pk ORDER BY c.n"}`, "x-ms-documentdb-isquery", "True")
	r := s.do(200, "POST", docs, `{"query":"SELECT VALUE AVG(c.n) FROM c ORDER BY c.n"}`, "x-ms-cosmos-is-query-plan-request", "True")
	info, _ := r.member(t, "queryInfo").(map[string]any)
	if text, _ := info["rewrittenQuery"].(string); strings.Contains(text, "ORDER BY") || len(info["orderBy"].([]any)) != 0 || len(info["aggregates"].([]any)) != 1 {
		t.Errorf("%s", r.body)
	}
}

// TestJoinedOrderInPages: pages of a JOIN with an ORDER BY of the documents begin within a document and
// behind one, and have together what one page has.
func TestJoinedOrderInPages(t *testing.T) {
	s := start(t, nil)
	docs := s.items()
	for i := range 30 {
		s.do(201, "POST", docs, fmt.Sprintf(`{"id":"%02d","pk":"a","n":%d,"list":[%s]}`, i, i*7%30, strings.Join([]string{"1", "2", "3", "4"}[:i%5], ",")), pk, `["a"]`)
	}
	for _, text := range []string{
		"SELECT c.id, x FROM c JOIN x IN c.list ORDER BY c.n", "SELECT VALUE [c.n, x] FROM c JOIN x IN c.list WHERE x != 2 ORDER BY c.n DESC",
		"SELECT TOP 23 c.id, x FROM c JOIN x IN c.list ORDER BY c.n", "SELECT VALUE c.list[2] FROM c ORDER BY c.n",
	} {
		whole, _ := s.query(docs, text, pk, `["a"]`)
		for _, size := range []string{"1", "7"} {
			got, pages := s.query(docs, text, pk, `["a"]`, "x-ms-max-item-count", size)
			if len(got) < 10 || !slices.Equal(texts(got), texts(whole)) {
				t.Errorf("%s: pages of %s have %s, want %s", text, size, texts(got), texts(whole))
			}
			if n, _ := strconv.Atoi(size); len(pages) != (len(got)+n-1)/n {
				t.Errorf("%s: %d results in pages of %v", text, len(got), pages)
			}
		}
	}
}

// TestDocumentsInResults: a document that is a member of a result has its etag and the other system members, as one that is a
// result by itself has.
func TestDocumentsInResults(t *testing.T) {
	s := start(t, nil)
	docs := s.items()
	s.do(201, "POST", docs, `{"id":"1","pk":"a","n":1,"o":{"x":1},"list":[{"y":2}]}`, pk, `["a"]`)
	whole := string(s.do(200, "GET", docs+"/1", "", pk, `["a"]`).body)
	for text, want := range map[string]string{
		"SELECT c FROM c":                                   `{"c":DOC}`,
		"SELECT c AS d, c.o FROM c ORDER BY c.n":            `{"d":DOC,"o":{"x":1}}`,
		"SELECT VALUE {o: c.o, d: {'ü\"': c}} FROM c":       `{"o":{"x":1},"d":{"ü\"":DOC}}`,
		"SELECT c, x FROM c JOIN x IN c.list":               `{"c":DOC,"x":{"y":2}}`,
		"SELECT {d: c.o}, x AS c FROM c JOIN x IN c.list":   `{"$1":{"d":{"x":1}},"c":{"y":2}}`,
		"SELECT VALUE {d: 1, e: x} FROM c JOIN x IN c.list": `{"d":1,"e":{"y":2}}`,
		"SELECT c.none, c FROM c":                           `{"c":DOC}`,
		"SELECT VALUE c FROM c JOIN x IN c.list":            `DOC`,
		"SELECT VALUE x FROM c JOIN x IN c.list":            `{"y":2}`,
	} {
		got, _ := s.query(docs, text, pk, `["a"]`)
		if want = strings.ReplaceAll(want, "DOC", whole); strings.Join(texts(got), " ") != want {
			t.Errorf("%s:\n%s, want\n%s", text, texts(got), want)
		}
	}
	// A client that puts the results of several partitions together gets it too.
	plan := s.do(200, "POST", docs, `{"query":"SELECT c, c.n FROM c ORDER BY c.n"}`, "x-ms-cosmos-is-query-plan-request", "True")
	info, _ := plan.member(t, "queryInfo").(map[string]any)
	rewritten, _ := info["rewrittenQuery"].(string)
	rewritten = strings.ReplaceAll(rewritten, "{documentdb-formattableorderbyquery-filter}", "true")
	ranges, _ := s.ranges(coll + "/pkranges")
	got, _ := s.query(docs, rewritten, "x-ms-documentdb-partitionkeyrangeid", ranges[0])
	if want := `"payload":{"c":` + whole + `,"n":1}}`; len(got) != 1 || !strings.HasSuffix(string(got[0]), want) {
		t.Errorf("%s: %s, want %s at the end", rewritten, texts(got), want)
	}
}
