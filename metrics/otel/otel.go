// Package cleaveotel gives the metrics of a store to OpenTelemetry. There are two ways:
//
//   - NewProducer is for programs that make their own reader of the SDK. It gives all
//     metrics, histograms included: sdkmetric.WithProducer(cleaveotel.NewProducer(db)).
//   - Register is for programs that have only a metric.Meter. Its observable instruments
//     have no histograms, because the API has no observable ones: they give the number of
//     calls, their time, and quantiles since the store was opened.
//
// Names are those of package metrics in the style of OpenTelemetry: cleave_reads_total is
// cleave.reads, cleave_log_written_bytes_total is cleave.log_written with the unit By. Labels
// are attributes with cleave. before their name. The alerts and the dashboard for Prometheus take the names and labels
// of package metrics: those that an exporter of OpenTelemetry writes for Prometheus need not be the same.
// docs/metrics.md says what each metric means.
package cleaveotel

import (
	"strings"

	"github.com/cleavestore/cleave/metrics"
	"go.opentelemetry.io/otel/attribute"
)

// Source is what is exported: an *engine.DB.
type Source interface {
	Metrics() metrics.Snapshot
}

const scope = "github.com/cleavestore/cleave"

// Name returns the name that a metric has in OpenTelemetry.
func Name(d *metrics.Desc) string {
	name := strings.TrimSuffix(d.Name, "_total")
	for _, unit := range []metrics.Unit{metrics.Seconds, metrics.Bytes} {
		name = strings.TrimSuffix(name, "_"+string(unit))
	}
	return strings.Replace(name, "_", ".", 1)
}

// Unit returns the unit of a metric as the Unified Code for Units of Measure has it.
func Unit(d *metrics.Desc) string {
	switch d.Unit {
	case metrics.Seconds:
		return "s"
	case metrics.Bytes:
		return "By"
	case metrics.Ratio:
		return "1"
	}
	return "{" + strings.ReplaceAll(string(d.Unit), " ", "_") + "}"
}

// attributes returns the labels of a sample.
func attributes(d *metrics.Desc, s *metrics.Sample) attribute.Set {
	pairs := make([]attribute.KeyValue, len(d.Labels))
	for i, name := range d.Labels {
		pairs[i] = attribute.String("cleave."+name, s.Labels[i])
	}
	return attribute.NewSet(pairs...)
}
