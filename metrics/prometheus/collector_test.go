package cleaveprom_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/metrics"
	cleaveprom "github.com/cleavestore/cleave/metrics/prometheus"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// TestScrape scrapes a store in use over HTTP, and lints what comes.
func TestScrape(t *testing.T) {
	ctx := context.Background()
	db, err := engine.Open(ctx, t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	c, err := db.CreateContainer(ctx, "notes", engine.ContainerDef{
		PartitionKey: []string{"/k"}, Throughput: 1e9, Limits: engine.ContainerLimits{PartitionThroughput: 1e9}, // no call is throttled
	})
	if err != nil {
		t.Fatal(err)
	}
	const writes = 7
	for i := range writes {
		if _, err := c.Upsert(ctx, fmt.Appendf(nil, `{"id":"%d","k":"a"}`, i), nil); err != nil {
			t.Fatal(err)
		}
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(cleaveprom.NewCollector(db, prometheus.Labels{"store": "test"}))
	problems, err := testutil.GatherAndLint(registry)
	if err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	defer server.Close()
	resp, err := http.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d, %v: %s", resp.StatusCode, err, text)
	}
	for _, line := range []string{
		`cleave_writes_total{store="test"} 7`,
		`cleave_failed{store="test"} 0`,
		`cleave_container_documents{container="notes",store="test"} 7`,
		`cleave_partition_throughput{container="notes",partition="1",store="test"} 1e+09`,
		`cleave_call_duration_seconds_count{call="write",store="test"} 7`,
		`cleave_call_duration_seconds_bucket{call="write",store="test",le="+Inf"} 7`,
		`cleave_log_sync_duration_seconds_bucket{store="test",le="1.024e-06"}`,
	} {
		if !strings.Contains(string(text), "\n"+line) {
			t.Errorf("the scrape has no line %s", line)
		}
	}
	// Every metric of the snapshot is in the scrape, with its help.
	for _, m := range db.Metrics().Metrics {
		if !strings.Contains(string(text), "# HELP "+m.Name+" "+m.Help+"\n") {
			t.Errorf("%s is not in the scrape", m.Name)
		}
	}
}

// TestClosed: scrapes of a closed store give nothing, and no error.
func TestClosed(t *testing.T) {
	db, err := engine.Open(t.Context(), t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(cleaveprom.NewCollector(db, nil))
	if families, err := registry.Gather(); err != nil || len(families) == 0 {
		t.Errorf("an open store: %d, %v", len(families), err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if families, err := registry.Gather(); err != nil || len(families) != 0 {
		t.Errorf("a closed store: %d, %v", len(families), err)
	}
}

// TestRules: every metric that an alert names is in the catalogue.
func TestRules(t *testing.T) {
	text, err := os.ReadFile("alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range regexp.MustCompile(`cleave_[a-z_]+`).FindAllString(string(text), -1) {
		found++
		d := metrics.Find(name)
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if base, ok := strings.CutSuffix(name, suffix); ok && d == nil {
				if d = metrics.Find(base); d != nil && d.Kind != metrics.Distribution {
					d = nil
				}
			}
		}
		if d == nil {
			t.Errorf("alerts.yaml: there is no metric %s", name)
		}
	}
	if found < 10 {
		t.Errorf("%d metrics in alerts.yaml", found)
	}
}

// A server that Prometheus scrapes.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "cleave")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := engine.Open(ctx, dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	registry := prometheus.NewRegistry()
	registry.MustRegister(cleaveprom.NewCollector(db, nil))
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))

	// In place of Prometheus:
	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(answer.Body.String()) {
		if strings.HasPrefix(line, "cleave_failed ") {
			fmt.Print(line)
		}
	}
	// Output: cleave_failed 0
}
