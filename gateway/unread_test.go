package gateway

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// deaf is a client that does not read its answer until it is released.
type deaf struct {
	*httptest.ResponseRecorder
	begun   chan<- bool
	release <-chan bool
}

func (d *deaf) Write(b []byte) (int, error) {
	d.begun <- true
	<-d.release
	return d.ResponseRecorder.Write(b)
}

// TestUnreadAnswers: while clients have left answers unread that take as much memory as they may, other requests are refused
// before they are carried out. What those clients have sent takes no memory meanwhile.
func TestUnreadAnswers(t *testing.T) {
	s := start(t, &Options{MemoryBytes: maxBody})
	docs := s.items()
	text := `{"id":"1","pk":"a","s":"` + strings.Repeat("x", 3<<19) + `"}`
	begun, release := make(chan bool), make(chan bool)
	var clients sync.WaitGroup
	leave := func(r *http.Request) {
		clients.Go(func() {
			w := &deaf{httptest.NewRecorder(), begun, release}
			if s.h.ServeHTTP(w, r); w.Code >= 300 {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
		<-begun
	}
	leave(s.signed("POST", docs, []byte(text), pk, `["a"]`))
	leave(s.signed("GET", docs+"/1", nil, pk, `["a"]`))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	if s.h.ServeHTTP(w, s.sign(ended, "POST", docs, make([]byte, maxBody), pk, `["a"]`)); w.Code != 400 {
		t.Errorf("a body that takes all memory: %d %s", w.Code, w.Body)
	}
	leave(s.signed("GET", docs+"/1", nil, pk, `["a"]`))
	for _, r := range []*http.Request{
		s.signed("GET", docs+"/1", nil, pk, `["a"]`), s.signed("POST", docs, []byte(`{"id":"2","pk":"a"}`), pk, `["a"]`),
	} {
		if got := s.send(r); got.status != 503 || got.head.Get("x-ms-retry-after-ms") == "" {
			t.Errorf("%s: %d", r.Method, got.status)
		}
	}
	close(release)
	clients.Wait()
	s.do(404, "GET", docs+"/2", "", pk, `["a"]`)
	s.do(200, "GET", docs+"/1", "", pk, `["a"]`)
}
