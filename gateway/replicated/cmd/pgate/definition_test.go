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
		// Of what is there, items without a time of their own go by another default from now on.
		g.want(200, "PUT", colls, fmt.Sprintf(`{"id":%q,"partitionKey":{"paths":["/k"]},"defaultTtl":1}`, name))
		if a := g.want(200, "GET", colls, ""); !strings.Contains(a.body, `"defaultTtl":1`) {
			t.Errorf("%s: %s", name, a.body)
		}
		for id, own := range tc.ttl {
			if own == "" && !slices.Contains(tc.goes, id) {
				g.until(name+": "+id+" expires by the changed default", func() bool { return !there(id) })
			} else if (own == "1000" || own == "-1") && !there(id) {
				t.Errorf("%s: %s has expired, which has a longer time of its own", name, id)
			}
		}
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

// ttls has batches and patches give items a time to live, and take it from them.
func (g *gate) ttls() {
	t := g.t
	key := []string{pk, `["a"]`}
	batch := append(slices.Clone(key), "x-ms-cosmos-is-batch-request", "true", "x-ms-cosmos-batch-atomic", "true")
	for name, tc := range map[string]struct {
		definition string
		goes       []string
	}{
		"ever":  {`,"defaultTtl":-1`, []string{"batch", "patched", "changed", "both"}},
		"soon":  {`,"defaultTtl":2`, []string{"batch", "patched", "changed", "both", "freed", "plain"}},
		"never": {``, nil},
	} {
		colls := "/dbs/shop/colls/ttl" + name
		g.want(201, "POST", "/dbs/shop/colls", fmt.Sprintf(`{"id":%q,"partitionKey":{"paths":["/k"]}%s}`, "ttl"+name, tc.definition))
		for id, own := range map[string]string{"patched": "1000", "changed": "1000", "freed": "1000", "kept": "1000", "touched": "1000", "ends": "1000", "both": "1000"} {
			g.want(201, "POST", colls+"/docs", fmt.Sprintf(`{"id":%q,"k":"a","ttl":%s}`, id, own), key...)
		}
		g.want(200, "POST", colls+"/docs", `[
			{"operationType":"Create","resourceBody":{"id":"batch","k":"a","ttl":1}},
			{"operationType":"Create","resourceBody":{"id":"plain","k":"a"}},
			{"operationType":"Create","resourceBody":{"id":"long","k":"a","ttl":1000}},
			{"operationType":"Replace","id":"changed","resourceBody":{"id":"changed","k":"a","ttl":1}},
			{"operationType":"Upsert","resourceBody":{"id":"kept","k":"a","ttl":-1}},
			{"operationType":"Patch","id":"both","resourceBody":{"operations":[{"op":"set","path":"/ttl","value":1}]}},
			{"operationType":"Patch","id":"touched","resourceBody":{"operations":[{"op":"set","path":"/n","value":1}]}}
		]`, batch...)
		g.want(200, "PATCH", colls+"/docs/patched", `{"operations":[{"op":"set","path":"/ttl","value":1}]}`, key...)
		g.want(200, "PATCH", colls+"/docs/freed", `{"operations":[{"op":"remove","path":"/ttl"}]}`, key...)
		g.want(200, "PATCH", colls+"/docs/ends", `{"operations":[{"op":"replace","path":"/ttl","value":-1}]}`, key...)
		there := func(id string) bool {
			return g.ask("GET", colls+"/docs/"+id, "", append(key, "x-ms-consistency-level", "Strong")...).status == 200
		}
		for _, id := range tc.goes {
			g.until(name+": "+id+" expires", func() bool { return !there(id) })
		}
		for _, id := range []string{"patched", "changed", "freed", "kept", "touched", "ends", "both", "batch", "plain", "long"} {
			if there(id) == slices.Contains(tc.goes, id) {
				t.Errorf("%s: %s", name, id)
			}
		}
		for _, id := range tc.goes {
			g.want(404, "PATCH", colls+"/docs/"+id, `{"operations":[{"op":"set","path":"/n","value":1}]}`, key...)
			g.want(404, "PUT", colls+"/docs/"+id, fmt.Sprintf(`{"id":%q,"k":"a"}`, id), key...)
			g.want(200, "POST", colls+"/docs", fmt.Sprintf(`[{"operationType":"Create","resourceBody":{"id":%q,"k":"a","ttl":1000}}]`, id), batch...)
		}
		g.want(204, "DELETE", colls, "")
	}
}

// uniques has batches and scripts exchange values that are unique.
func (g *gate) uniques() {
	t := g.t
	const colls = "/dbs/shop/colls/mails"
	key := []string{pk, `["a"]`}
	batch := append(slices.Clone(key), "x-ms-cosmos-is-batch-request", "true", "x-ms-cosmos-batch-atomic", "true")
	g.want(201, "POST", "/dbs/shop/colls", `{"id":"mails","partitionKey":{"paths":["/k"]},"defaultTtl":-1,"uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/mail"]}]}}`)
	g.want(200, "POST", colls+"/docs", `[{"operationType":"Create","resourceBody":{"id":"1","k":"a","mail":"x"}},{"operationType":"Create","resourceBody":{"id":"2","k":"a","mail":"y"}}]`, batch...)
	for _, tc := range []struct {
		status int
		ops    string
	}{
		{200, `[{"operationType":"Replace","id":"1","resourceBody":{"id":"1","k":"a","mail":"y"}},{"operationType":"Replace","id":"2","resourceBody":{"id":"2","k":"a","mail":"x"}}]`},
		{200, `[{"operationType":"Create","resourceBody":{"id":"3","k":"a","mail":"y"}},{"operationType":"Delete","id":"1"}]`},
		{200, `[{"operationType":"Delete","id":"3"},{"operationType":"Create","resourceBody":{"id":"1","k":"a","mail":"y"}}]`},
		{207, `[{"operationType":"Read","id":"2"},{"operationType":"Patch","id":"1","resourceBody":{"operations":[{"op":"set","path":"/mail","value":"x"}]}}]`},
		{207, `[{"operationType":"Create","resourceBody":{"id":"4","k":"a","mail":"z"}},{"operationType":"Create","resourceBody":{"id":"5","k":"a","mail":"z"}}]`},
		{200, `[{"operationType":"Create","resourceBody":{"id":"4","k":"a","mail":"z","ttl":1}}]`},
	} {
		if a := g.want(tc.status, "POST", colls+"/docs", tc.ops, batch...); tc.status == 207 && (!strings.Contains(a.body, "3301") || !strings.Contains(a.body, "409")) {
			t.Error(a.body)
		}
	}
	if a := g.want(409, "PATCH", colls+"/docs/1", `{"operations":[{"op":"set","path":"/mail","value":"x"}]}`, key...); a.head.Get("x-ms-substatus") != "3301" {
		t.Errorf("%+v", a)
	}
	g.until("the value of an item that has expired is free", func() bool {
		return g.ask("POST", colls+"/docs", `{"id":"5","k":"a","mail":"z"}`, append(key, "x-ms-consistency-level", "Eventual")...).status == 201
	})
	values, _ := g.reads(colls, "SELECT VALUE CONCAT(c.id, c.mail) FROM c", "x-ms-consistency-level", "Strong")
	if fmt.Sprint(values) != `["1y" "2x" "5z"]` {
		t.Errorf("%v", values)
	}
}
