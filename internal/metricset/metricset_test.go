package metricset

import (
	"testing"
	"time"

	"github.com/cleavestore/cleave/metrics"
)

// TestSet: numbers of one sample add up, or the highest stays; samples come in the order
// of the catalogue.
func TestSet(t *testing.T) {
	s := New()
	Add(s, "cleave_container_files", 2, "a")
	Add(s, "cleave_container_files", 3, "a")
	Add(s, "cleave_container_files", 5, "b")
	Raise(s, "cleave_container_runs_most", 4, "a")
	Raise(s, "cleave_container_runs_most", 3, "a")
	s.Flag("cleave_failed", true)
	s.Seconds("cleave_stalled_seconds_total", 1500*time.Millisecond)
	s.Histogram("cleave_flush_duration_seconds", metrics.Histogram{Count: 1})
	m := s.Snapshot(time.Unix(2, 0), time.Unix(1, 0))
	for _, want := range []struct {
		name   string
		labels []string
		value  float64
	}{
		{"cleave_container_files", []string{"a"}, 5}, {"cleave_container_files", []string{"b"}, 5},
		{"cleave_container_runs_most", []string{"a"}, 4}, {"cleave_failed", nil, 1}, {"cleave_stalled_seconds_total", nil, 1.5},
	} {
		if got, ok := m.Value(want.name, want.labels...); !ok || got != want.value {
			t.Errorf("%s%v: %v, want %v", want.name, want.labels, got, want.value)
		}
	}
	if _, ok := m.Value("cleave_container_files", "c"); ok || m.Histogram("cleave_flush_duration_seconds").Count != 1 {
		t.Error("a sample that was not added, or none that was")
	}
	if len(m.Metrics) != 5 || m.Metrics[0].Name != "cleave_failed" || !m.Time.After(m.Since) {
		t.Errorf("%+v", m)
	}
	if lost := s.Unknown(); len(lost) != 0 {
		t.Errorf("lost: %q", lost)
	}
	Add(s, "cleave_nothing", 1)
	Add(s, "cleave_container_files", 1)
	if lost := s.Unknown(); len(lost) != 2 {
		t.Errorf("mistakes are not noticed: %q", lost)
	}
}

// TestFields: fields of a struct with the tag are samples, others are not; a type that is
// no number is noticed.
func TestFields(t *testing.T) {
	of := struct {
		Flushes   int64         `json:"f" metric:"cleave_flushes_total"`
		Trims     uint64        `metric:"cleave_compactions_total,trim"`
		Stalled   time.Duration `metric:"cleave_stalled_seconds_total"`
		Load      float64       `metric:"cleave_container_load" hot:"cleave_partition_load"`
		Untagged  int
		Documents string `wrong:"cleave_flushes_total"`
	}{Flushes: 3, Trims: 4, Stalled: 1500 * time.Millisecond, Load: 2.5, Untagged: 9}
	for range 2 { // the second time the type is known
		s := New()
		s.Fields("metric", &of)
		if lost := s.Unknown(); len(lost) != 1 || lost[0] != "cleave_container_load with 0 labels" {
			t.Errorf("lost: %q", lost)
		}
		s.Fields("hot", of, "c", "7")
		m := s.Snapshot(time.Unix(2, 0), time.Unix(1, 0))
		for _, want := range []struct {
			name   string
			labels []string
			value  float64
		}{
			{"cleave_flushes_total", nil, 3}, {"cleave_compactions_total", []string{"trim"}, 4}, {"cleave_stalled_seconds_total", nil, 1.5},
			{"cleave_partition_load", []string{"c", "7"}, 2.5},
		} {
			if got, ok := m.Value(want.name, want.labels...); !ok || got != want.value {
				t.Errorf("%s%v: %v, want %v", want.name, want.labels, got, want.value)
			}
		}
		if len(m.Metrics) != 4 {
			t.Errorf("%d metrics", len(m.Metrics))
		}
		if s.Fields("wrong", &of); len(s.Unknown()) != 2 {
			t.Errorf("a string is a metric: %q", s.Unknown())
		}
	}
}

// TestTotals: the counters of a label grow by what each container counts while it has the label.
func TestTotals(t *testing.T) {
	var r Totals
	var a, b map[string]int64
	const name = "cleave_throttled_total"
	at := metrics.Rest
	collect := func(want float64, count func(s *Set)) {
		t.Helper()
		s := New()
		count(s)
		m := s.Snapshot(time.Unix(2, 0), time.Unix(1, 0))
		if got, _ := m.Value(name, at); got != want || len(s.Unknown()) > 0 {
			t.Errorf("%v, want %v; lost %q", got, want, s.Unknown())
		}
	}
	collect(8, func(s *Set) { r.Count(s, metrics.Rest, &a, name, 5); r.Count(s, metrics.Rest, &b, name, 3) })
	collect(8, func(s *Set) { r.Count(s, metrics.Rest, &b, name, 3) })
	collect(8, func(s *Set) { r.Count(s, metrics.Rest, &b, name, 2) }) // read before another call that has ended
	at = "b"
	collect(4, func(s *Set) { r.Count(s, at, &b, name, 7) })
	at = metrics.Rest
	collect(9, func(s *Set) { r.Count(s, at, &b, name, 8) })
	at = "b"
	collect(4, func(s *Set) { r.Count(s, at, new(map[string]int64), name, 0) }) // another one of its name
	collect(5, func(s *Set) { r.Count(s, at, new(map[string]int64), name, 1) })
}
