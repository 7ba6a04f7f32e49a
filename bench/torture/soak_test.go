package main

import (
	"io"
	"testing"
	"time"
)

// TestSoakReport plants growth of each measure, which the report must see.
func TestSoakReport(t *testing.T) {
	const length = time.Hour
	for _, grows := range append(tolerances, tolerance{measure: "none"}) {
		s := &soaking{out: io.Discard, length: length, begin: time.Now().Add(-length)}
		for at := time.Duration(0); at <= length; at += length / 100 {
			m := make(measures)
			for _, t := range tolerances {
				m[t.measure] = 100
				if t == grows && at > length/2 {
					m[t.measure] = 100*t.times + t.beyond + 1
				}
			}
			s.samples = append(s.samples, sampled{at, m})
		}
		s.report()
		if want := grows.measure != "none"; want != (len(s.violations) == 1) {
			t.Errorf("%s grows: %q", grows.measure, s.violations)
		}
	}
}

// TestSoakEnds says when lives end: some while the soak is young, and the last
// fifth of it is one life.
func TestSoakEnds(t *testing.T) {
	s := newSeries(nil, kill, settings[0], 1)
	k := &soaking{length: time.Hour, rng: s.rng, begin: time.Now()}
	if end := k.nextEnd(); end < time.Minute || end > 4*time.Minute {
		t.Errorf("the first life ends after %v", end)
	}
	k.begin = time.Now().Add(-47 * time.Minute)
	if end := k.nextEnd(); end > 48*time.Minute {
		t.Errorf("a life ends after %v", end)
	}
	k.begin = time.Now().Add(-48 * time.Minute)
	if end := k.nextEnd(); end != time.Hour {
		t.Errorf("the last life ends after %v", end)
	}
}
