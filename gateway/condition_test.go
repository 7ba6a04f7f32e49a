package gateway

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
)

// between is a body before whose first byte something else happens.
type between struct {
	*strings.Reader
	do func()
}

func (b *between) Read(p []byte) (int, error) {
	if b.do != nil {
		do := b.do
		b.do = nil
		do()
	}
	return b.Reader.Read(p)
}

func (b *between) Close() error { return nil }

// TestMetadataConditions: a change of a container, an offer or a script on condition of an etag is refused once another request has made
// a change, also if that comes while the request is under way.
func TestMetadataConditions(t *testing.T) {
	const of = `{"id":"c","partitionKey":{"paths":["/pk"]},"defaultTtl":`
	for name, path := range map[string]string{"container": "/dbs/d/colls/c", "offer": "", "offer of a database": "", "function": "/dbs/d/colls/c/udfs/f"} {
		t.Run(name, func(t *testing.T) {
			s := start(t, nil)
			s.do(201, "POST", "/dbs", `{"id":"d"}`, "x-ms-offer-throughput", "1000")
			s.do(201, "POST", "/dbs/d/colls", of+`1}`, "x-ms-offer-throughput", "1000")
			s.do(201, "POST", "/dbs/d/colls/c/udfs", `{"id":"f","body":"1"}`)
			offers := s.do(200, "GET", "/offers", "").member(t, "Offers").([]any)
			body := func(n string) string { return `{"content":{"offerThroughput":` + n + `000}}` }
			switch name {
			case "container":
				body = func(n string) string { return of + n + "}" }
			case "function":
				body = func(n string) string { return `{"id":"f","body":"` + n + `"}` }
			case "offer of a database":
				path = "/" + strings.TrimSuffix(offers[0].(map[string]any)["_self"].(string), "/")
			default:
				path = "/" + strings.TrimSuffix(offers[1].(map[string]any)["_self"].(string), "/")
			}
			etag := s.do(200, "GET", path, "").head.Get("etag")
			s.do(304, "GET", path, "", "If-None-Match", etag)
			s.do(412, "PUT", path, body("2"), "If-Match", `"0"`)
			r := s.signed("PUT", path, nil, "If-Match", etag)
			text := body("3")
			r.Body, r.ContentLength = &between{strings.NewReader(text), func() { s.do(200, "PUT", path, body("2"), "If-Match", etag) }}, int64(len(text))
			w := httptest.NewRecorder()
			if s.h.ServeHTTP(w, r); w.Code != 412 {
				t.Errorf("%d %s", w.Code, w.Body)
			}
			s.do(200, "GET", path, "", "If-None-Match", etag)
			s.do(412, "PUT", path, body("4"), "If-Match", etag)
			s.do(200, "PUT", path, body("4"), "If-Match", "*")
			// Without a condition the last one counts.
			r = s.signed("PUT", path, nil)
			r.Body, r.ContentLength = &between{strings.NewReader(text), func() { s.do(200, "PUT", path, body("5")) }}, int64(len(text))
			w = httptest.NewRecorder()
			if s.h.ServeHTTP(w, r); w.Code != 200 {
				t.Errorf("without a condition: %d %s", w.Code, w.Body)
			}
		})
	}
}

// TestDatabaseChanges: a container is made in a database whose throughput is changed meanwhile, and shares the new one.
func TestDatabaseChanges(t *testing.T) {
	s := start(t, nil)
	s.do(201, "POST", "/dbs", `{"id":"d"}`, "x-ms-offer-throughput", "1000")
	path := "/" + s.do(200, "GET", "/offers", "").member(t, "Offers").([]any)[0].(map[string]any)["_self"].(string)
	const of = `{"id":"c","partitionKey":{"paths":["/pk"]}}`
	r := s.signed("POST", "/dbs/d/colls", nil)
	r.Body, r.ContentLength = &between{strings.NewReader(of), func() {
		s.do(200, "PUT", strings.TrimSuffix(path, "/"), `{"content":{"offerThroughput":2000}}`)
	}}, int64(len(of))
	w := httptest.NewRecorder()
	if s.h.ServeHTTP(w, r); w.Code != 201 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	k, bad := s.h.catalog.container("d", "c")
	if bad != nil {
		t.Fatal(bad)
	}
	if k.db != s.h.catalog.database("d") {
		t.Error("the container has the throughput of before")
	}
}

// TestUncommittedETag: what a script shows of its own writes has an etag that is a condition nothing meets once they
// are committed, and none for the script itself.
func TestUncommittedETag(t *testing.T) {
	s := start(t, nil)
	docs := s.items()
	r := s.execute(200, `function () {
		__.createDocument(__.getSelfLink(), {id: "1", pk: "a", n: 1}, (err, made) => {
			if (err) throw err;
			__.replaceDocument(made._self, {id: "1", pk: "a", n: 2}, {etag: made._etag}, (err, d) => { if (err) throw err; __.response.setBody(d) });
		});
	}`, "[]")
	etag, _ := r.member(t, "_etag").(string)
	if etag == "" {
		t.Errorf("the document of the script has no etag, which clients take for no condition: %s", r.body)
	}
	path, key := docs+"/1", []string{pk, `["a"]`}
	s.do(200, "PUT", path, `{"id":"1","pk":"a","n":3}`, key...) // another client
	for _, of := range []string{etag, ""} {
		with := append(key[:2:2], "If-Match", of)
		s.do(412, "PUT", path, `{"id":"1","pk":"a","n":4}`, with...)
		s.do(412, "POST", docs, `{"id":"1","pk":"a","n":4}`, append(with, "x-ms-documentdb-is-upsert", "true")...)
		s.do(412, "PATCH", path, `[{"op":"set","path":"/n","value":4}]`, with...)
		s.do(412, "DELETE", path, "", with...)
		s.do(412, "PUT", coll, `{"id":"c","partitionKey":{"paths":["/pk"]}}`, "If-Match", of)
		s.do(412, "DELETE", coll+"/sprocs/p", "", "If-Match", of)
		for _, op := range []string{`Replace","resourceBody":{"id":"1","pk":"a","n":4}`, `Upsert","resourceBody":{"id":"1","pk":"a","n":4}`,
			`Patch","resourceBody":[{"op":"set","path":"/n","value":4}]`, `Delete"`} {
			op = fmt.Sprintf(`[{"id":"1","ifMatch":%q,"partitionKey":"[\"a\"]","operationType":"%s}]`, of, op)
			if got := append(s.batch(207, docs, op), s.batch(207, docs, op, append(key, "x-ms-cosmos-batch-atomic", "true")...)...); got[0].StatusCode != 412 || got[1].StatusCode != 412 {
				t.Errorf("%s: %v", op, statuses(got))
			}
		}
	}
	if r = s.do(200, "GET", path, "", key...); r.member(t, "n") != 3.0 {
		t.Errorf("%s", r.body)
	}
	s.define(coll+"/triggers", "seen", `function () { __.upsertDocument(__.getSelfLink(), {id: "seen", pk: "a", etag: getContext().getResponse().getBody()._etag}) }`,
		`,"triggerType":"Post","triggerOperation":"All"`)
	s.do(201, "POST", docs, `{"id":"2","pk":"a"}`, pk, `["a"]`, "x-ms-documentdb-post-trigger-include", "seen")
	if r = s.do(200, "GET", docs+"/seen", "", key...); r.member(t, "etag") != etag {
		t.Errorf("%s, want the etag %s", r.body, etag)
	}
}

// TestPatchConditionEnds: what the condition of a patch computes of a document ends with the request.
func TestPatchConditionEnds(t *testing.T) {
	s := start(t, nil)
	docs := s.items()
	item := []string{pk, `["a"]`}
	s.do(201, "POST", docs, `{"id":"1","pk":"a","t":[`+strings.Repeat("1,", 399)+`1]}`, item...)
	const patch = `{"condition":"FROM c WHERE NOT EXISTS(SELECT VALUE 1 FROM p IN c.t JOIN q IN c.t WHERE p + q = 3)","operations":[{"op":"set","path":"/n","value":1}]}`
	left := 100
	w := httptest.NewRecorder()
	s.h.ServeHTTP(w, s.signed("PATCH", docs+"/1", []byte(patch), item...).WithContext(ending{t.Context(), &left}))
	if w.Code != 408 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	s.do(200, "PATCH", docs+"/1", patch, item...)
}
