// Package metricset collects the samples of a metrics.Snapshot.
package metricset

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cleavestore/cleave/metrics"
)

// Set collects samples. It serves one goroutine.
type Set struct {
	samples map[*metrics.Desc][]metrics.Sample
	at      map[string]int // by name and labels: index in samples
	unknown []string
}

// Unknown lists samples that were lost since the catalogue has no such metric.
func (s *Set) Unknown() []string { return s.unknown }

// New returns an empty set.
func New() *Set {
	return &Set{samples: make(map[*metrics.Desc][]metrics.Sample), at: make(map[string]int)}
}

// Number is the type of a value.
type Number interface {
	~int | ~int64 | ~uint64 | ~float64
}

// Add adds a number to the sample with these values of the labels. If there is no such
// metric, or if it has other labels, the number is lost and Unknown names the metric.
func Add[N Number](s *Set, name string, v N, labels ...string) {
	s.sample(name, labels).Value += float64(v)
}

// Raise raises the sample with these values of the labels to a number, if it is lower.
func Raise[N Number](s *Set, name string, v N, labels ...string) {
	sample := s.sample(name, labels)
	sample.Value = max(sample.Value, float64(v))
}

// Flag adds 1 if is holds, else 0.
func (s *Set) Flag(name string, is bool) {
	n := 0
	if is {
		n = 1
	}
	Add(s, name, n)
}

// Seconds adds a duration to the sample with these values of the labels.
func (s *Set) Seconds(name string, d time.Duration, labels ...string) {
	Add(s, name, d.Seconds(), labels...)
}

// Fields adds the fields of a struct that have the tag key: `metric:"cleave_flushes_total"`
// names the metric, and further words after commas are values of labels that come after
// the given ones. A field is a number, or a time.Duration, which is added in seconds. Any
// other type is a mistake in the code that Unknown names.
func (s *Set) Fields(key string, of any, labels ...string) {
	record := reflect.Indirect(reflect.ValueOf(of))
	for _, f := range taggedFields(record.Type(), key) {
		at := labels
		if len(f.labels) > 0 {
			at = slices.Concat(labels, f.labels)
		}
		switch v := record.Field(f.index); {
		case v.Type() == reflect.TypeFor[time.Duration]():
			s.Seconds(f.metric, time.Duration(v.Int()), at...)
		case v.CanInt():
			Add(s, f.metric, v.Int(), at...)
		case v.CanUint():
			Add(s, f.metric, v.Uint(), at...)
		case v.CanFloat():
			Add(s, f.metric, v.Float(), at...)
		default:
			s.unknown = append(s.unknown, fmt.Sprintf("%s of a %v", f.metric, v.Type()))
		}
	}
}

// taggedField is a field of a struct that is a metric.
type taggedField struct {
	index  int
	metric string
	labels []string
}

// tagged has the fields of types with a tag, by taggedType.
var tagged sync.Map

type taggedType struct {
	of  reflect.Type
	key string
}

// taggedFields returns the fields of a type that have the tag key.
func taggedFields(of reflect.Type, key string) (list []taggedField) {
	if known, ok := tagged.Load(taggedType{of, key}); ok {
		return known.([]taggedField)
	}
	for i := range of.NumField() {
		if tag := of.Field(i).Tag.Get(key); tag != "" {
			words := strings.Split(tag, ",")
			list = append(list, taggedField{index: i, metric: words[0], labels: words[1:]})
		}
	}
	tagged.Store(taggedType{of, key}, list)
	return list
}

// Histogram sets a histogram.
func (s *Set) Histogram(name string, h metrics.Histogram, labels ...string) {
	s.sample(name, labels).Histogram = &h
}

// Container returns the label of a container, of which there are i before it.
func Container(i int, name string) string {
	if i < metrics.MostContainers {
		return name
	}
	return metrics.Rest
}

// Totals has the counters of containers by label, so that these only grow: a label has what each container counted while it had the
// label. One that is dropped takes nothing away, also not for another one that gets its name. It is safe for concurrent use.
type Totals struct {
	mu   sync.Mutex
	sums map[[2]string]int64 // by counter and label; none is 0
}

// Count adds a counter of a container with the label at, which is n by now. last are its counters when they were last collected; they are
// of t only.
func (t *Totals) Count(s *Set, at string, last *map[string]int64, name string, n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if more := n - (*last)[name]; more > 0 { // else a call that collects beside this one may have read it later
		if *last == nil {
			*last = make(map[string]int64)
		}
		if t.sums == nil {
			t.sums = make(map[[2]string]int64)
		}
		(*last)[name] = n
		t.sums[[2]string{name, at}] += more
	}
	s.sample(name, []string{at}).Value = float64(t.sums[[2]string{name, at}])
}

func (s *Set) sample(name string, labels []string) *metrics.Sample {
	d := metrics.Find(name)
	if d == nil || len(d.Labels) != len(labels) {
		s.unknown = append(s.unknown, fmt.Sprintf("%s with %d labels", name, len(labels)))
		return new(metrics.Sample)
	}
	key := name + "\x00" + strings.Join(labels, "\x00")
	i, ok := s.at[key]
	if !ok {
		i = len(s.samples[d])
		s.at[key] = i
		s.samples[d] = append(s.samples[d], metrics.Sample{Labels: labels})
	}
	return &s.samples[d][i]
}

// Snapshot returns what was collected.
func (s *Set) Snapshot(now, since time.Time) metrics.Snapshot {
	out := metrics.Snapshot{Time: now, Since: since}
	for _, d := range metrics.Catalogue() {
		if samples := s.samples[d]; len(samples) > 0 {
			out.Metrics = append(out.Metrics, metrics.Metric{Desc: d, Samples: samples})
		}
	}
	return out
}
