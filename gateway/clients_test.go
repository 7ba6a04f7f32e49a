package gateway

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/gateway/internal/keyrange"
)

// TestDeleteKey: the operation of clients that deletes all items of a partition key.
func TestDeleteKey(t *testing.T) {
	s := start(t, nil)
	docs := s.items()
	for _, d := range []string{`{"id":"1","pk":"a"}`, `{"id":"2","pk":"a"}`, `{"id":"1","pk":"b"}`} {
		s.do(201, "POST", docs, d, pk, `["`+d[16:17]+`"]`)
	}
	const path = "/dbs/d/colls/c/operations/partitionkeydelete"
	sent := func(method, path string, head ...string) *reply {
		// It is signed as a request for the container.
		r := s.signed(method, "/dbs/d/colls/c", nil, head...)
		r.URL.Path = path
		return s.send(r)
	}
	for _, bad := range []struct {
		method, path string
		head         []string
		want         int
	}{
		{"POST", path, nil, 400},
		{"POST", path, []string{pk, `["a","b"]`}, 400},
		{"GET", path, []string{pk, `["a"]`}, 405},
		{"POST", "/dbs/d/colls/c/operations/other", []string{pk, `["a"]`}, 404},
	} {
		if r := sent(bad.method, bad.path, bad.head...); r.status != bad.want {
			t.Errorf("%s %s %v: %d %s", bad.method, bad.path, bad.head, r.status, r.body)
		}
	}
	if r := s.send(s.signed("POST", path, nil, pk, `["a"]`)); r.status != 401 {
		t.Errorf("with another signature: %d", r.status)
	}
	if r := sent("POST", path, pk, `["a"]`); r.status != 200 || r.head.Get("x-ms-request-charge") == "0" {
		t.Errorf("%d %s, charge %s", r.status, r.body, r.head.Get("x-ms-request-charge"))
	}
	s.do(404, "GET", docs+"/1", "", pk, `["a"]`)
	s.do(404, "GET", docs+"/2", "", pk, `["a"]`)
	s.do(200, "GET", docs+"/1", "", pk, `["b"]`)
}

// TestQuestionMark: some clients leave a question mark of an id as it is in the path.
func TestQuestionMark(t *testing.T) {
	s := start(t, nil)
	docs := s.items()
	s.do(201, "POST", docs, `{"id":"a","pk":"a"}`, pk, `["a"]`)
	s.do(201, "POST", "/dbs/d/users", `{"id":"u"}`)
	token, _ := s.do(201, "POST", "/dbs/d/users/u/permissions", `{"id":"p","permissionMode":"All","resource":"dbs/d/colls/c"}`).member(t, "_token").(string)
	for _, id := range []string{"a?b=c", "a?", "a??", "a?/", "a?b/c", "?", "?x", "??", "?b/c"} {
		s.do(201, "POST", docs, fmt.Sprintf(`{"id":%q,"pk":"a"}`, id), pk, `["a"]`)
		escaped := docs + "/" + url.PathEscape(id)
		s.do(200, "GET", escaped, "", pk, `["a"]`)
		for _, method := range []string{"GET", "DELETE"} {
			r := s.signed(method, escaped, nil, pk, `["a"]`)
			before, behind, _ := strings.Cut(id, "?")
			r.URL.Path, r.URL.RawPath, r.URL.RawQuery, r.URL.ForceQuery = docs+"/"+before, "", behind, true
			if method == "DELETE" {
				r.Header.Set("Authorization", url.QueryEscape(token)) // whose signature is not of the path
			}
			if got := s.send(r); got.status >= 300 || method == "GET" && got.member(t, "id") != id {
				t.Errorf("%s %s: %d %s", method, id, got.status, got.body)
			}
		}
		s.do(404, "GET", escaped, "", pk, `["a"]`)
		s.do(200, "GET", docs+"/a", "", pk, `["a"]`)
	}
	// A query is no way around the signature.
	r := s.signed("GET", docs+"/1", nil, pk, `["a"]`)
	r.URL.RawQuery = "x"
	if got := s.send(r); got.status != 401 {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// TestKeyPaths: paths that cannot be a partition key are refused in the words of the service,
// which tests of clients look for.
func TestKeyPaths(t *testing.T) {
	s := start(t, nil)
	s.items()
	for paths, want := range map[string]string{
		`["id","/b"]`: "could not be accepted", `["/a b"]`: "must contain only valid characters", `["/a/"]`: "trailing slash",
		`["/a/*"]`: "wildcard", `["/"]`: "valid characters", `[""]`: "could not be accepted",
	} {
		r := s.do(400, "POST", "/dbs/d/colls", `{"id":"x","partitionKey":{"paths":`+paths+`}}`)
		if !strings.Contains(string(r.body), want) {
			t.Errorf("%s: %s", paths, r.body)
		}
	}
	for i, path := range []string{"/my-key", "/ä/b_c", `/\"a b\"`} {
		s.do(201, "POST", "/dbs/d/colls", `{"id":"y`+string(rune('0'+i))+`","partitionKey":{"paths":["`+path+`"]}}`)
	}
}

// TestRangeOfAnswers: an answer about a range of the key space names the physical partition
// that has it, not the first one.
func TestRangeOfAnswers(t *testing.T) {
	s := start(t, nil)
	docs := s.items("x-ms-offer-throughput", "30000")
	k, bad := s.h.catalog.container("d", "c")
	if bad != nil {
		t.Fatal(bad)
	}
	parts := inEngine(k).Partitions()
	if len(parts) < 2 {
		t.Fatalf("%d partitions", len(parts))
	}
	for _, p := range parts {
		id := k.rangeAt(s.h.o.Clock(), nil)
		min, err := keyrange.Parse(2, p.Min, p.Max)
		if err != nil {
			t.Fatal(err)
		}
		want := k.rangeAt(s.h.o.Clock(), &min.Min)
		if p.Min != parts[0].Min && want == id {
			t.Errorf("partition %d has the id of the first one", p.ID)
		}
		for name, head := range map[string][]string{
			"by id":  {"x-ms-documentdb-partitionkeyrangeid", want},
			"by EPK": {"x-ms-start-epk", p.Min, "x-ms-end-epk", p.Max, "x-ms-read-key-type", "EffectivePartitionKeyRange"},
		} {
			feed := s.send(s.signed("GET", docs, nil, append(head, "A-IM", "Incremental Feed")...))
			query := s.send(s.signed("POST", docs, []byte(`{"query":"SELECT * FROM c"}`), append(head, "x-ms-documentdb-isquery", "True", "Content-Type", "application/query+json")...))
			for what, r := range map[string]*reply{"feed": feed, "query": query} {
				if got := r.head.Get("x-ms-documentdb-partitionkeyrangeid"); r.status >= 400 || got != want {
					t.Errorf("%s %s: %d, range %q, want %q", what, name, r.status, got, want)
				}
				if token := r.head.Get("x-ms-session-token"); !strings.HasPrefix(token, want+":") {
					t.Errorf("%s %s: session token %q, want that of %q", what, name, token, want)
				}
			}
		}
	}
	if r := s.send(s.signed("POST", docs, []byte(`{"query":"SELECT * FROM c"}`), "x-ms-documentdb-isquery", "True", "Content-Type", "application/query+json",
		"x-ms-documentdb-query-enablecrosspartition", "True", "x-ms-continuation", "x")); r.status != http.StatusBadRequest || !strings.Contains(string(r.body), "Invalid Continuation Token") {
		t.Errorf("%d %s", r.status, r.body)
	}
}
