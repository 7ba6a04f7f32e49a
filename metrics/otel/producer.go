package cleaveotel

import (
	"context"
	"time"

	"github.com/cleavestore/cleave/metrics"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// NewProducer returns a producer for a reader of the SDK. Each collection calls
// DB.Metrics once.
func NewProducer(source Source) sdkmetric.Producer {
	return &producer{source: source, bounds: metrics.Bounds()}
}

type producer struct {
	source Source
	bounds []time.Duration
}

// Produce implements sdkmetric.Producer.
func (p *producer) Produce(context.Context) ([]metricdata.ScopeMetrics, error) {
	s := p.source.Metrics()
	out := metricdata.ScopeMetrics{Scope: instrumentation.Scope{Name: scope}}
	for _, m := range s.Metrics {
		out.Metrics = append(out.Metrics, metricdata.Metrics{Name: Name(m.Desc), Description: m.Help, Unit: Unit(m.Desc), Data: p.data(&s, &m)})
	}
	return []metricdata.ScopeMetrics{out}, nil
}

// data returns the samples of a metric.
func (p *producer) data(s *metrics.Snapshot, m *metrics.Metric) metricdata.Aggregation {
	if m.Kind == metrics.Distribution {
		return p.histogram(s, m)
	}
	points := make([]metricdata.DataPoint[float64], len(m.Samples))
	for i := range m.Samples {
		points[i] = metricdata.DataPoint[float64]{
			Attributes: attributes(m.Desc, &m.Samples[i]), StartTime: s.Since, Time: s.Time, Value: m.Samples[i].Value,
		}
	}
	if m.Kind == metrics.Gauge {
		return metricdata.Gauge[float64]{DataPoints: points}
	}
	return metricdata.Sum[float64]{DataPoints: points, Temporality: metricdata.CumulativeTemporality, IsMonotonic: true}
}

func (p *producer) histogram(s *metrics.Snapshot, m *metrics.Metric) metricdata.Histogram[float64] {
	out := metricdata.Histogram[float64]{Temporality: metricdata.CumulativeTemporality}
	bounds := make([]float64, len(p.bounds))
	for i, b := range p.bounds {
		bounds[i] = b.Seconds()
	}
	for i := range m.Samples {
		h := m.Samples[i].Histogram
		counts := make([]uint64, len(bounds)+1)
		below := uint64(0)
		for k, n := range h.Cumulative(p.bounds) {
			counts[k], below = n-below, n
		}
		counts[len(bounds)] = h.Count - below
		point := metricdata.HistogramDataPoint[float64]{
			Attributes: attributes(m.Desc, &m.Samples[i]), StartTime: s.Since, Time: s.Time,
			Count: h.Count, Sum: h.Sum.Seconds(), Bounds: bounds, BucketCounts: counts,
		}
		if h.Count > 0 {
			point.Max = metricdata.NewExtrema(h.Max.Seconds())
		}
		out.DataPoints = append(out.DataPoints, point)
	}
	return out
}
