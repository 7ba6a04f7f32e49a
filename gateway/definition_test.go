package gateway

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestPartitionsOfNewContainers: throughput that one physical partition cannot have is shared
// by partitions of 6,000 RU/s, if it is manual, and of 10,000 RU/s if it scales by itself.
func TestPartitionsOfNewContainers(t *testing.T) {
	for _, tc := range []struct {
		offer
		want int
	}{
		{offer{Throughput: 400}, 1},
		{offer{Throughput: 10_000}, 1},
		{offer{Throughput: 10_100}, 2},
		{offer{Throughput: 18_000}, 3},
		{offer{Throughput: 21_000}, 4},
		{offer{Throughput: 10_000, Autoscale: true}, 1},
		{offer{Throughput: 21_000, Autoscale: true}, 3},
	} {
		if got := tc.Partitions(); got != tc.want {
			t.Errorf("%+v: %d partitions, want %d", tc.offer, got, tc.want)
		}
	}
}

// TestBoundariesOfClients: a client of a container of version 1 with 21,000 RU/s, a test of
// @azure/cosmos 4.0, knows the place where the second of its four partitions ends.
func TestBoundariesOfClients(t *testing.T) {
	s := start(t, nil)
	s.do(201, "POST", "/dbs", `{"id":"d"}`)
	s.do(201, "POST", "/dbs/d/colls", `{"id":"c","partitionKey":{"paths":["/name"],"version":1}}`, "x-ms-offer-throughput", "21000")
	r := s.do(200, "GET", "/dbs/d/colls/c/pkranges", "")
	for _, end := range []string{"05C1CFFFFFFFF8", "05C1DFFFFFFFF8"} {
		if !strings.Contains(string(r.body), `"maxExclusive":"`+end+`"`) {
			t.Errorf("no partition ends at %s: %s", end, r.body)
		}
	}
}

// TestPathsAreAList: paths of a partition key that are no list are refused.
func TestPathsAreAList(t *testing.T) {
	s := start(t, nil)
	s.do(201, "POST", "/dbs", `{"id":"d"}`)
	s.do(400, "POST", "/dbs/d/colls", `{"id":"c","partitionKey":{"paths":"/id"}}`)
}

// TestQuotedKeyPath: a name in quotes in the path of a partition key is that of a member, wherever
// the path is used.
func TestQuotedKeyPath(t *testing.T) {
	s := start(t, nil)
	s.do(201, "POST", "/dbs", `{"id":"d"}`)
	made := s.do(201, "POST", "/dbs/d/colls", `{"id":"c","partitionKey":{"paths":["/\"a,b\"","/\"c/d\"/e"],"kind":"MultiHash","version":2}}`)
	if paths := fmt.Sprint(made.member(t, "partitionKey")); !strings.Contains(paths, `[/"a,b" /"c/d"/e]`) {
		t.Errorf("the definition has %s", paths)
	}
	docs := "/dbs/d/colls/c/docs"
	for _, id := range []string{"1", "2"} {
		s.do(201, "POST", docs, `{"id":"`+id+`","a,b":"x","c/d":{"e":"y"}}`, pk, `["x","y"]`)
	}
	s.do(400, "POST", docs, `{"id":"3","\"a,b\"":"x","\"c/d\"":{"e":"y"}}`, pk, `["x","y"]`)
	s.do(200, "GET", docs+"/1", "", pk, `["x","y"]`)
	for query, want := range map[string]int{
		`SELECT * FROM c WHERE c.id = '1' AND c[\"a,b\"] = 'x' AND c[\"c/d\"].e = 'y'`:            1,
		`SELECT * FROM c WHERE c.id IN ('1','2') AND c[\"a,b\"] = 'x' AND c[\"c/d\"].e = 'y'`:     2,
		`SELECT * FROM c WHERE c.id IN ('1','2') AND c[\"a,b\"] = 'other' AND c[\"c/d\"].e = 'y'`: 0,
		`SELECT * FROM c WHERE c[\"a,b\"] = 'x'`:                                                  2,
	} {
		r := s.do(200, "POST", docs, `{"query":"`+query+`"}`, "Content-Type", "application/query+json", "x-ms-documentdb-isquery", "true", "x-ms-documentdb-query-enablecrosspartition", "true")
		if got, _ := r.member(t, "Documents").([]any); len(got) != want {
			t.Errorf("%s: %d documents, want %d: %s", query, len(got), want, r.body)
		}
	}
	for _, path := range []string{`/\"a\\b\"`, `/'a'`, `/\"a`, `/a\"b\"`, `/a/`, `/[]/a`} {
		s.do(400, "POST", "/dbs/d/colls", `{"id":"x","partitionKey":{"paths":["`+path+`"],"kind":"Hash"}}`)
	}
	s.do(400, "POST", "/dbs/d/colls", `{"id":"x","partitionKey":{"paths":["/\"e,f\""],"kind":"Hash"},"computedProperties":[{"name":"e,f","query":"SELECT VALUE c.a FROM c"}]}`)
}

// TestQuirks: the handler with quirks answers for the HTTP server that stands before the older
// front end, with a page where that server does not understand a URL, and in JSON elsewhere.
func TestQuirks(t *testing.T) {
	s := start(t, nil)
	docs := s.items()
	s.do(201, "POST", docs, `{"id":"a\tb","pk":"x"}`, pk, `["x"]`)
	read := func(path string) *reply {
		req := s.signed("GET", path, nil, pk, `["x"]`)
		s.s.Config.Handler = s.h
		return s.send(req)
	}
	if r := read(docs + "/a%09b"); r.status != http.StatusOK {
		t.Errorf("plain: %d %s", r.status, r.body)
	}
	s.h = s.h.WithQuirks()
	if r := read(docs + "/a%09b"); r.status != http.StatusBadRequest || !strings.HasPrefix(r.head.Get("Content-Type"), "text/html") || !strings.HasPrefix(string(r.body), "<!DOCTYPE html>") {
		t.Errorf("a tab: %d %v %s", r.status, r.head, r.body)
	}
	if r := read(docs + "/a%20"); r.status != http.StatusUnauthorized || r.head.Get("Content-Type") != "application/json" {
		t.Errorf("a blank: %d %v %s", r.status, r.head, r.body)
	}
}
