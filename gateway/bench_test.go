package gateway

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/cleavestore/cleave/engine"
)

// BenchmarkRead is a point read over a kept connection, beside a handler that answers with
// as many bytes and headers and does nothing else.
func BenchmarkRead(b *testing.B) {
	db, err := engine.Open(b.Context(), b.TempDir(), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	h, err := New(b.Context(), db, nil)
	if err != nil {
		b.Fatal(err)
	}
	t := &testing.T{}
	s := &server{t: t, db: db, h: h, s: httptest.NewServer(h)}
	defer s.s.Close()
	send := func(r *http.Request) (*http.Response, []byte) {
		answer, err := s.s.Client().Do(r)
		if err != nil {
			b.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			b.Fatal(err)
		}
		return answer, body
	}
	request := func(method, path, body string, head ...string) *http.Request {
		return s.sign(b.Context(), method, path, []byte(body), head...)
	}
	key := []string{pk, `["a"]`}
	send(request("POST", "/dbs", `{"id":"d"}`))
	send(request("POST", "/dbs/d/colls", `{"id":"c","partitionKey":{"paths":["/pk"]}}`))
	send(request("POST", "/dbs/d/colls/c/docs", `{"id":"1","pk":"a","pad":"`+string(make64(800))+`"}`, key...))
	read := request("GET", "/dbs/d/colls/c/docs/1", "", key...)
	answer, body := send(read)
	if answer.StatusCode != http.StatusOK {
		b.Fatalf("%d %s", answer.StatusCode, body)
	}
	bare := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for name, values := range answer.Header {
			w.Header()[name] = values
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.Write(body) //nolint:errcheck // a benchmark
	}))
	defer bare.Close()
	for name, url := range map[string]string{"gateway": s.s.URL, "bare": bare.URL} {
		b.Run(name, func(b *testing.B) {
			r := read.Clone(b.Context())
			host := httptest.NewRequest("GET", url, nil)
			r.URL.Host, r.Host = host.URL.Host, host.URL.Host
			for b.Loop() {
				if answer, _ := send(r); answer.StatusCode != http.StatusOK {
					b.Fatal(answer.Status)
				}
			}
		})
	}
}

func make64(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = 'x'
	}
	return b
}
