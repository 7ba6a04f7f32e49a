package gateway

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cleavestore/cleave/gateway/internal/script"
)

// slowReader is a client that reads: read is called before it has the body of the answer.
type slowReader struct {
	*httptest.ResponseRecorder
	read func()
}

func (s *slowReader) Write(b []byte) (int, error) {
	s.read()
	return s.ResponseRecorder.Write(b)
}

// TestPlacesOfScripts: an answer that is under way to its client holds no place of scripts.
func TestPlacesOfScripts(t *testing.T) {
	s := start(t, nil)
	docs := s.items()
	s.do(201, "POST", docs, `{"id":"1","pk":"a"}`, pk, `["a"]`)
	s.define(coll+"/udfs", "same", "function (x) { return x }", "")
	s.define(coll+"/udfs", "fails", "function () { throw new Error('no') }", "")
	s.define(coll+"/sprocs", "gives", "function () { __.response.setBody(1) }", "")
	s.define(coll+"/sprocs", "fails", "function () { throw new Error('no') }", "")
	s.define(coll+"/triggers", "t", "function () { }", `,"triggerType":"Pre","triggerOperation":"All"`)
	query := []string{pk, `["a"]`, "x-ms-documentdb-query", "True", "Content-Type", "application/query+json"}
	const same = `{"query":"SELECT VALUE udf.same(c.id) FROM c WHERE udf.same(1) = 1"}`
	for _, c := range []struct {
		status int
		r      *http.Request
	}{
		{200, s.signed("POST", coll+"/sprocs/gives", nil, pk, `["a"]`)},
		{400, s.signed("POST", coll+"/sprocs/fails", nil, pk, `["a"]`)},
		{200, s.signed("POST", docs, []byte(same), query...)},
		{400, s.signed("POST", docs, []byte(`{"query":"SELECT VALUE udf.fails() FROM c"}`), query...)},
		{200, s.signed("POST", docs, []byte(same), append(query, "x-ms-cosmos-is-query-plan-request", "True")...)},
		{201, s.signed("POST", docs, []byte(`{"id":"2","pk":"a"}`), pk, `["a"]`, "x-ms-documentdb-pre-trigger-include", "t")},
	} {
		s.h.scripts = script.NewPool(1, script.DefaultLimits)
		read := 0
		w := &slowReader{httptest.NewRecorder(), func() {
			read++
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			session, err := s.h.scripts.Begin(ctx)
			if err != nil {
				t.Errorf("%s %s: no place: %v", c.r.Method, c.r.URL.Path, err)
				return
			}
			session.End()
		}}
		s.h.ServeHTTP(w, c.r)
		if w.Code != c.status || read != 1 {
			t.Errorf("%s %s: %d %s, read %d times", c.r.Method, c.r.URL.Path, w.Code, w.Body, read)
		}
	}
}

// TestFunctionsHoldNoQueries: a query that waits for a process of scripts keeps no other query waiting.
func TestFunctionsHoldNoQueries(t *testing.T) {
	s := start(t, nil)
	docs := s.items()
	s.do(201, "POST", docs, `{"id":"1","pk":"a"}`, pk, `["a"]`)
	s.define(coll+"/udfs", "same", "function (x) { return x }", "")
	s.h.scripts = script.NewPool(1, script.DefaultLimits)
	session, err := s.h.scripts.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err = s.h.queries.Take(t.Context(), queryPlaces()-1); err != nil {
		t.Fatal(err)
	}
	ask := func(ctx context.Context, text string) *httptest.ResponseRecorder {
		r := s.signed("POST", docs, []byte(`{"query":"`+text+`"}`), pk, `["a"]`, "x-ms-documentdb-query", "True", "Content-Type", "application/query+json")
		w := httptest.NewRecorder()
		s.h.ServeHTTP(w, r.WithContext(ctx))
		return w
	}
	waits, answered := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(answered)
		var once sync.Once
		ctx := hooked{t.Context(), func() {
			if strings.Contains(callers(), "(*Pool).Begin(") {
				once.Do(func() { close(waits) })
			}
		}}
		if w := ask(ctx, "SELECT VALUE udf.same(c.id) FROM c"); w.Code != 200 {
			t.Errorf("with a function: %d %s", w.Code, w.Body)
		}
	}()
	<-waits
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if w := ask(ctx, "SELECT VALUE c.id FROM c"); w.Code != 200 {
		t.Errorf("beside it: %d %s", w.Code, w.Body)
	}
	session.End()
	<-answered
	s.h.queries.Give(queryPlaces() - 1)
}
