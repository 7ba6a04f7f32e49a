package cleaveprom_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cleavestore/cleave/engine"
	cleaveprom "github.com/cleavestore/cleave/metrics/prometheus"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// busy does what a store can do until ctx ends: all kinds of calls, also some that are
// throttled, a feed that is behind, a snapshot that is held, splits, a copy.
func busy(ctx context.Context, t *testing.T, db *engine.DB) {
	must := func(err error) {
		if err != nil && ctx.Err() == nil && !errors.Is(err, engine.ErrThrottled) {
			t.Error(err)
		}
	}
	def := engine.ContainerDef{PartitionKey: []string{"/k"}, Index: engine.IndexPolicy{Include: []string{"/n/?"}}}
	notes, err := db.EnsureContainer(ctx, "notes", def)
	must(err)
	def.Throughput, def.NoBurst = 400, true
	narrow, err := db.EnsureContainer(ctx, "narrow", def)
	must(err)
	snapshot, err := notes.Snapshot(ctx)
	must(err)
	defer snapshot.Close()
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() {
		for _, err := range notes.Changes(ctx, engine.AllPartitions(), engine.FromStart(), &engine.ChangeOptions{Follow: true}) {
			if err != nil {
				must(err)
				return
			}
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
	copied := false
	for i := 0; ctx.Err() == nil; i++ {
		k := fmt.Sprint("k", i%50)
		key := engine.StringKey(k)
		doc := fmt.Appendf(nil, `{"id":"%d","k":%q,"n":%d,"text":%q}`, i%2000, k, i, strings.Repeat("x", 200))
		_, err := notes.Upsert(ctx, doc, nil)
		must(err)
		_, err = narrow.Upsert(ctx, doc, nil)
		must(err)
		if _, err = notes.Read(ctx, key, fmt.Sprint(i%2000)); !errors.Is(err, engine.ErrNotFound) {
			must(err)
		}
		if i%10 == 0 {
			for _, err := range notes.Scan(ctx, key, engine.IDRange{}, &engine.ScanOptions{Limit: 10}) {
				must(err)
			}
			for _, err := range notes.Query(ctx, engine.AllPartitions(), engine.Query{Where: engine.Eq("/n", i), Limit: 1}).All() {
				must(err)
			}
			must(notes.Update(ctx, key, func(tx *engine.Tx) error { return tx.Upsert(doc, nil) }))
			b := notes.NewBatch(key)
			must(b.Upsert(doc, nil))
			_, err := notes.Commit(ctx, b)
			must(err)
		}
		switch i % 1000 {
		case 300:
			must(db.Flush(ctx))
		case 500:
			must(db.Compact(ctx))
		case 700:
			if parts := notes.Partitions(); len(parts) < 4 {
				job, err := notes.Split(ctx, parts[0].ID, nil)
				must(err)
				must(job.Wait(ctx))
			}
		case 900:
			if !copied {
				copied = true
				_, err := notes.CopyTo(ctx, "copy", engine.ContainerDef{PartitionKey: []string{"/n"}})
				must(err)
			}
		}
	}
}

// TestWithPrometheus lets a real Prometheus scrape a store in use. Every expression of the
// dashboard must give something, and every alert rule must be evaluated without an error.
// It is skipped where there is no Prometheus.
func TestWithPrometheus(t *testing.T) {
	binary, err := exec.LookPath("prometheus")
	if err != nil || testing.Short() {
		t.Skip("there is no Prometheus, or -short is set: ", err)
	}
	db, err := engine.Open(t.Context(), t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { busy(ctx, t, db) })
	defer running.Wait()
	defer cancel()

	registry := prometheus.NewRegistry()
	registry.MustRegister(cleaveprom.NewCollector(db, nil))
	target := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	defer target.Close()
	api := startPrometheus(t, binary, strings.TrimPrefix(target.URL, "http://"))

	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	text, err := os.ReadFile("../grafana/cleave.json")
	if err == nil {
		err = json.Unmarshal(text, &board)
	}
	if err != nil {
		t.Fatal(err)
	}
	waiting := make(map[string]string) // title by expression
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			expr := strings.NewReplacer("$__rate_interval", "10s", "$job", ".*").Replace(target.Expr)
			if !strings.Contains(expr, "cleave_index_files_left") { // only during an index job
				waiting[expr] = p.Title
			}
		}
	}
	all := len(waiting)
	for end := time.Now().Add(time.Minute); len(waiting) > 0 && time.Now().Before(end); time.Sleep(500 * time.Millisecond) {
		for expr := range waiting {
			var answer struct {
				Data struct{ Result []json.RawMessage }
			}
			if get(t, api+"/api/v1/query?query="+url.QueryEscape(expr), &answer); len(answer.Data.Result) > 0 {
				delete(waiting, expr)
			}
		}
	}
	for expr, title := range waiting {
		t.Errorf("panel %q shows nothing: %s", title, expr)
	}
	t.Logf("%d expressions of %d gave something", all-len(waiting), all)

	var rules struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		get(t, api+"/api/v1/rules", &rules)
		unknown := len(rules.Data.Groups) == 0
		for _, group := range rules.Data.Groups {
			for _, rule := range group.Rules {
				unknown = unknown || rule.Health == "unknown"
			}
		}
		if !unknown {
			break
		}
	}
	checked := 0
	for _, group := range rules.Data.Groups {
		for _, rule := range group.Rules {
			if checked++; rule.Health != "ok" {
				t.Errorf("alert %s: %s %s", rule.Name, rule.Health, rule.LastError)
			}
		}
	}
	if checked < 10 {
		t.Errorf("%d alert rules", checked)
	}
}

// startPrometheus starts a Prometheus that scrapes target every second, and returns its
// address.
func startPrometheus(t *testing.T, binary, target string) string {
	t.Helper()
	dir := t.TempDir()
	rules, err := filepath.Abs("alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf(`
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [%q]
scrape_configs:
  - job_name: cleave
    static_configs: [{targets: [%q]}]
`, rules, target)
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(output.String())
		}
	})
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		answer, err := http.Get("http://" + address + "/-/ready")
		if err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return "http://" + address
			}
		}
		if time.Now().After(end) {
			t.Fatalf("Prometheus does not start: %v", err)
		}
	}
}

// get decodes a JSON answer.
func get(t *testing.T, url string, answer any) {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(answer); err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", url, response.Status, err)
	}
}
