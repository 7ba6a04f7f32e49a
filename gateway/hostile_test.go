package gateway

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/gateway/internal/document"
	"github.com/cleavestore/cleave/gateway/internal/feedtag"
	"github.com/cleavestore/cleave/gateway/internal/recent"
	"github.com/cleavestore/cleave/gateway/internal/resourceid"
	"github.com/cleavestore/cleave/gateway/internal/sessiontoken"
	"github.com/cleavestore/cleave/gateway/internal/signature"
	"github.com/cleavestore/cleave/internal/queryplan"
)

// raw sends bytes to the server and returns the answer, nil if the connection was closed
// without one.
func (s *server) raw(text string) *http.Response {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.s.Listener.Addr().String())
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	// The server may have answered and closed before it has read all of it.
	_, _ = io.WriteString(conn, text)
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		return nil
	}
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return nil
	}
	defer r.Body.Close()
	return r
}

// TestUnsignedBody: a request without a valid signature is answered and its connection closed
// though its body never ends. A client that has sent its body gets the answer too.
func TestUnsignedBody(t *testing.T) {
	s := start(t, nil)
	docs := s.items()
	for name, text := range map[string]string{
		"chunk cut short":  "POST " + docs + " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
		"no chunk":         "POST " + docs + " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
		"no last chunk":    "POST " + docs + " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
		"broken chunk":     "POST " + docs + " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		"body cut short":   "POST " + docs + " HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
		"waits to go on":   "POST " + docs + " HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 100\r\n\r\n",
		"path not escaped": "POST /dbs//colls HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
		"whole":            "POST " + docs + " HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
	} {
		conn, err := net.Dial("tcp", s.s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err = io.WriteString(conn, text); err != nil {
			t.Fatal(err)
		}
		// The server of the test has no time-outs: without an answer and an end this waits for ever.
		in := bufio.NewReader(conn)
		r, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err = io.Copy(io.Discard, r.Body); err != nil || r.StatusCode != 401 && r.StatusCode != 400 {
			t.Errorf("%s: %s, %v", name, r.Status, err)
		}
		if n, _ := io.Copy(io.Discard, in); n > 0 {
			t.Errorf("%s: %d bytes behind the answer", name, n)
		}
		conn.Close()
	}
}

// TestHostile: malformed requests, cut bodies, huge headers and tricks with paths are
// refused, and the server answers the next request.
func TestHostile(t *testing.T) {
	s := start(t, nil)
	docs := s.items()
	for name, text := range map[string]string{
		"garbage":      "\x00\x01\x02\r\n\r\n",
		"no host":      "GET / HTTP/1.1\r\n\r\n",
		"bad length":   "POST /dbs HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
		"two lengths":  "POST /dbs HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
		"long header":  "GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("a", 2<<20) + "\r\n\r\n",
		"many headers": "GET / HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("X: a\r\n", 200_000) + "\r\n",
		"NUL in path":  "GET /dbs/\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		if r := s.raw(text); r != nil && r.StatusCode < 400 {
			t.Errorf("%s: %s", name, r.Status)
		}
	}
	for _, path := range []string{"/../etc/passwd", "/dbs/..", "/dbs/%2e%2e/colls/x", "/dbs/d/colls/c/docs/%00", "/dbs//colls", "/dbs/%2f%2f", "/dbs/%zz",
		"/dbs/d/colls/_gateway", "//dbs", "/dbs/d/colls/c/docs/a/attachments/b", "/" + strings.Repeat("a/", 5000), "/dbs/" + strings.Repeat("%41", 6000)} {
		if r := s.raw("GET " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); r == nil || r.StatusCode < 400 {
			t.Errorf("%s without a signature: %+v", clip(path), r)
		}
	}
	for _, path := range []string{"/dbs/_gateway", "/dbs/d/colls/_gateway", "/dbs/d/colls/..", "/dbs/..", "/dbs/d/colls/c/docs/..%2f..", "/x", "/dbs/d/users/u"} {
		if r := s.send(s.signed("GET", path, nil, pk, `["a"]`)); r.status != 404 {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
	// A body that is cut short, and one that is larger than it may be.
	whole := s.signed("POST", docs, []byte(`{"id":"1","pk":"a"}`), pk, `["a"]`)
	var text bytes.Buffer
	if err := whole.Write(&text); err != nil {
		t.Fatal(err)
	}
	if r := s.raw(text.String()[:text.Len()-3]); r == nil || r.StatusCode != 400 {
		t.Errorf("a body that is cut short: %+v", r)
	}
	key := []string{pk, `["a"]`}
	s.do(413, "POST", docs, strings.Repeat("x", maxBody+1), key...)
	s.do(413, "POST", docs, `{"id":"1","pk":"a","x":"`+strings.Repeat("x", document.MaxBytes)+`"}`, key...)
	for _, body := range []string{"", "{", "null", "[]", `"x"`, "{}", `{"id":7,"pk":"a"}`, `{"id":"","pk":"a"}`, `{"pk":"a"}`, "{\"id\":\"\xff\",\"pk\":\"a\"}",
		`{"id":"1","pk":"a","id":"2"}`, strings.Repeat("[", 100_000), `{"id":"1","pk":"a","x":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}`, `{"id":"1","pk":{"a":1}}`} {
		s.do(400, "POST", docs, body, key...)
	}
	for _, header := range []string{"", "x", "[", `["a"`, `["a",]`, `["a"]x`, `["\q"]`, `[[1]]`, `[1e999]`, `["a","b","c","d"]`, `["` + strings.Repeat("a", 3000) + `"]`} {
		if r := s.send(s.signed("GET", docs+"/1", nil, pk, header)); r.status != 400 {
			t.Errorf("the key %q: %d %s", clip(header), r.status, r.body)
		}
	}
	s.do(201, "POST", docs, `{"id":"1","pk":"a"}`, key...)
	var none int
	for range s.h.catalog.databases() {
		none++
	}
	if none != 1 {
		t.Errorf("%d databases", none)
	}
}

// TestLargestDocument: a document that has as many bytes as are possible is patched, and written back as it was read.
func TestLargestDocument(t *testing.T) {
	s := start(t, nil)
	docs := s.items()
	item := []string{pk, `["a"]`}
	const begin, end = `{"id":"1","pk":"a","n":0,"x":"`, `"}`
	doc := begin + strings.Repeat("x", document.MaxBytes-len(begin)-len(end)) + end
	s.do(201, "POST", docs, doc, item...)
	s.do(200, "PATCH", docs+"/1", `[{"op":"set","path":"/n","value":1}]`, item...)
	s.do(200, "PUT", docs+"/1", string(s.do(200, "GET", docs+"/1", "", item...).body), item...)
	s.do(413, "PATCH", docs+"/1", `[{"op":"set","path":"/n","value":10}]`, item...)
	s.do(413, "PUT", docs+"/1", strings.Replace(doc, "0", "10", 1), item...)
}

// TestBodyTypes: a body of other JSON than is wanted is refused with a message that says what is where, in
// the words of the protocol.
func TestBodyTypes(t *testing.T) {
	s := start(t, nil)
	docs := s.items()
	item := []string{pk, `["a"]`}
	query := append([]string{"x-ms-documentdb-isquery", "true", "Content-Type", "application/query+json"}, item...)
	batch := append([]string{"x-ms-cosmos-is-batch-request", "true", "x-ms-cosmos-batch-atomic", "true"}, item...)
	scripts := strings.TrimSuffix(docs, "/docs") + "/sprocs"
	s.do(201, "POST", docs, `{"id":"1","pk":"a"}`, item...)
	s.do(201, "POST", scripts, `{"id":"p","body":"function () {}"}`)
	for _, test := range []struct {
		method, path, body, want string
		head                     []string
	}{
		{"POST", docs, `{"query":1}`, "the member query at byte 10 has the type number", query},
		{"POST", docs, `{"query":"SELECT 1","parameters":{}}`, "the member parameters at byte 34 has the type object", query},
		{"POST", docs, `[]`, "the value at byte 1 has the type array", query},
		{"POST", docs, `{"query"`, "unexpected end of JSON input at byte 8", query},
		{"POST", docs, `{}`, "the value at byte 1 has the type object", batch},
		{"POST", docs, `[{"id":[]}]`, "the member id at byte 8 has the type array", batch},
		{"PATCH", docs + "/1", `{"operations":{}}`, "the member operations at byte 15 has the type object", item},
		{"POST", "/dbs", `{"id":1}`, "the member id at byte 7 has the type number", nil},
		{"POST", "/dbs/d/colls", `{"id":true}`, "the member id at byte 10 has the type bool", nil},
		{"POST", scripts, `{"id":{}}`, "the member id at byte 7 has the type object", nil},
		{"POST", scripts + "/p", `{}`, "the value at byte 1 has the type object", item},
	} {
		if r := s.do(400, test.method, test.path, test.body, test.head...); !strings.Contains(string(r.body), test.want) {
			t.Errorf("%s %s: %s", test.path, test.body, r.body)
		}
	}
}

// TestManyOperations: a batch of more operations than are possible is refused without memory for all of them.
func TestManyOperations(t *testing.T) {
	s := start(t, nil)
	docs := s.items()
	batch := []string{"x-ms-cosmos-is-batch-request", "true", "x-ms-cosmos-batch-atomic", "true", pk, `["a"]`}
	read := func(n int) string {
		return "[" + strings.Repeat(`{"operationType":"Read","id":"1"},`, n-1) + `{"operationType":"Read","id":"1"}]`
	}
	s.do(207, "POST", docs, read(maxBatch), batch...)
	s.do(400, "POST", docs, read(maxBatch+1), batch...)
	for _, body := range []string{"[]", "null", "[null]", "[{},null]", read(1) + "x", read(1)[1:]} {
		s.do(400, "POST", docs, body, batch...)
	}
	for _, operation := range []string{"{}", "null", "1"} {
		body := "[" + strings.Repeat(operation+",", maxBody/(len(operation)+1)-2) + operation + "]"
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		s.do(400, "POST", docs, body, batch...)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 16*maxBody {
			t.Errorf("%d bytes of memory for a body of %d bytes with %q", took, len(body), operation)
		}
	}
}

// TestLongID: an id that no item can have is refused alike by every call.
func TestLongID(t *testing.T) {
	s := start(t, nil)
	docs := s.items()
	long := strings.Repeat("x", 1024)
	item := []string{pk, `["a"]`}
	s.do(400, "POST", docs, `{"id":"`+long+`","pk":"a"}`, item...)
	s.do(400, "GET", docs+"/"+long, "", item...)
	s.do(400, "PUT", docs+"/"+long, `{"id":"`+long+`","pk":"a"}`, item...)
	s.do(400, "PATCH", docs+"/"+long, `{"operations":[{"op":"set","path":"/n","value":1}]}`, item...)
	s.do(400, "DELETE", docs+"/"+long, "", item...)
	r := s.do(207, "POST", docs, `[{"operationType":"Read","id":"`+long+`"}]`, append([]string{"x-ms-cosmos-is-batch-request", "true", "x-ms-cosmos-batch-atomic", "true"}, item...)...)
	if !strings.Contains(string(r.body), `"statusCode":400`) {
		t.Errorf("batch: %s", r.body)
	}
}

// TestQueryPlaces: queries that would be evaluated beside too many others wait, and nothing else does.
func TestQueryPlaces(t *testing.T) {
	s := start(t, nil)
	docs := s.items()
	item := []string{pk, `["a"]`}
	query := append([]string{"x-ms-documentdb-isquery", "true", "Content-Type", "application/query+json"}, item...)
	s.do(201, "POST", docs, `{"id":"1","pk":"a"}`, item...)
	places := queryPlaces()
	if err := s.h.queries.Take(t.Context(), places); err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	const text = `{"query":"SELECT VALUE COUNT(1) FROM c"}`
	w := httptest.NewRecorder()
	s.h.ServeHTTP(w, s.signed("POST", docs, []byte(text), query...).WithContext(gone))
	if w.Code != 503 {
		t.Errorf("a client that has gone while its query waits: %d %s", w.Code, w.Body)
	}
	w = httptest.NewRecorder() // a list is a query too: of small containers it has an order
	s.h.ServeHTTP(w, s.signed("GET", docs, nil, item...).WithContext(gone))
	if w.Code != 503 {
		t.Errorf("a client that has gone while its list waits: %d %s", w.Code, w.Body)
	}
	s.do(200, "GET", docs+"/1", "", item...)
	s.do(200, "PUT", docs+"/1", `{"id":"1","pk":"a"}`, item...)
	s.h.queries.Give(places - 1)
	for range 2 { // one place is enough, and each query gives it back
		s.do(200, "POST", docs, text, query...)
	}
	s.do(400, "POST", docs, `{"query":"SELECT"}`, query...)
	s.do(200, "POST", docs, text, query...)
}

// TestLargeAnswers: a batch of reads does not collect more documents than an answer may have: the rest of
// a bulk is not carried out and says so, and a transactional batch fails as a whole.
func TestLargeAnswers(t *testing.T) {
	s := start(t, nil)
	docs := s.items()
	item := []string{pk, `["a"]`}
	const each = 1 << 20
	s.do(201, "POST", docs, `{"id":"1","pk":"a","x":"`+strings.Repeat("x", each)+`"}`, item...)
	answers := func(head []string, op string, n int) (statuses []int) {
		r := s.do(207, "POST", docs, "["+strings.Repeat(op+",", n-1)+op+"]", head...)
		var got []batchResult
		if err := json.Unmarshal(r.body, &got); err != nil || len(got) != n {
			t.Fatalf("%d answers, %v", len(got), err)
		}
		for i := range got {
			if got[i].StatusCode == 413 && got[i].SubStatusCode != subAnswerLarge {
				t.Errorf("operation %d: %+v", i, got[i])
			}
			statuses = append(statuses, got[i].StatusCode)
		}
		return statuses
	}
	want := append(slices.Repeat([]int{200}, answerBytes/each), slices.Repeat([]int{413}, 20-answerBytes/each)...)
	bulk := []string{"x-ms-cosmos-is-batch-request", "true", "x-ms-cosmos-batch-continue-on-error", "true"}
	for _, op := range []string{
		`{"operationType":"Read","id":"1","partitionKey":"[\"a\"]"}`,
		`{"operationType":"Patch","id":"1","partitionKey":"[\"a\"]","resourceBody":{"operations":[{"op":"incr","path":"/n","value":1}]}}`,
	} {
		if got := answers(bulk, op, 20); !slices.Equal(got, want) {
			t.Errorf("bulk of %s: %v", op, got)
		}
	}
	if r := s.do(200, "GET", docs+"/1", "", item...); !bytes.Contains(r.body, []byte(fmt.Sprintf(`"n":%d`, answerBytes/each))) {
		t.Errorf("a patch that was refused was carried out: %s", r.body[each:])
	}
	want = slices.Repeat([]int{424}, 20)
	want[answerBytes/each] = 413
	if got := answers(append([]string{"x-ms-cosmos-is-batch-request", "true", "x-ms-cosmos-batch-atomic", "true"}, item...), `{"operationType":"Read","id":"1"}`, 20); !slices.Equal(got, want) {
		t.Errorf("batch: %v", got)
	}
}

// FuzzKey: a partition key is refused, or means what its text form says.
func FuzzKey(f *testing.F) {
	for _, seed := range []string{`["a"]`, `[]`, `[{}]`, `[null,true,1.5]`, `["\x00\a\U0001F600"]`, `["\ud83d\ude00"]`, `["é",{},false]`, `[undefined]`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		key, given, err := parseKey(text)
		if err != nil {
			if failureOf(err).status != 400 {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		if given != key.Valid() {
			t.Fatalf("%q: given %v, key %v", text, given, key)
		}
		if !given {
			return
		}
		if again, err := engine.ParseKey(key.String()); err != nil || again != key {
			t.Errorf("%q is %v, read again %v: %v", text, key, again, err)
		}
	})
}

// FuzzWritten: a document that a client sends is refused, or stored with the gateway's
// members at its end, which are found again.
func FuzzWritten(f *testing.F) {
	for _, seed := range []string{`{"id":"a"}`, `{}`, ` { "_ts" : 1 , "id":"\u0061" } `, `{"_rid":"x","a":{"_rid":"y"},"ttl":-1}`} {
		f.Add([]byte(seed))
	}
	rid := resourceid.Item(resourceid.Container(1, 2), 3)
	k := &container{rid: resourceid.Container(1, 2), db: &database{}}
	f.Fuzz(func(t *testing.T, doc []byte) {
		w, bad := readDocument(doc)
		if bad != nil {
			return
		}
		stored := w.Stored(rid, s1970)
		if got := document.RIDOf(stored); got != rid {
			t.Fatalf("%q stored as %q has the resource id %q", doc, stored, got)
		}
		shown := k.appendItem(nil, stored, 7, 0)
		again, bad := readDocument(shown)
		if bad != nil {
			t.Fatalf("%q shown as %q: %v", doc, shown, bad)
		}
		if !bytes.Equal(again.Stored(rid, s1970), stored) && utf8.Valid(doc) && !bytes.Contains(doc, []byte(" ")) {
			// Only white space between members may differ.
			if third, bad := readDocument(again.Stored(rid, s1970)); bad != nil || !bytes.Equal(third.Stored(rid, s1970), again.Stored(rid, s1970)) {
				t.Errorf("%q: %q, then %q", doc, stored, again.Stored(rid, s1970))
			}
		}
	})
}

// FuzzHeaders: continuations, etags of change feeds, session tokens and authorizations
// that no answer gave are refused, and never panic.
func FuzzHeaders(f *testing.F) {
	f.Add("1.q.0.abc", `"00-FF@start"`, "type=master&ver=1.0&sig=x", "0:-1#5,1:-1#6")
	f.Add("1.c.7.", `"-FF@now"`, "type%3daad%26ver%3d1.0%26sig%3da.b.c", "x")
	a, err := signature.New(EmulatorKey, s1970Clock)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, next, etag, authorization, session string) {
		if at, ok := recent.ParseToken(next); ok {
			if again, ok := recent.ParseToken(at.String()); !ok || again != at {
				t.Errorf("%q: %+v, then %+v", next, at, again)
			}
		}
		if at, bad := feedtag.Parse(etag); bad == nil {
			if again, bad := feedtag.Parse(at.String()); bad != nil || again.Within != at.Within {
				t.Errorf("%q: %+v, then %+v: %v", etag, at, again, bad)
			}
		}
		r := &http.Request{Method: "GET", Header: http.Header{"Authorization": {authorization}, "X-Ms-Session-Token": {session}}}
		if bad := a.Check(r, "dbs", ""); bad == nil {
			t.Errorf("the authorization %q is taken", authorization)
		}
		if seen, err := sessiontoken.Parse(session); err == nil {
			if again, err := sessiontoken.Parse(sessiontoken.Text(seen)); err != nil || !slices.Equal(again, seen) {
				t.Errorf("%q: %v, then %v: %v", session, seen, again, err)
			}
		}
	})
}

// FuzzQuery: a query is refused, or has a plan or a reason why not; what a plan says to send
// can be read again.
func FuzzQuery(f *testing.F) {
	for _, seed := range []string{"SELECT * FROM c", "SELECT TOP 3 c.a FROM c WHERE c.b = 1 ORDER BY c.a DESC", "SELECT VALUE AVG(c.a) FROM c",
		"SELECT c.g, COUNT(1) AS n FROM c GROUP BY c.g", "SELECT DISTINCT VALUE c.a FROM c OFFSET 1 LIMIT 2", "SELECT 1", strings.Repeat("(", 300)} {
		f.Add(seed)
	}
	fuzzed := &container{rid: "AAAAAAAA", db: &database{}}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := fuzzed.parse(text, nil)
		if err != nil {
			if failureOf(err).status != 400 {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		p, err := queryplan.Of(s.Text, nil)
		if err != nil {
			return
		}
		sent := strings.Replace(cmp.Or(p.Info.RewrittenQuery, text), queryplan.FilterPlaceholder, "true", 1)
		if _, err := engine.ParseQuery(sent, nil); err != nil {
			t.Errorf("%q is rewritten as %q: %v", text, sent, err)
		}
	})
}

func TestItemNumbersSort(t *testing.T) {
	last := ""
	for _, n := range []uint64{0, 1, 2, 63, 64, 4095, 4096, 1 << 32, 1<<54 - 1} {
		rid := resourceid.Item(resourceid.Container(3, 9), n)
		if rid <= last || len(rid) != resourceid.ItemChars {
			t.Errorf("%d: %q after %q", n, rid, last)
		}
		last = rid
	}
	if a, b := resourceid.Container(1, 2), fmt.Sprint(len(resourceid.Container(1, 2))); b != "12" {
		t.Errorf("%s has %s characters, 8 bytes have 12", a, b)
	}
}
