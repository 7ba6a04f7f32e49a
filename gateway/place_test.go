package gateway

import (
	"context"
	"net/http"
	"net/http/httptest"
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
