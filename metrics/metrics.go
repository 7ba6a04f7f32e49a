// Package metrics describes what a store measures, for programs that export it.
//
// DB.Metrics returns a Snapshot: counters, gauges and histograms, each with a stable name,
// a unit, a help text and labels. So an exporter is a loop. There are two in modules of
// their own: metrics/prometheus and metrics/otel. A Snapshot as JSON is fit for package
// expvar.
//
// Names are those of Prometheus: they begin with cleave_ and end with the unit; the name of
// a counter ends with _total. Catalogue lists them. docs/metrics.md says what to do about
// each.
//
// Invariants:
//
//  1. A name keeps its meaning, kind, unit and labels. Metrics are added, not changed.
//  2. A counter, and each count of a histogram, grows only while a store is open. It begins
//     at 0 when the store is opened.
//  3. The number of samples is bounded, however large the store is: MostContainers
//     containers and MostPartitions physical partitions have samples of their own.
package metrics

import (
	"encoding/json"
	"strings"
	"time"
)

const (
	// MostContainers is how many containers have samples of their own: the first by name.
	// The others share one sample, with the container label Rest.
	MostContainers = 100
	// MostPartitions is how many physical partitions of a store have samples of their own:
	// those that consume the most request units a second. The metric
	// cleave_partitions_omitted tells how many have none.
	MostPartitions = 200
	// Rest is the container label of the containers past MostContainers. No container
	// has this name.
	Rest = "/rest"
)

// Kind tells counters, gauges and histograms apart.
type Kind uint8

// Kinds of metrics.
const (
	Counter      Kind = iota // grows only
	Gauge                    // rises and falls
	Distribution             // a Histogram of durations
)

// String returns "counter", "gauge" or "histogram".
func (k Kind) String() string { return [...]string{"counter", "gauge", "histogram"}[k] }

// Unit is what a value counts.
type Unit string

// Units. Any other Unit is the plural of what is counted, such as "reads".
const (
	Seconds Unit = "seconds"
	Bytes   Unit = "bytes"
	Ratio   Unit = "ratio" // from 0 to 1
	Flag    Unit = "flag"  // 0 or 1
)

// Desc describes a metric.
type Desc struct {
	Name   string
	Kind   Kind
	Unit   Unit
	Help   string   // a sentence without its full stop
	Labels []string // names
	Group  string   // of metrics that are read together, as in docs/metrics.md
	Advice string   // what to do about it; empty: nothing by itself
}

// Metric is a metric with its samples.
type Metric struct {
	*Desc
	Samples []Sample // at least one
}

// Sample is one value of a metric.
type Sample struct {
	Labels    []string   // values, in the order of Desc.Labels
	Value     float64    // of counters and gauges
	Histogram *Histogram // of distributions; durations, which exporters give in seconds
}

// Snapshot is what a store has measured at one moment. Metrics without a sample are left
// out. Nobody else has its memory.
type Snapshot struct {
	Time    time.Time
	Since   time.Time // when the store was opened: the time at which counters were 0
	Metrics []Metric  // in the order of Catalogue
}

// Value returns the value of a counter or gauge with these values of its labels; false:
// the snapshot has no such sample.
func (s *Snapshot) Value(name string, labels ...string) (float64, bool) {
	if sample := s.sample(name, labels); sample != nil && sample.Histogram == nil {
		return sample.Value, true
	}
	return 0, false
}

// Histogram returns a histogram with these values of its labels; nil: the snapshot has no
// such sample.
func (s *Snapshot) Histogram(name string, labels ...string) *Histogram {
	if sample := s.sample(name, labels); sample != nil {
		return sample.Histogram
	}
	return nil
}

func (s *Snapshot) sample(name string, labels []string) *Sample {
	want := strings.Join(labels, "\x00")
	for _, m := range s.Metrics {
		if m.Name != name {
			continue
		}
		for i := range m.Samples {
			if strings.Join(m.Samples[i].Labels, "\x00") == want {
				return &m.Samples[i]
			}
		}
	}
	return nil
}

// MarshalJSON implements json.Marshaler. Each metric is a member. Its value is a number or,
// with labels, an array of objects that have the labels and "value". Of a histogram there
// are count, sum, mean, p50, p90, p99, p999 and max in its place, in seconds.
func (s Snapshot) MarshalJSON() ([]byte, error) {
	all := map[string]any{"time": s.Time, "since": s.Since}
	for _, m := range s.Metrics {
		if len(m.Labels) == 0 && m.Kind != Distribution {
			all[m.Name] = m.Samples[0].Value
			continue
		}
		rows := make([]map[string]any, len(m.Samples))
		for i := range m.Samples {
			rows[i] = m.row(&m.Samples[i])
		}
		if all[m.Name] = rows; len(m.Labels) == 0 {
			all[m.Name] = rows[0]
		}
	}
	return json.Marshal(all)
}

// row returns a sample as MarshalJSON writes it.
func (d *Desc) row(s *Sample) map[string]any {
	row := make(map[string]any)
	for i, name := range d.Labels {
		row[name] = s.Labels[i]
	}
	h := s.Histogram
	if h == nil {
		row["value"] = s.Value
		return row
	}
	row["count"], row["sum"], row["mean"], row["max"] = h.Count, h.Sum.Seconds(), h.Mean().Seconds(), h.Max.Seconds()
	row["p50"], row["p90"] = h.Quantile(0.5).Seconds(), h.Quantile(0.9).Seconds()
	row["p99"], row["p999"] = h.Quantile(0.99).Seconds(), h.Quantile(0.999).Seconds()
	return row
}
