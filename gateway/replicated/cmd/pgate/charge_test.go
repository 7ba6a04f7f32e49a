package main

import (
	"cmp"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/gateway"
)

// single returns a gateway over one store.
func single(t *testing.T) *gate {
	t.Helper()
	db, err := engine.Open(t.Context(), t.TempDir(), &engine.Options{MemoryBudget: 32 << 20, Durability: engine.Buffered})
	if err != nil {
		t.Fatal(err)
	}
	h, err := gateway.New(t.Context(), db, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.Close()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return &gate{t: t, url: s.URL}
}

// charges: a request is charged as over one store, whether it does something or is refused. A transaction is charged for each item that it
// touches: it reads that, and writes it on condition that it is as it was read.
func (g *gate) charges() {
	t := g.t
	const colls, docs = "/dbs/charged/colls/c", "/dbs/charged/colls/c/docs"
	key := []string{pk, `["a"]`}
	with := func(head ...string) []string { return append(slices.Clone(key), head...) }
	upsert := with("x-ms-documentdb-is-upsert", "true")
	batch := with("x-ms-cosmos-is-batch-request", "true", "x-ms-cosmos-batch-atomic", "true")
	query := func(head ...string) []string {
		return append([]string{"Content-Type", "application/query+json", "x-ms-documentdb-isquery", "true"}, head...)
	}
	big := strings.Repeat("x", 9<<10)
	both := []*gate{g, single(t)}
	for i, step := range []struct {
		method, path, body string
		head               []string
		more               string // charge over the cluster, where that is another one
	}{
		{"POST", "/dbs", `{"id":"charged"}`, nil, ""},
		{"POST", "/dbs/charged/colls", `{"id":"c","partitionKey":{"paths":["/k"]},"uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/u"]}]}}`, nil, ""},
		{"POST", docs, `{"id":"1","k":"a","u":1}`, key, ""},
		{"POST", docs, `{"id":"2","k":"a","u":2,"s":"` + big + `"}`, key, ""},
		{"POST", docs, `{"id":"1","k":"a","u":9}`, key, ""},
		{"POST", docs, `{"id":"9","k":"a","u":1}`, key, ""},
		{"GET", docs + "/1", "", key, ""},
		{"GET", docs + "/2", "", key, ""},
		{"GET", docs + "/3", "", key, ""},
		{"GET", docs + "/2", "", with("If-None-Match", "*"), ""},
		{"PUT", docs + "/1", `{"id":"1","k":"a","u":1,"n":1}`, key, ""},
		{"PUT", docs + "/2", `{"id":"2","k":"a","u":2,"s":"` + big + `!"}`, key, ""},
		{"PUT", docs + "/3", `{"id":"3","k":"a","u":3}`, key, ""},
		{"PUT", docs + "/1", `{"id":"1","k":"a","u":1}`, with("If-Match", `"00000000-0000-0000-0000-000000000001"`), ""},
		{"POST", docs, `{"id":"1","k":"a","u":1,"n":2}`, upsert, ""},
		{"POST", docs, `{"id":"4","k":"a","u":4}`, upsert, ""},
		{"PATCH", docs + "/1", `{"operations":[{"op":"incr","path":"/n","value":4}]}`, key, ""},
		{"PATCH", docs + "/2", `{"operations":[{"op":"set","path":"/n","value":4}]}`, key, ""},
		{"PATCH", docs + "/7", `{"operations":[{"op":"set","path":"/n","value":4}]}`, key, ""},
		{"POST", docs, `[{"operationType":"Create","resourceBody":{"id":"5","k":"a","u":5}},{"operationType":"Read","id":"1"},{"operationType":"Delete","id":"4"},{"operationType":"Upsert","resourceBody":{"id":"1","k":"a","u":1}}]`, batch, "23.00"},
		{"POST", docs, `[{"operationType":"Create","resourceBody":{"id":"6","k":"a","u":6}},{"operationType":"Create","resourceBody":{"id":"1","k":"a","u":7}}]`, batch, ""},
		{"POST", docs, `[{"operationType":"Read","id":"1"}]`, batch, ""},
		{"POST", docs, `{"query":"SELECT * FROM c"}`, query(key...), ""},
		{"POST", docs, `{"query":"SELECT VALUE COUNT(1) FROM c WHERE c.u > 1"}`, query(key...), ""},
		{"POST", docs, `{"query":"SELECT * FROM c"}`, query("x-ms-documentdb-query-enablecrosspartition", "true"), ""},
		{"POST", docs, `{"query":"SELECT * FROM"}`, query(key...), ""},
		{"GET", docs, "", key, ""},
		{"GET", docs, "", with("A-IM", "Incremental Feed"), ""},
		{"GET", docs, "", with("A-IM", "Incremental Feed", "If-None-Match", "*"), ""},
		{"DELETE", docs + "/1", "", key, ""},
		{"DELETE", docs + "/1", "", key, ""},
		{"GET", colls, "", nil, ""},
	} {
		var charged, status []string
		for _, of := range both {
			a := of.of(t).ask(step.method, step.path, step.body, step.head...)
			charged, status = append(charged, a.head.Get("x-ms-request-charge")), append(status, fmt.Sprint(a.status))
		}
		if want := cmp.Or(step.more, charged[1]); charged[0] != want || charged[0] == "" || status[0] != status[1] {
			t.Errorf("step %d, %s %s %.60s: status %v, charge %v", i, step.method, step.path, step.body, status, charged)
		}
	}
}
