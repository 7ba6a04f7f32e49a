package control_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/gateway"
	"github.com/cleavestore/cleave/gateway/control"
	"github.com/cleavestore/cleave/gateway/gatewaytest"
)

const (
	pk   = "x-ms-documentdb-partitionkey"
	docs = "dbs/d/colls/c/docs"
)

// start starts a server with a container that has n items, each of a key of its own.
func start(t *testing.T, n int, o *gateway.Options) *gatewaytest.Server {
	t.Helper()
	s := gatewaytest.Start(t, o)
	fill(t, s, n)
	return s
}

func fill(t *testing.T, s *gatewaytest.Server, n int) {
	t.Helper()
	want(t, s, 201, "POST", "dbs", `{"id":"d"}`)
	want(t, s, 201, "POST", "dbs/d/colls", `{"id":"c","partitionKey":{"paths":["/pk"]},"defaultTtl":-1}`)
	for i := range n {
		create(t, s, 201, fmt.Sprint(i), "")
	}
}

func want(t *testing.T, s *gatewaytest.Server, status int, method, path, body string, head ...string) (string, http.Header) {
	t.Helper()
	got, answer, header := s.Do(t, method, path, body, head...)
	if got != status {
		t.Fatalf("%s %s: %d, want %d: %s", method, path, got, status, answer)
	}
	return answer, header
}

func create(t *testing.T, s *gatewaytest.Server, status int, id, more string) (string, http.Header) {
	t.Helper()
	return want(t, s, status, "POST", docs, fmt.Sprintf(`{"id":%q,"pk":%q%s}`, id, id, more), pk, fmt.Sprintf("[%q]", id))
}

func read(t *testing.T, s *gatewaytest.Server, status int, id string, head ...string) (string, http.Header) {
	t.Helper()
	return want(t, s, status, "GET", docs+"/"+id, "", append([]string{pk, fmt.Sprintf("[%q]", id)}, head...)...)
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// TestReshape: a partition is split, the boundary moved, and the children merged, with the
// progress of each.
func TestReshape(t *testing.T) {
	t.Parallel()
	s, ctx := start(t, 60, nil), t.Context()
	c := must[control.Container](t)(s.Control.Container(ctx, "d", "c"))
	if len(c.Partitions) != 1 || c.Partitions[0].Documents != 60 || c.Database != "d" || c.Container != "c" {
		t.Fatalf("%+v", c)
	}
	job := must[control.Job](t)
	split := job(s.Control.Split(ctx, "d", "c", control.Reshape{Partition: c.Partitions[0].ID, Wait: 60_000}))
	if !split.Ended || split.Error != "" || split.Kind != "split" || len(split.Children) != 2 || split.At == "" {
		t.Fatalf("%+v", split)
	}
	left, right := split.Children[0], split.Children[1]
	move := job(s.Control.Move(ctx, "d", "c", control.Reshape{Left: left, Right: right, At: "10"}))
	if move = job(s.Control.Job(ctx, move.ID, time.Minute)); !move.Ended || move.Error != "" || !strings.HasPrefix(move.At, "10") {
		t.Fatalf("%+v", move)
	}
	merge := job(s.Control.Merge(ctx, "d", "c", control.Reshape{Left: move.Children[0], Right: move.Children[1], Wait: 60_000}))
	if !merge.Ended || merge.Error != "" || len(merge.Children) != 1 {
		t.Fatalf("%+v", merge)
	}
	if c = must[control.Container](t)(s.Control.Container(ctx, "d", "c")); len(c.Partitions) != 1 || c.Partitions[0].ID != merge.Children[0] {
		t.Errorf("%+v", c)
	}
	for i := range 60 {
		read(t, s, 200, fmt.Sprint(i))
	}
	// A client meets the change by the table of the protocol: a range that is gone is 410/1002.
	_, head := want(t, s, 410, "GET", docs, "", "A-IM", "Incremental Feed", "x-ms-documentdb-partitionkeyrangeid", left)
	if head.Get("x-ms-substatus") != "1002" {
		t.Errorf("sub-status %q", head.Get("x-ms-substatus"))
	}
	// A logical partition cannot be cut.
	one := job(s.Control.Split(ctx, "d", "c", control.Reshape{Partition: merge.Children[0], At: "00", Wait: 60_000}))
	if !one.Ended || one.ErrorKind != "refused" {
		t.Errorf("%+v", one)
	}
	if err := s.Control.Cancel(ctx, one.ID); err != nil {
		t.Error(err)
	}
}

// TestThroughput: what the control port provisions, an offer shows.
func TestThroughput(t *testing.T) {
	t.Parallel()
	s, ctx := start(t, 0, nil), t.Context()
	c := must[control.Container](t)(s.Control.SetThroughput(ctx, "d", "c", 1000))
	if c.Throughput != 1000 {
		t.Errorf("%+v", c)
	}
	text, _ := want(t, s, 200, "GET", "offers", "")
	if !strings.Contains(text, `"offerThroughput":1000`) {
		t.Error(text)
	}
	create(t, s, 201, "hot", "")
	var keys []control.HotKey
	for len(keys) == 0 { // some of the calls are sampled
		read(t, s, 200, "hot")
		keys = must[[]control.HotKey](t)(s.Control.HotKeys(ctx, "d", "c", 5))
	}
	if keys[0].Key != `"hot"` || keys[0].Load <= 0 {
		t.Errorf("%+v", keys)
	}
}

// TestFaults: each status, and who is met.
func TestFaults(t *testing.T) {
	t.Parallel()
	s := start(t, 3, nil)
	for status, code := range map[int]string{408: "RequestTimeout", 429: "TooManyRequests", 449: "RetryWith", 500: "InternalServerError", 503: "ServiceUnavailable"} {
		f := s.Plant(t, control.Fault{Status: status, RetryAfter: 7, Operations: []string{"read"}, Database: "d", Container: "c", Count: 1})
		read200, _, _ := s.Do(t, "GET", "dbs/d", "") // is no item
		text, head := read(t, s, status, "1")
		if read200 != 200 || !strings.Contains(text, code) || status == 429 && (head.Get("x-ms-retry-after-ms") != "7" || head.Get("x-ms-substatus") != "3200") {
			t.Errorf("%d %s %v", read200, text, head)
		}
		read(t, s, 200, "1") // Count has ended it
		all := must[[]control.Fault](t)(s.Control.Faults(t.Context()))
		if at := slices.IndexFunc(all, func(a control.Fault) bool { return a.ID == f.ID }); at < 0 || !all[at].Ended || all[at].Met != 1 {
			t.Errorf("%+v", all)
		}
	}
	if err := s.Control.RemoveFault(t.Context(), 0); err != nil {
		t.Error(err)
	}
	// 410 meets only who names a partition.
	s.Plant(t, control.Fault{Status: 410, SubStatus: 1007})
	read(t, s, 200, "1")
	_, head := want(t, s, 410, "GET", docs, "", "A-IM", "Incremental Feed", "x-ms-documentdb-partitionkeyrangeid", "0")
	if head.Get("x-ms-substatus") != "1007" {
		t.Errorf("%v", head)
	}
	// A write that was carried out, of which the client does not learn.
	s.Plant(t, control.Fault{Status: 503, After: true, Operations: []string{"create"}, Skip: 1, Count: 1})
	create(t, s, 201, "before", "")
	if _, head := create(t, s, 503, "lost", ""); head.Get("etag") != "" || head.Get("x-ms-session-token") != "" {
		t.Errorf("the answer tells of the outcome: %v", head)
	}
	create(t, s, 409, "lost", "")
	// Without a signature nobody learns of faults.
	s.Plant(t, control.Fault{Status: 500})
	answer, err := http.Get(s.Endpoint + "dbs/d")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != 401 {
		t.Error(answer.Status)
	}
}

// TestFaultsBySeed: one seed meets the same requests each time, another one others.
func TestFaultsBySeed(t *testing.T) {
	t.Parallel()
	s := start(t, 1, nil)
	met := func(seed uint64) (out string) {
		f := s.Plant(t, control.Fault{Status: 503, Share: 0.3, Seed: seed, Operations: []string{"read"}})
		defer s.Host.RemoveFault(f.ID)
		for range 200 {
			status, _, _ := s.Do(t, "GET", docs+"/0", "", pk, `["0"]`)
			out += map[int]string{200: ".", 503: "x"}[status]
		}
		return out
	}
	a, b, other := met(1), met(1), met(2)
	if a != b || a == other {
		t.Errorf("\n%s\n%s\n%s", a, b, other)
	}
	if n := strings.Count(a, "x"); n < 40 || n > 80 {
		t.Errorf("%d of 200 are met, 60 are the share", n)
	}
}

// TestLatency: a latency ends with its request.
func TestLatency(t *testing.T) {
	t.Parallel()
	s := start(t, 1, nil)
	s.Plant(t, control.Fault{Latency: 600_000, Operations: []string{"read"}, Count: 1})
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "GET", s.Endpoint+docs+"/0", http.NoBody)
	if err == nil {
		err = gatewaytest.Sign(r, s.Key)
	}
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(pk, `["0"]`)
	ended := make(chan error, 1)
	go func() {
		_, failed := http.DefaultClient.Do(r) //nolint:bodyclose // there is no answer
		ended <- failed
	}()
	for all := must[[]control.Fault](t)(s.Control.Faults(t.Context())); all[0].Met == 0; {
		all = must[[]control.Fault](t)(s.Control.Faults(t.Context()))
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	// The server lets go of it too: a return waits for requests under way.
	must[control.Taken](t)(s.Control.Checkpoint(t.Context(), "a"))
	must[control.Taken](t)(s.Control.Return(t.Context(), "a"))
}

// TestClock: items expire when the clock is turned, and signatures stay good.
func TestClock(t *testing.T) {
	t.Parallel()
	s, ctx := start(t, 1, nil), t.Context()
	create(t, s, 201, "short", `,"ttl":3600`)
	c := must[control.Clock](t)(s.Control.Advance(ctx, 59*time.Minute))
	if c.Ahead != 59*60_000 {
		t.Errorf("%+v", c)
	}
	read(t, s, 200, "short")
	must[control.Clock](t)(s.Control.Advance(ctx, 2*time.Minute))
	read(t, s, 404, "short")
	text, _ := read(t, s, 200, "0")
	var was, is struct {
		TS int64 `json:"_ts"`
	}
	text2, _ := create(t, s, 201, "late", "")
	if err := errors.Join(json.Unmarshal([]byte(text), &was), json.Unmarshal([]byte(text2), &is)); err != nil || is.TS-was.TS < 3600 {
		t.Errorf("_ts %d and %d: %v", was.TS, is.TS, err)
	}
	for _, bad := range []time.Duration{-1, 200 * 365 * 24 * time.Hour} {
		if _, err := s.Control.Advance(ctx, bad); kindOf(err) != "invalid" {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

func kindOf(err error) string {
	var e *control.Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return fmt.Sprint(err)
}

// onDisk starts a server with its store in a directory.
func onDisk(t *testing.T, dir string) *gatewaytest.Server {
	t.Helper()
	h, err := control.Open(t.Context(), dir, &control.Options{Engine: engine.Options{MemoryBudget: 32 << 20, Durability: engine.Buffered}})
	if err != nil {
		t.Fatal(err)
	}
	served, page := httptest.NewServer(h), httptest.NewServer(h.Control())
	t.Cleanup(func() {
		served.Close()
		page.Close()
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return &gatewaytest.Server{Endpoint: served.URL + "/", Key: gateway.EmulatorKey, Control: &control.Client{URL: page.URL}, Host: h}
}

// TestReturn: a return brings back items, containers and partitions as they were, while clients
// go on: none of their calls fails. Sequences of sessions do not fall.
func TestReturn(t *testing.T) {
	for name, start := range map[string]func(*testing.T) *gatewaytest.Server{
		"memory": func(t *testing.T) *gatewaytest.Server { return gatewaytest.Start(t, nil) },
		"disk":   func(t *testing.T) *gatewaytest.Server { return onDisk(t, filepath.Join(t.TempDir(), "db")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, ctx := start(t), t.Context()
			fill(t, s, 30)
			must[control.Taken](t)(s.Control.Checkpoint(ctx, "a"))
			if _, err := s.Control.Checkpoint(ctx, "a"); kindOf(err) != "exists" {
				t.Errorf("again: %v", err)
			}
			var stop atomic.Bool
			var work sync.WaitGroup
			var calls atomic.Int64
			for w := range 3 {
				work.Go(func() {
					for i := 0; !stop.Load(); i++ {
						id := fmt.Sprint((w + i) % 30)
						if status, text, _ := s.Do(t, "GET", docs+"/"+id, "", pk, fmt.Sprintf("[%q]", id)); status != 200 {
							t.Errorf("read while the store returns: %d %s", status, text)
						}
						calls.Add(1)
					}
				})
			}
			for round := range 5 {
				_, head := create(t, s, 201, "new", "")
				want(t, s, 204, "DELETE", docs+"/new", "", pk, `["new"]`)
				create(t, s, 201, "kept", "")
				want(t, s, 201, "POST", "dbs/d/colls", `{"id":"other","partitionKey":{"paths":["/pk"]}}`)
				c := must[control.Container](t)(s.Control.Container(ctx, "d", "c"))
				split := must[control.Job](t)(s.Control.Split(ctx, "d", "c", control.Reshape{Partition: c.Partitions[0].ID, Wait: 60_000}))
				if split.Error != "" {
					t.Fatalf("%+v", split)
				}
				taken := must[control.Taken](t)(s.Control.Return(ctx, "a"))
				t.Logf("return %d: %.1f ms", round, taken.Millis)
				read(t, s, 404, "kept")
				want(t, s, 404, "GET", "dbs/d/colls/other", "")
				// Who has seen what is gone is not turned away.
				read(t, s, 200, "7", "x-ms-session-token", head.Get("x-ms-session-token"))
				if c = must[control.Container](t)(s.Control.Container(ctx, "d", "c")); len(c.Partitions) != 1 || c.Partitions[0].Documents != 30 {
					t.Fatalf("%+v", c)
				}
			}
			stop.Store(true)
			work.Wait()
			t.Logf("%d calls meanwhile", calls.Load())
			if all := must[[]control.Checkpoint](t)(s.Control.Checkpoints(ctx)); len(all) != 1 || all[0].Name != "a" {
				t.Errorf("%+v", all)
			}
			if err := s.Control.RemoveCheckpoint(ctx, "a"); err != nil {
				t.Error(err)
			}
			if _, err := s.Control.Return(ctx, "a"); kindOf(err) != "not_found" {
				t.Errorf("after it was removed: %v", err)
			}
			read(t, s, 200, "7")
		})
	}
}

// TestReturnCut: whatever a crash leaves of a return, the directory has one of the two stores,
// as a whole.
func TestReturnCut(t *testing.T) {
	made := filepath.Join(t.TempDir(), "db")
	t.Run("make", func(t *testing.T) {
		s := onDisk(t, made)
		fill(t, s, 3)
		must[control.Taken](t)(s.Control.Checkpoint(t.Context(), "a"))
		create(t, s, 201, "since", "")
	})
	// The states between the renames of a return: what is where.
	for name, state := range map[string]struct {
		dir, next, former string // of the store, "new" or "old"; "": nothing, or a part of one
		want              int    // status of a read of what was written since the checkpoint
	}{
		"before":        {dir: "new", next: "part", want: 200},
		"made":          {dir: "new", next: "old", want: 200},
		"between":       {next: "old", former: "new", want: 404},
		"after":         {dir: "old", former: "new", want: 404},
		"being removed": {dir: "old", former: "part", want: 404},
		"being undone":  {former: "new", want: 200},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "db")
			place := func(what, at string) {
				var err error
				switch what {
				case "new":
					err = os.CopyFS(at, os.DirFS(made))
				case "old":
					err = os.CopyFS(at, os.DirFS(made+"-checkpoints/a"))
				case "part":
					err = errors.Join(os.MkdirAll(at, 0o700), os.WriteFile(filepath.Join(at, "x"), nil, 0o600))
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			place(state.dir, dir)
			place(state.next, dir+"-checkpoints/.next")
			place(state.former, dir+"-checkpoints/.former")
			place("old", dir+"-checkpoints/a")
			s := onDisk(t, dir)
			read(t, s, 200, "2")
			read(t, s, state.want, "since")
			must[control.Taken](t)(s.Control.Return(t.Context(), "a"))
			read(t, s, 404, "since")
		})
	}
}

// TestReturnToNothing: what a crash has left of a checkpoint that was being made or removed is no checkpoint, and can be removed.
func TestReturnToNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	s := onDisk(t, dir)
	fill(t, s, 3)
	for _, name := range []string{"begun", "removed"} {
		at := filepath.Join(dir+"-checkpoints", name)
		if err := os.MkdirAll(at, 0o700); err != nil {
			t.Fatal(err)
		}
		if name == "removed" {
			if err := os.Mkdir(filepath.Join(at, "wal"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if all := must[[]control.Checkpoint](t)(s.Control.Checkpoints(t.Context())); len(all) > 0 {
			t.Errorf("checkpoints: %v", all)
		}
		if _, err := s.Control.Return(t.Context(), name); err == nil {
			t.Errorf("%s: a return is not refused", name)
		}
		read(t, s, 200, "2")
		if err := s.Control.RemoveCheckpoint(t.Context(), name); err != nil {
			t.Error(err)
		}
		must[control.Taken](t)(s.Control.Checkpoint(t.Context(), name))
		if err := s.Control.RemoveCheckpoint(t.Context(), name); err != nil {
			t.Error(err)
		}
	}
}

// TestReturnFails: a return that cannot be carried out leaves the store as it was.
func TestReturnFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	s := onDisk(t, dir)
	fill(t, s, 3)
	must[control.Taken](t)(s.Control.Checkpoint(t.Context(), "a"))
	create(t, s, 201, "since", "")
	names, err := filepath.Glob(dir + "-checkpoints/a/*")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		if info, failed := os.Stat(name); failed == nil && info.Mode().IsRegular() {
			if err = os.WriteFile(name, []byte("damaged"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err = s.Control.Return(t.Context(), "a"); err == nil {
		t.Error("a damaged checkpoint is returned to")
	}
	read(t, s, 200, "since")
	create(t, s, 201, "later", "")
}

// TestGuards: requests that pages elsewhere make are refused, and those without the key.
func TestGuards(t *testing.T) {
	t.Parallel()
	h, err := control.Open(t.Context(), "", &control.Options{Engine: engine.Options{MemoryBudget: 32 << 20}, Key: "secret", Hosts: []string{"localhost:8091"}})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	c := h.Control()
	const bearer = "Bearer secret"
	for name, test := range map[string]struct {
		method, path, body string
		head               []string
		want               int
	}{
		"read":               {"GET", "/control/clock", "", []string{"Authorization", bearer}, 200},
		"page":               {"GET", "/", "", []string{"Authorization", bearer}, 200},
		"password":           {"GET", "/", "", []string{"Authorization", "Basic eDpzZWNyZXQ="}, 200},
		"no key":             {"GET", "/control/clock", "", nil, 401},
		"page without a key": {"GET", "/", "", nil, 401},
		"wrong key":          {"GET", "/control/clock", "", []string{"Authorization", "Bearer secre"}, 401},
		"other host":         {"GET", "/control/clock", "", []string{"Authorization", bearer, "Host", "evil.example"}, 421},
		"page elsewhere":     {"GET", "/control/clock", "", []string{"Authorization", bearer, "Sec-Fetch-Site", "cross-site"}, 403},
		"change":             {"POST", "/control/clock", `{"advance_ms":1}`, []string{"Authorization", bearer, "Content-Type", "application/json"}, 200},
		"form":               {"POST", "/control/clock", `{"advance_ms":1}`, []string{"Authorization", bearer, "Content-Type", "text/plain"}, 415},
		"no type":            {"DELETE", "/control/faults", "", []string{"Authorization", bearer}, 415},
		"other origin":       {"POST", "/control/clock", `{}`, []string{"Authorization", bearer, "Content-Type", "application/json", "Origin", "https://evil.example"}, 403},
		"same site":          {"DELETE", "/control/faults", "", []string{"Authorization", bearer, "Content-Type", "application/json", "Sec-Fetch-Site", "same-site"}, 403},
		"method":             {"PATCH", "/control/clock", "", []string{"Authorization", bearer}, 404},
		"nothing":            {"GET", "/control/none", "", []string{"Authorization", bearer}, 404},
		"member":             {"POST", "/control/clock", `{"back":1}`, []string{"Authorization", bearer, "Content-Type", "application/json"}, 400},
		"long":               {"POST", "/control/clock", `{"advance_ms":1` + strings.Repeat(" ", 2<<20) + `}`, []string{"Authorization", bearer, "Content-Type", "application/json"}, 400},
		"container":          {"GET", "/control/containers/x/y", "", []string{"Authorization", bearer}, 404},
		"job":                {"GET", "/control/jobs/x", "", []string{"Authorization", bearer}, 400},
		"no job":             {"GET", "/control/jobs/9", "", []string{"Authorization", bearer}, 404},
		"no fault":           {"DELETE", "/control/faults/9", "", []string{"Authorization", bearer, "Content-Type", "application/json"}, 404},
		"status":             {"POST", "/control/faults", `{"status":418}`, []string{"Authorization", bearer, "Content-Type", "application/json"}, 400},
		"empty fault":        {"POST", "/control/faults", `{}`, []string{"Authorization", bearer, "Content-Type", "application/json"}, 400},
		"share":              {"POST", "/control/faults", `{"status":503,"share":1.5}`, []string{"Authorization", bearer, "Content-Type", "application/json"}, 400},
		"operation":          {"POST", "/control/faults", `{"status":503,"operations":["dance"]}`, []string{"Authorization", bearer, "Content-Type", "application/json"}, 400},
		"no database":        {"POST", "/control/faults", `{"status":503,"container":"c"}`, []string{"Authorization", bearer, "Content-Type", "application/json"}, 400},
		"name":               {"POST", "/control/checkpoints", `{"name":"../x"}`, []string{"Authorization", bearer, "Content-Type", "application/json"}, 400},
		"hidden name":        {"POST", "/control/checkpoints", `{"name":".next"}`, []string{"Authorization", bearer, "Content-Type", "application/json"}, 400},
		"escaped name":       {"DELETE", "/control/checkpoints/..%2f..", "", []string{"Authorization", bearer, "Content-Type", "application/json"}, 400},
		"no checkpoint":      {"POST", "/control/checkpoints/none/return", "", []string{"Authorization", bearer, "Content-Type", "application/json"}, 404},
	} {
		r := httptest.NewRequestWithContext(t.Context(), test.method, test.path, strings.NewReader(test.body))
		r.Host = "localhost:8091"
		for i := 0; i < len(test.head); i += 2 {
			if r.Header.Set(test.head[i], test.head[i+1]); test.head[i] == "Host" {
				r.Host = test.head[i+1]
			}
		}
		w := httptest.NewRecorder()
		c.ServeHTTP(w, r)
		var f struct{ Kind, Error string }
		if w.Code != test.want {
			t.Errorf("%s: %d, want %d: %s", name, w.Code, test.want, w.Body)
		} else if w.Code >= 400 && (json.Unmarshal(w.Body.Bytes(), &f) != nil || f.Kind == "" || f.Error == "") {
			t.Errorf("%s: %s", name, w.Body)
		}
		if got := w.Header().Get("Cache-Control"); got != "no-store" {
			t.Errorf("%s: Cache-Control %q", name, got)
		}
	}
}
