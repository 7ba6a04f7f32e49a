package gateway

import (
	"context"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/cleavestore/cleave/engine"
)

// sessionsOf is a store whose sessions do not begin if err is set.
type sessionsOf struct {
	local
	err error
}

func (s *sessionsOf) Begin(ctx context.Context, _, _ string) (context.Context, error) {
	return ctx, s.err
}
func (s *sessionsOf) Token(context.Context) string { return "" }

// TestSessionDoesNotBegin: why the store begins no session is the answer. It is the client's token only where the store
// says so.
func TestSessionDoesNotBegin(t *testing.T) {
	s := start(t, nil)
	docs := s.items()
	store := &sessionsOf{local: local{s.db}}
	h, err := Over(t.Context(), store, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		err    error
		status int
		retry  string
	}{
		{nil, 404, ""},
		{fmt.Errorf("%w: token", engine.ErrInvalid), 400, ""},
		{&Fault{Status: 503, RetryAfter: 1500 * time.Millisecond, Message: "superseded"}, 503, "1500"},
		{context.DeadlineExceeded, 408, ""},
	} {
		store.err = c.err
		w := httptest.NewRecorder()
		h.ServeHTTP(w, s.signed("GET", docs+"/none", nil, pk, `["a"]`))
		if w.Code != c.status || w.Header().Get("x-ms-retry-after-ms") != c.retry {
			t.Errorf("%v: %d, retry after %q: %s, want %d and %q", c.err, w.Code, w.Header().Get("x-ms-retry-after-ms"), w.Body, c.status, c.retry)
		}
	}
}
