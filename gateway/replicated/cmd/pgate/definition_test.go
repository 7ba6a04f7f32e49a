package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

var retrieved = regexp.MustCompile(`retrievedDocumentCount=(\d+);`)

// reads runs a query of a container over all partitions, in one page, and returns its results and how many documents were read.
func (g *gate) reads(colls, text string, head ...string) (values []string, documents int) {
	g.t.Helper()
	body, err := json.Marshal(map[string]string{"query": text})
	if err != nil {
		g.t.Fatal(err)
	}
	head = append([]string{
		"Content-Type", "application/query+json", "x-ms-documentdb-isquery", "true", "x-ms-max-item-count", "100",
		"x-ms-documentdb-query-enablecrosspartition", "true", "x-ms-documentdb-populatequerymetrics", "true",
	}, head...)
	a := g.want(200, "POST", colls+"/docs", string(body), head...)
	var page struct{ Documents []json.RawMessage }
	if err = json.Unmarshal([]byte(a.body), &page); err != nil {
		g.t.Fatal(err)
	}
	for _, d := range page.Documents {
		values = append(values, string(d))
	}
	found := retrieved.FindStringSubmatch(a.head.Get("x-ms-documentdb-query-metrics"))
	if found == nil {
		g.t.Fatalf("metrics %q", a.head.Get("x-ms-documentdb-query-metrics"))
	}
	if documents, err = strconv.Atoi(found[1]); err != nil {
		g.t.Fatal(err)
	}
	slices.Sort(values)
	return values, documents
}

// until waits until something is so.
func (g *gate) until(what string, is func() bool) {
	g.t.Helper()
	for end := time.Now().Add(time.Minute); !is(); {
		if time.Now().After(end) {
			g.t.Fatal("not so after a minute: ", what)
		}
	}
}

// indexes has queries read few documents of what a container indexes, and changes what that is.
func (g *gate) indexes() {
	t := g.t
	const colls = "/dbs/shop/colls/indexed"
	definition := func(path string) string {
		return fmt.Sprintf(`{"id":"indexed","partitionKey":{"paths":["/k"]},"indexingPolicy":{"indexingMode":"consistent","includedPaths":[{"path":%q}],"excludedPaths":[{"path":"/*"}]}}`, path)
	}
	g.want(201, "POST", "/dbs/shop/colls", definition("/n/?"))
	const items = 60
	for i := range items {
		g.want(201, "POST", colls+"/docs", fmt.Sprintf(`{"id":"%d","k":"key%d","n":%d,"m":%d}`, i, i%10, i, i), pk, fmt.Sprintf(`["key%d"]`, i%10))
	}
	query := func(member string) (documents int) {
		t.Helper()
		values, documents := g.reads(colls, "SELECT VALUE c.n FROM c WHERE c."+member+" >= 20 AND c."+member+" < 23")
		if fmt.Sprint(values) != "[20 21 22]" {
			t.Errorf("by %s: %v", member, values)
		}
		return documents
	}
	if n, m := query("n"), query("m"); n > 6 || m < items {
		t.Errorf("documents that were read: %d by what is indexed, %d by what is not", n, m)
	}
	if a := g.want(200, "PUT", colls, definition("/m/?")); !strings.Contains(a.body, `"/m/?"`) {
		t.Error(a.body)
	}
	g.until("the other index is used", func() bool { return query("m") <= 6 && query("n") >= items })
	if a := g.want(200, "GET", colls, ""); !strings.Contains(a.body, `"/m/?"`) || strings.Contains(a.body, `"/n/?"`) {
		t.Error(a.body)
	}
	g.want(400, "PUT", colls, definition("m"))
}

// ttl has items expire by the default of their container and by their own time.
func (g *gate) ttl() {
	t := g.t
	key := []string{pk, `["a"]`}
	for name, tc := range map[string]struct {
		definition string            // of defaultTtl
		ttl        map[string]string // of items, by id; "": none
		goes       []string
	}{
		"never":   {``, map[string]string{"plain": "", "short": "1"}, nil},
		"forever": {`,"defaultTtl":-1`, map[string]string{"plain": "", "short": "1", "long": "1000"}, []string{"short"}},
		"second":  {`,"defaultTtl":1`, map[string]string{"plain": "", "long": "1000", "kept": "-1"}, []string{"plain"}},
	} {
		colls := "/dbs/shop/colls/" + name
		a := g.want(201, "POST", "/dbs/shop/colls", fmt.Sprintf(`{"id":%q,"partitionKey":{"paths":["/k"]}%s}`, name, tc.definition))
		if !strings.Contains(a.body, strings.TrimPrefix(tc.definition, ",")) {
			t.Error(a.body)
		}
		for id, own := range tc.ttl {
			doc := fmt.Sprintf(`{"id":%q,"k":"a"}`, id)
			if own != "" {
				doc = fmt.Sprintf(`{"id":%q,"k":"a","ttl":%s}`, id, own)
			}
			g.want(201, "POST", colls+"/docs", doc, key...)
		}
		there := func(id string) bool {
			return g.ask("GET", colls+"/docs/"+id, "", append(key, "x-ms-consistency-level", "Strong")...).status == 200
		}
		for _, id := range tc.goes {
			g.until(name+": "+id+" expires", func() bool { return !there(id) })
		}
		for id := range tc.ttl {
			if there(id) == slices.Contains(tc.goes, id) {
				t.Errorf("%s: %s", name, id)
			}
		}
		values, _ := g.reads(colls, "SELECT VALUE c.id FROM c", "x-ms-consistency-level", "Strong")
		if len(values) != len(tc.ttl)-len(tc.goes) {
			t.Errorf("%s: a query finds %v", name, values)
		}
		for _, id := range tc.goes { // the id is free again
			g.want(201, "POST", colls+"/docs", fmt.Sprintf(`{"id":%q,"k":"a","ttl":1000}`, id), key...)
		}
		g.want(501, "PUT", colls, fmt.Sprintf(`{"id":%q,"partitionKey":{"paths":["/k"]},"defaultTtl":77}`, name))
		g.want(204, "DELETE", colls, "")
	}
}

// unique has items want values that others have, alone and in a batch.
func (g *gate) unique() {
	t := g.t
	const colls = "/dbs/shop/colls/users"
	key := []string{pk, `["a"]`}
	g.want(201, "POST", "/dbs/shop/colls", `{"id":"users","partitionKey":{"paths":["/k"]},"uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/mail"]}]}}`)
	g.want(201, "POST", colls+"/docs", `{"id":"1","k":"a","mail":"x"}`, key...)
	for _, again := range []answer{
		g.want(409, "POST", colls+"/docs", `{"id":"2","k":"a","mail":"x"}`, key...),
		g.want(409, "POST", colls+"/docs", `{"id":"2","k":"a","mail":"x"}`, append(key, "x-ms-documentdb-is-upsert", "true")...),
	} {
		if again.head.Get("x-ms-substatus") != "3301" {
			t.Errorf("%+v", again)
		}
	}
	g.want(201, "POST", colls+"/docs", `{"id":"2","k":"b","mail":"x"}`, pk, `["b"]`)
	batch := append(key, "x-ms-cosmos-is-batch-request", "true", "x-ms-cosmos-batch-atomic", "true")
	a := g.want(207, "POST", colls+"/docs", `[{"operationType":"Create","resourceBody":{"id":"3","k":"a","mail":"y"}},{"operationType":"Create","resourceBody":{"id":"4","k":"a","mail":"x"}}]`, batch...)
	var results []struct{ StatusCode, SubStatusCode int }
	if err := json.Unmarshal([]byte(a.body), &results); err != nil || len(results) != 2 || results[0].StatusCode != 424 || results[1].StatusCode != 409 || results[1].SubStatusCode != 3301 {
		t.Errorf("%s, %v", a.body, err)
	}
	g.want(404, "GET", colls+"/docs/3", "", key...)
	g.want(204, "DELETE", colls+"/docs/1", "", key...)
	g.want(201, "POST", colls+"/docs", `{"id":"2","k":"a","mail":"x"}`, key...)
}
