package cleaveotel

import (
	"context"
	"fmt"

	"github.com/cleavestore/cleave/metrics"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// quantiles are those that Register gives of histograms.
var quantiles = []struct {
	name string
	q    float64
}{{"0.5", 0.5}, {"0.9", 0.9}, {"0.99", 0.99}, {"0.999", 0.999}, {"1", 1}}

// instruments are those of one metric. Those of its kind are set.
type instruments struct {
	counter metric.Float64ObservableCounter
	gauge   metric.Float64ObservableGauge
	count   metric.Int64ObservableCounter   // of a histogram
	sum     metric.Float64ObservableCounter // of a histogram
}

// Register makes an observable instrument of the meter for each counter and gauge. For a
// histogram it makes three: NAME.count, NAME.sum, and NAME.quantile with the attribute
// quantile. Each collection calls DB.Metrics once. Unregister ends that. A
// closed store gives nothing.
func Register(meter metric.Meter, source Source) (metric.Registration, error) {
	all := make(map[*metrics.Desc]instruments)
	var observed []metric.Observable
	for _, d := range metrics.Catalogue() {
		in, err := newInstruments(meter, d)
		if err != nil {
			return nil, fmt.Errorf("instrument %s: %w", Name(d), err)
		}
		all[d] = in
		for _, o := range []metric.Observable{in.counter, in.gauge, in.count, in.sum} {
			if o != nil {
				observed = append(observed, o)
			}
		}
	}
	return meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		s := source.Metrics()
		for _, m := range s.Metrics {
			for i := range m.Samples {
				all[m.Desc].observe(to, m.Desc, &m.Samples[i])
			}
		}
		return nil
	}, observed...)
}

func newInstruments(meter metric.Meter, d *metrics.Desc) (in instruments, err error) {
	name, unit, help := Name(d), metric.WithUnit(Unit(d)), metric.WithDescription(d.Help)
	switch d.Kind {
	case metrics.Counter:
		in.counter, err = meter.Float64ObservableCounter(name, unit, help)
		return in, err
	case metrics.Gauge:
		in.gauge, err = meter.Float64ObservableGauge(name, unit, help)
		return in, err
	}
	if in.count, err = meter.Int64ObservableCounter(name+".count", metric.WithUnit("{calls}"), help); err != nil {
		return in, err
	}
	if in.sum, err = meter.Float64ObservableCounter(name+".sum", unit, help); err != nil {
		return in, err
	}
	in.gauge, err = meter.Float64ObservableGauge(name+".quantile", unit, help)
	return in, err
}

// observe gives a sample to the instruments of its metric.
func (in instruments) observe(to metric.Observer, d *metrics.Desc, s *metrics.Sample) {
	set := attributes(d, s)
	with := metric.WithAttributeSet(set)
	switch d.Kind {
	case metrics.Counter:
		to.ObserveFloat64(in.counter, s.Value, with)
		return
	case metrics.Gauge:
		to.ObserveFloat64(in.gauge, s.Value, with)
		return
	}
	to.ObserveInt64(in.count, int64(s.Histogram.Count), with)
	to.ObserveFloat64(in.sum, s.Histogram.Sum.Seconds(), with)
	for _, q := range quantiles {
		to.ObserveFloat64(in.gauge, s.Histogram.Quantile(q.q).Seconds(), with, metric.WithAttributes(attribute.String("quantile", q.name)))
	}
}
