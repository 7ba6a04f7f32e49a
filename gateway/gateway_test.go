package gateway

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/gateway/internal/signature"
)

// server is a gateway under test, on a store in a directory of the test.
type server struct {
	t  *testing.T
	db *engine.DB
	h  *Handler
	s  *httptest.Server
}

func start(t *testing.T, o *Options) *server {
	t.Helper()
	return startIn(t, t.TempDir(), o)
}

func startIn(t *testing.T, dir string, o *Options) *server {
	t.Helper()
	db, err := engine.Open(t.Context(), dir, &engine.Options{MemoryBudget: 32 << 20, Durability: engine.Buffered})
	if err != nil {
		t.Fatal(err)
	}
	h, err := New(t.Context(), db, o)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, db: db, h: h, s: httptest.NewServer(h)}
	t.Cleanup(s.close)
	return s
}

func (s *server) close() {
	s.s.Close()
	if err := s.db.Close(); err != nil {
		s.t.Error(err)
	}
}

// reply is the answer to a request.
type reply struct {
	status int
	head   http.Header
	body   []byte
}

// member returns a member of the body.
func (r *reply) member(t *testing.T, name string) any {
	t.Helper()
	var all map[string]any
	if err := json.Unmarshal(r.body, &all); err != nil {
		t.Fatalf("%d %s: %v", r.status, r.body, err)
	}
	return all[name]
}

func (r *reply) sub() string { return r.head.Get("x-ms-substatus") }

// sign returns a request with a signature. The path is escaped.
func (s *server) sign(ctx context.Context, method, path string, body []byte, head ...string) *http.Request {
	s.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, s.s.URL+path, bytes.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	var segments []string
	if trimmed := strings.Trim(path, "/"); trimmed != "" {
		for part := range strings.SplitSeq(trimmed, "/") {
			plain, err := url.PathUnescape(part)
			if err != nil {
				s.t.Fatal(err)
			}
			segments = append(segments, plain)
		}
	}
	kind, link := "", ""
	switch n := len(segments); {
	case n == 0:
	case n%2 == 1:
		kind, link = segments[n-1], strings.Join(segments[:n-1], "/")
	default:
		kind, link = segments[n-2], strings.Join(segments, "/")
	}
	date := s.h.o.Clock().UTC().Format(http.TimeFormat)
	sig := base64.StdEncoding.EncodeToString(s.h.auth.Sign(method, kind, link, date, ""))
	r.Header.Set("x-ms-date", date)
	r.Header.Set("Authorization", url.QueryEscape("type=master&ver=1.0&sig="+sig))
	for i := 0; i < len(head); i += 2 {
		r.Header.Set(head[i], head[i+1])
	}
	return r
}

func (s *server) signed(method, path string, body []byte, head ...string) *http.Request {
	s.t.Helper()
	return s.sign(s.t.Context(), method, path, body, head...)
}

func (s *server) send(r *http.Request) *reply {
	s.t.Helper()
	answer, err := s.s.Client().Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return &reply{answer.StatusCode, answer.Header, body}
}

// do sends a signed request and checks the status.
func (s *server) do(want int, method, path, body string, head ...string) *reply {
	s.t.Helper()
	r := s.send(s.signed(method, path, []byte(body), head...))
	if r.status != want {
		s.t.Fatalf("%s %s: %d (sub-status %s), want %d: %s", method, path, r.status, r.sub(), want, r.body)
	}
	if r.status >= 400 {
		if r.member(s.t, "code") == "" || r.member(s.t, "message") == "" {
			s.t.Errorf("%s %s: the error %s has no code or no message", method, path, r.body)
		}
	}
	if r.head.Get("x-ms-activity-id") == "" || r.head.Get("x-ms-request-charge") == "" {
		s.t.Errorf("%s %s: activity %q, charge %q", method, path, r.head.Get("x-ms-activity-id"), r.head.Get("x-ms-request-charge"))
	}
	return r
}

const pk = "x-ms-documentdb-partitionkey"

// items makes a database and a container, whose items have their key at /pk.
func (s *server) items(head ...string) string {
	s.t.Helper()
	s.do(201, "POST", "/dbs", `{"id":"d"}`)
	s.do(201, "POST", "/dbs/d/colls", `{"id":"c","partitionKey":{"paths":["/pk"]}}`, head...)
	return "/dbs/d/colls/c/docs"
}

// query runs a query to its end and returns the results, with the sizes of the pages.
func (s *server) query(path, text string, head ...string) (results []json.RawMessage, pages []int) {
	s.t.Helper()
	body, _ := json.Marshal(map[string]any{"query": text, "parameters": []any{}})
	head = append([]string{"x-ms-documentdb-query", "True", "Content-Type", "application/query+json",
		"x-ms-documentdb-query-enablecrosspartition", "true"}, head...)
	for next := ""; ; {
		with := head
		if next != "" {
			with = append(with[:len(with):len(with)], "x-ms-continuation", next)
		}
		r := s.do(200, "POST", path, string(body), with...)
		var page struct {
			Documents []json.RawMessage
			Count     int `json:"_count"`
		}
		if err := json.Unmarshal(r.body, &page); err != nil {
			s.t.Fatal(err)
		}
		if r.head.Get("x-ms-documentdb-query-metrics") == "" || page.Count != len(page.Documents) {
			s.t.Errorf("query %q: metrics %q, count %d of %d", text, r.head.Get("x-ms-documentdb-query-metrics"), page.Count, len(page.Documents))
		}
		results, pages = append(results, page.Documents...), append(pages, page.Count)
		if next = r.head.Get("x-ms-continuation"); next == "" {
			return results, pages
		}
	}
}

func ids(t *testing.T, documents []json.RawMessage) (out []string) {
	t.Helper()
	for _, d := range documents {
		var of struct{ ID string }
		if err := json.Unmarshal(d, &of); err != nil {
			t.Fatal(err)
		}
		out = append(out, of.ID)
	}
	return out
}

// TestItems: an item is created, read, replaced, patched, upserted and deleted, with the
// statuses and headers of the protocol.
func TestItems(t *testing.T) {
	s := start(t, nil)
	docs := s.items()
	key := []string{pk, `["a"]`}
	r := s.do(201, "POST", docs, `{"id":"1","pk":"a","n":1}`, key...)
	etag, rid := r.head.Get("etag"), r.member(t, "_rid")
	if etag == "" || r.member(t, "_etag") != etag || r.member(t, "_self") == nil || r.member(t, "_ts") == nil || r.member(t, "n") != 1.0 {
		t.Errorf("%v %s", r.head, r.body)
	}
	for _, name := range []string{"x-ms-session-token", "lsn", "x-ms-documentdb-partitionkeyrangeid", "x-ms-content-path", "x-ms-alt-content-path", "x-ms-request-duration-ms"} {
		if r.head.Get(name) == "" {
			t.Errorf("the header %s is missing", name)
		}
	}
	s.do(409, "POST", docs, `{"id":"1","pk":"a"}`, key...)
	if r := s.do(400, "POST", docs, `{"id":"2","pk":"b"}`, key...); r.sub() != "1001" {
		t.Errorf("a document of another key: sub-status %q", r.sub())
	}
	one := docs + "/1"
	if r = s.do(200, "GET", one, "", key...); r.member(t, "_rid") != rid || r.head.Get("etag") != etag {
		t.Errorf("%s", r.body)
	}
	s.do(304, "GET", one, "", append(key, "If-None-Match", etag)...)
	s.do(404, "GET", docs+"/2", "", key...)
	s.do(404, "GET", one, "", pk, `["b"]`)

	// What a client read it may send back: system members are not stored twice.
	r = s.do(200, "PUT", one, string(r.body), append(key, "If-Match", etag)...)
	if r.member(t, "_rid") != rid || strings.Count(string(r.body), "_etag") != 1 {
		t.Errorf("%s", r.body)
	}
	s.do(412, "PUT", one, `{"id":"1","pk":"a"}`, append(key, "If-Match", etag)...)
	s.do(412, "PUT", one, `{"id":"1","pk":"a"}`, append(key, "If-Match", `"no etag of ours"`)...)
	s.do(404, "PUT", docs+"/2", `{"id":"2","pk":"a"}`, key...)
	s.do(400, "PUT", docs+"/2", `{"id":"1","pk":"a"}`, key...)

	r = s.do(200, "PATCH", one, `{"operations":[{"op":"incr","path":"/n","value":4},{"op":"set","path":"/s","value":"x"}]}`, key...)
	if r.member(t, "n") != 5.0 || r.member(t, "s") != "x" || r.member(t, "_rid") != rid {
		t.Errorf("%s", r.body)
	}
	if r = s.do(412, "PATCH", one, `{"condition":"from c where c.n = 6","operations":[{"op":"remove","path":"/s"}]}`, key...); r.sub() != "1110" {
		t.Errorf("a condition that is false: sub-status %q", r.sub())
	}
	r = s.do(200, "PATCH", one, `{"condition":"from c where c.n = 5","operations":[{"op":"remove","path":"/s"}]}`, key...)
	onETag := fmt.Sprintf(`{"condition":"from c where c._etag = '%s'","operations":[{"op":"set","path":"/s","value":"y"}]}`, strings.ReplaceAll(r.head.Get("etag"), `"`, `\"`))
	s.do(200, "PATCH", one, onETag, key...)
	s.do(412, "PATCH", one, onETag, key...)
	s.do(400, "PATCH", one, `{"condition":"from c where (select value x from x in [1,2]) = 1","operations":[{"op":"remove","path":"/s"}]}`, key...)
	for _, bad := range []string{`{}`, `[]`, `x`, `{"operations":[{"op":"set","path":"/_ts","value":1}]}`, `{"operations":[{"op":"fly","path":"/a"}]}`,
		`{"operations":[{"op":"set","path":"/id","value":"2"}]}`, `{"operations":[{"op":"incr","path":"/n","value":"1"}]}`,
		`{"operations":[{"op":"set","path":"/n"}]}`, `{"operations":[{"op":"add","path":"/n"}]}`, `{"operations":[{"op":"replace","path":"/n"}]}`, `{"operations":[{"op":"incr","path":"/n"}]}`} {
		s.do(400, "PATCH", one, bad, key...)
	}
	// No value is a fault of the client, and null is a value.
	if r = s.do(200, "PATCH", one, `{"operations":[{"op":"set","path":"/null","value":null}]}`, key...); !strings.Contains(string(r.body), `"null":null`) {
		t.Errorf("%s", r.body)
	}
	s.do(400, "GET", one, "", append(key, "x-ms-consistency-level", "Sometimes")...)
	s.do(200, "GET", one, "", append(key, "x-ms-consistency-level", "eventual")...)

	upsert := append(key, "x-ms-documentdb-is-upsert", "True")
	s.do(200, "POST", docs, `{"id":"1","pk":"a","n":9}`, upsert...)
	s.do(201, "POST", docs, `{"id":"3","pk":"a"}`, append(upsert, "If-Match", etag)...)
	s.do(412, "POST", docs, `{"id":"3","pk":"a"}`, append(upsert, "If-Match", etag)...)

	r = s.do(201, "POST", docs, `{"id":"4","pk":"a"}`, append(key, "Prefer", "return=minimal")...)
	if len(r.body) != 0 || r.head.Get("etag") == "" {
		t.Errorf("a minimal answer: %q", r.body)
	}
	s.do(412, "DELETE", one, "", append(key, "If-Match", etag)...)
	s.do(204, "DELETE", one, "", key...)
	s.do(404, "DELETE", one, "", key...)
	s.do(400, "GET", one, "")
}

// TestRestart: databases, containers and items are there after a restart, numbers are not
// given out twice, and what a crash left half made or half dropped is gone.
func TestRestart(t *testing.T) {
	dir := t.TempDir()
	ctx := context.Background()
	rids := map[any]bool{}
	for round := range 3 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			s := startIn(t, dir, nil)
			if round == 0 {
				s.items()
				s.do(201, "POST", "/dbs/d/colls", `{"id":"made","partitionKey":{"paths":["/pk"]}}`)
				s.do(201, "POST", "/dbs", `{"id":"leaving"}`)
				s.do(201, "POST", "/dbs/leaving/colls", `{"id":"x","partitionKey":{"paths":["/pk"]}}`)
			}
			r := s.do(201, "POST", "/dbs/d/colls/c/docs", fmt.Sprintf(`{"id":"%d","pk":"a"}`, round), pk, `["a"]`)
			if rid := r.member(t, "_rid"); rids[rid] {
				t.Errorf("the resource id %v was given out twice", rid)
			} else {
				rids[rid] = true
			}
			if documents, _ := s.query("/dbs/d/colls/c/docs", "select * from c"); len(documents) != round+1 {
				t.Errorf("%d documents", len(documents))
			}
			switch round {
			case 0:
				made, _ := s.h.catalog.container("d", "made")
				if err := s.db.DropContainer(ctx, made.record.Store); err != nil { // half of a drop
					t.Fatal(err)
				}
				leaving := s.h.catalog.database("leaving")
				leaving.record.State = stateDeleting
				if _, err := s.h.catalog.put(ctx, &leaving.record); err != nil {
					t.Fatal(err)
				}
			default:
				s.do(404, "GET", "/dbs/leaving", "")
				if r := s.do(404, "GET", "/dbs/d/colls/made", ""); r.sub() != "1003" {
					t.Errorf("sub-status %q", r.sub())
				}
				n := 0
				for range s.db.Containers() {
					n++
				}
				if n != 2 {
					t.Errorf("the store has %d containers, want c and the catalogue", n)
				}
			}
		})
	}
}

// TestAuthorization: no request is answered without a signature or token of the key.
func TestAuthorization(t *testing.T) {
	s := start(t, nil)
	for name, change := range map[string]func(r *http.Request){
		"none":    func(r *http.Request) { r.Header.Del("Authorization") },
		"garbage": func(r *http.Request) { r.Header.Set("Authorization", "%zz") },
		"version": func(r *http.Request) { r.Header.Set("Authorization", "type=master&ver=2.0&sig=x") },
		"type":    func(r *http.Request) { r.Header.Set("Authorization", "type=resource&ver=1.0&sig=x") },
		"signature": func(r *http.Request) {
			r.Header.Set("Authorization", "type=master&ver=1.0&sig="+base64.StdEncoding.EncodeToString(make([]byte, 32)))
		},
		"date": func(r *http.Request) {
			r.Header.Set("x-ms-date", time.Now().Add(time.Second).UTC().Format(http.TimeFormat))
		},
		"no date":    func(r *http.Request) { r.Header.Del("x-ms-date") },
		"long":       func(r *http.Request) { r.Header.Set("Authorization", strings.Repeat("a", signature.MaxHeader+1)) },
		"token":      func(r *http.Request) { r.Header.Set("Authorization", "type=aad&ver=1.0&sig=a.b.c") },
		"two parts":  func(r *http.Request) { r.Header.Set("Authorization", "type=aad&ver=1.0&sig=a.b") },
		"expired":    func(r *http.Request) { r.Header.Set("Authorization", token(s, time.Now().Add(-time.Hour))) },
		"wrong path": func(r *http.Request) { r.URL.Path = "/dbs/other" },
	} {
		r := s.signed("GET", "/dbs", nil)
		change(r)
		if got := s.send(r); got.status != 401 || got.member(t, "code") != "Unauthorized" {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	r := s.signed("GET", "/dbs", nil)
	r.Header.Set("Authorization", token(s, time.Now().Add(time.Hour)))
	if got := s.send(r); got.status != 200 {
		t.Errorf("token: %d %s", got.status, got.body)
	}
	late := start(t, &Options{Clock: func() time.Time { return time.Now().Add(time.Hour) }})
	r = late.signed("GET", "/dbs", nil)
	date := time.Now().UTC().Format(http.TimeFormat)
	r.Header.Set("x-ms-date", date)
	r.Header.Set("Authorization", "type=master&ver=1.0&sig="+base64.StdEncoding.EncodeToString(late.h.auth.Sign("GET", "dbs", "", date, "")))
	if got := late.send(r); got.status != 403 {
		t.Errorf("an old date: %d %s", got.status, got.body)
	}
}

// token returns an authorization as emulators take it.
func token(s *server, expires time.Time) string {
	part := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	return "type=aad&ver=1.0&sig=" + part(`{"typ":"JWT","alg":"RS256"}`) + "." + part(fmt.Sprintf(`{"exp":%d}`, expires.Unix())) + "." + part(s.h.o.Key)
}
