package cleaveotel_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"testing"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/metrics"
	cleaveotel "github.com/cleavestore/cleave/metrics/otel"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

const writes = 7

// openStore returns a store with a few writes.
func openStore(t *testing.T) *engine.DB {
	ctx := context.Background()
	db, err := engine.Open(ctx, t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	c, err := db.CreateContainer(ctx, "notes", engine.ContainerDef{PartitionKey: []string{"/k"}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range writes {
		if _, err := c.Upsert(ctx, fmt.Appendf(nil, `{"id":"%d","k":"a"}`, i), nil); err != nil {
			t.Fatal(err)
		}
	}
	return db
}

// collect returns what a reader collects, by name.
func collect(t *testing.T, reader *sdkmetric.ManualReader) map[string]metricdata.Metrics {
	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil {
		t.Fatal(err)
	}
	byName := make(map[string]metricdata.Metrics)
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			byName[m.Name] = m
		}
	}
	return byName
}

// TestProducer: all metrics come, with their units, and histograms add up.
func TestProducer(t *testing.T) {
	db := openStore(t)
	reader := sdkmetric.NewManualReader(sdkmetric.WithProducer(cleaveotel.NewProducer(db)))
	sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	got := collect(t, reader)
	for _, m := range db.Metrics().Metrics {
		o, ok := got[cleaveotel.Name(m.Desc)]
		if !ok || o.Unit != cleaveotel.Unit(m.Desc) || o.Description != m.Help {
			t.Errorf("%s: %+v", m.Name, o)
		}
	}
	sum, ok := got["cleave.writes"].Data.(metricdata.Sum[float64])
	if !ok || !sum.IsMonotonic || len(sum.DataPoints) != 1 || sum.DataPoints[0].Value != writes || sum.DataPoints[0].StartTime.IsZero() {
		t.Errorf("writes: %+v", got["cleave.writes"])
	}
	calls, ok := got["cleave.call_duration"].Data.(metricdata.Histogram[float64])
	if !ok || len(calls.DataPoints) != 6 {
		t.Fatalf("calls: %+v", got["cleave.call_duration"])
	}
	for _, p := range calls.DataPoints {
		kind, _ := p.Attributes.Value("cleave.call")
		total := uint64(0)
		for _, n := range p.BucketCounts {
			total += n
		}
		if total != p.Count || len(p.BucketCounts) != len(p.Bounds)+1 {
			t.Errorf("%s: %d in the buckets, count %d", kind.AsString(), total, p.Count)
		}
		if most, _ := p.Max.Value(); kind.AsString() == "write" && (p.Count != writes || p.Sum <= 0 || most <= 0) {
			t.Errorf("writes: %+v", p)
		}
	}
}

// TestRegister reads the instruments with the SDK's reader, until they are unregistered.
func TestRegister(t *testing.T) {
	db := openStore(t)
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	registration, err := cleaveotel.Register(provider.Meter("test"), db)
	if err != nil {
		t.Fatal(err)
	}
	got := collect(t, reader)
	for _, m := range db.Metrics().Metrics {
		name := cleaveotel.Name(m.Desc)
		if m.Kind == metrics.Distribution {
			name += ".count"
		}
		if _, ok := got[name]; !ok {
			t.Errorf("there is no %s", name)
		}
	}
	sum, ok := got["cleave.writes"].Data.(metricdata.Sum[float64])
	if !ok || !sum.IsMonotonic || sum.DataPoints[0].Value != writes {
		t.Errorf("writes: %+v", got["cleave.writes"])
	}
	quantiles, ok := got["cleave.call_duration.quantile"].Data.(metricdata.Gauge[float64])
	if !ok || len(quantiles.DataPoints) != 6*5 {
		t.Errorf("quantiles: %+v", got["cleave.call_duration.quantile"])
	}
	if err := registration.Unregister(); err != nil {
		t.Fatal(err)
	}
	if sum, _ := collect(t, reader)["cleave.writes"].Data.(metricdata.Sum[float64]); len(sum.DataPoints) != 0 {
		t.Errorf("writes after the end: %+v", sum)
	}
}

// TestNames: no two metrics have one name.
func TestNames(t *testing.T) {
	seen := make(map[string]string)
	for _, d := range metrics.Catalogue() {
		name := cleaveotel.Name(d)
		if other, ok := seen[name]; ok {
			t.Errorf("%s and %s are both %s", d.Name, other, name)
		}
		seen[name] = d.Name
	}
}

// A store whose metrics a reader of the SDK collects.
func ExampleNewProducer() {
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

	// In place of a ManualReader: sdkmetric.NewPeriodicReader(exporter, …)
	reader := sdkmetric.NewManualReader(sdkmetric.WithProducer(cleaveotel.NewProducer(db)))
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	defer provider.Shutdown(ctx)

	var all metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &all); err != nil {
		log.Fatal(err)
	}
	for _, m := range all.ScopeMetrics[0].Metrics {
		if m.Name == "cleave.failed" {
			fmt.Println(m.Description, m.Data.(metricdata.Gauge[float64]).DataPoints[0].Value)
		}
	}
	// Output: Whether the store takes no writes because a write or sync of its log or a manifest failed 0
}

// TestUnitOfFlags: exporters that write for Prometheus add _ratio to the names of gauges with the unit 1, which flags do not have.
func TestUnitOfFlags(t *testing.T) {
	if unit := cleaveotel.Unit(metrics.Find("cleave_failed")); unit != "{flag}" {
		t.Errorf("the unit of cleave_failed is %q", unit)
	}
	if unit := cleaveotel.Unit(metrics.Find("cleave_write_pressure_ratio")); unit != "1" {
		t.Errorf("the unit of cleave_write_pressure_ratio is %q", unit)
	}
}
