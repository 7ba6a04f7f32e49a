// Package cleaveprom gives the metrics of a store to Prometheus.
//
//	registry.MustRegister(cleaveprom.NewCollector(db, nil))
//	http.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
//
// Each scrape calls DB.Metrics once. The names, labels and help texts are those of package
// metrics; docs/metrics.md lists them. Histograms have the buckets of metrics.Bounds.
//
// For several stores in one process, register one Collector each, with labels that tell
// them apart: NewCollector(db, prometheus.Labels{"store": "orders"}). A Collector may
// outlive its store: scrapes of a closed store give nothing.
package cleaveprom

import (
	"time"

	"github.com/cleavestore/cleave/metrics"
	"github.com/prometheus/client_golang/prometheus"
)

// Source is what a Collector exports: an *engine.DB.
type Source interface {
	Metrics() metrics.Snapshot
}

// Collector is a prometheus.Collector. It is safe for concurrent use.
type Collector struct {
	source Source
	bounds []time.Duration
	descs  map[*metrics.Desc]*prometheus.Desc
}

// NewCollector returns a Collector of a store. labels are added to every sample; nil:
// none.
func NewCollector(source Source, labels prometheus.Labels) *Collector {
	c := &Collector{source: source, bounds: metrics.Bounds(), descs: make(map[*metrics.Desc]*prometheus.Desc)}
	for _, d := range metrics.Catalogue() {
		c.descs[d] = prometheus.NewDesc(d.Name, d.Help, d.Labels, labels)
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range metrics.Catalogue() {
		to <- c.descs[d]
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	snapshot := c.source.Metrics()
	for _, m := range snapshot.Metrics {
		for i := range m.Samples {
			to <- c.metric(m.Desc, &m.Samples[i], snapshot.Since)
		}
	}
}

// metric returns a sample as Prometheus has it. Counters begin at 0 when the store is
// opened.
func (c *Collector) metric(d *metrics.Desc, s *metrics.Sample, since time.Time) prometheus.Metric {
	switch d.Kind {
	case metrics.Gauge:
		return prometheus.MustNewConstMetric(c.descs[d], prometheus.GaugeValue, s.Value, s.Labels...)
	case metrics.Counter:
		return prometheus.MustNewConstMetricWithCreatedTimestamp(c.descs[d], prometheus.CounterValue, s.Value, since, s.Labels...)
	}
	counts := s.Histogram.Cumulative(c.bounds)
	buckets := make(map[float64]uint64, len(counts))
	for i, n := range counts {
		buckets[c.bounds[i].Seconds()] = n
	}
	return prometheus.MustNewConstHistogramWithCreatedTimestamp(c.descs[d], s.Histogram.Count, s.Histogram.Sum.Seconds(), buckets, since, s.Labels...)
}
