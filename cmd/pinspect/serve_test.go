package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
)

// served is pinspect serve under way.
type served struct {
	url  string
	stop func() (status int, rest string)
}

// serve starts pinspect serve, on a free port, and waits until it says where.
func serve(t *testing.T, args ...string) served {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	r, w := io.Pipe()
	status := make(chan int, 1)
	go func() {
		s := execute(ctx, append([]string{"serve", "--addr", "127.0.0.1:0"}, args...), &environment{stdout: io.Discard, stderr: w})
		w.Close()
		status <- s
	}()
	lines := bufio.NewReader(r)
	line, err := lines.ReadString('\n')
	url := regexp.MustCompile(`http://[0-9.:]+`).FindString(line)
	if err != nil || url == "" {
		t.Fatalf("pinspect serve says %q: %v", line, err)
	}
	return served{url, func() (int, string) {
		cancel()
		rest, err := io.ReadAll(lines)
		check(t, err)
		return <-status, string(rest)
	}}
}

// fetch reads JSON of the page.
func (s served) fetch(t *testing.T, path string, into any) int {
	t.Helper()
	answer, err := http.Get(s.url + path)
	check(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	check(t, err)
	if into != nil {
		if err := json.Unmarshal(text, into); err != nil {
			t.Fatalf("%s: %s, %v: %s", path, answer.Status, err, text)
		}
	}
	return answer.StatusCode
}

// TestServe serves a store at rest, and then beside a writer whose writes it follows.
func TestServe(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	db, err := engine.Open(t.Context(), dir, nil)
	check(t, err)
	c, err := db.CreateContainer(t.Context(), "c", engine.ContainerDef{PartitionKey: []string{"/k"}})
	check(t, err)
	_, err = c.Upsert(t.Context(), []byte(`{"id":"a","k":"k"}`), nil)
	check(t, err)
	check(t, db.Close())
	var v struct {
		State string `json:"state"`
		Can   map[string]bool
		Total struct {
			Documents int64 `json:"documents"`
		} `json:"total"`
	}
	s := serve(t, dir, "--refresh", "0")
	if status := s.fetch(t, "/api/store", &v); status != http.StatusOK || v.State != "read-only" || v.Can["split"] || v.Total.Documents != 1 {
		t.Errorf("at rest: %d, %+v", status, v)
	}
	post, err := http.Post(s.url+"/api/split", "application/json", strings.NewReader(`{"name":"c","partition":1}`))
	check(t, err)
	post.Body.Close()
	if post.StatusCode != http.StatusNotFound {
		t.Errorf("a split: %s", post.Status)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/", nil)
	check(t, err)
	r.Host = "evil.example"
	other, err := http.DefaultClient.Do(r)
	check(t, err)
	other.Body.Close()
	if other.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("another host: %s", other.Status)
	}
	if status, rest := s.stop(); status != cli.ExitOK || rest != "" {
		t.Errorf("status %d when interrupted: %s", status, rest)
	}

	db, err = engine.Open(t.Context(), dir, nil)
	check(t, err)
	defer db.Close()
	c, err = db.Container("c")
	check(t, err)
	s = serve(t, dir, "--refresh", "1ns")
	_, err = c.Upsert(t.Context(), []byte(`{"id":"b","k":"k","found":true}`), nil)
	check(t, err)
	var item struct {
		Text string `json:"text"`
	}
	for s.fetch(t, "/api/item?name=c&key=%22k%22&id=b", &item) == http.StatusNotFound {
		s.fetch(t, "/api/store", nil) // looks for newer states
	}
	if item.Text != `{"id":"b","k":"k","found":true}` {
		t.Errorf("beside a writer: %q", item.Text)
	}
	if status, rest := s.stop(); status != cli.ExitOK || rest != "" {
		t.Errorf("status %d when interrupted: %s", status, rest)
	}
	_, err = c.Upsert(t.Context(), []byte(`{"id":"c","k":"k"}`), nil) // the writer goes on
	check(t, err)
}

// TestServeRefused: what cannot be served says so before anything listens.
func TestServeRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	db, err := engine.Open(t.Context(), dir, nil)
	check(t, err)
	check(t, db.Close())
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer taken.Close()
	for name, x := range map[string]struct {
		args   []string
		status int
		says   string
	}{
		"no store":         {[]string{filepath.Join(t.TempDir(), "none")}, exitCannotOpen, "none"},
		"an empty folder":  {[]string{t.TempDir()}, exitCannotOpen, "not a cleave store"},
		"a taken address":  {[]string{dir, "--addr", taken.Addr().String()}, cli.ExitUsage, taken.Addr().String()},
		"no address":       {[]string{dir, "--addr", "nonsense"}, cli.ExitUsage, "nonsense"},
		"negative refresh": {[]string{dir, "--refresh=-1s"}, cli.ExitUsage, "negative"},
	} {
		r := pinspect(t, append([]string{"serve"}, x.args...)...)
		if r.status != x.status || !strings.Contains(r.stderr, x.says) || strings.Contains(r.stderr, "serving") {
			t.Errorf("%s: status %d: %s", name, r.status, r.stderr)
		}
	}
}
