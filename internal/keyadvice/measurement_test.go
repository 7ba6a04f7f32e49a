package keyadvice

import (
	"fmt"
	"strings"
	"testing"
)

// TestMeasurements: a property with measurements is no proposal, however evenly
// it divides the documents.
func TestMeasurements(t *testing.T) {
	s := NewSurvey(Options{Partitions: 4})
	for i := range 2000 {
		doc := fmt.Sprintf(`{"id":"v%d","country":"C%d","Elevation":%d,"weight":%d.5,"seen":"2024-03-%02d"}`, i, i*i%97, (i*7919)%1100, i%300, 1+i%28)
		if err := s.Add([]byte(doc)); err != nil {
			t.Fatal(err)
		}
	}
	keys := fmt.Sprint(s.Propose())
	for _, measurement := range []string{"Elevation", "weight", "seen"} {
		if strings.Contains(keys, measurement) {
			t.Errorf("proposed: %s", keys)
		}
	}
	if !strings.Contains(keys, "[/country]") {
		t.Errorf("proposed: %s", keys)
	}
}

// TestInexactNumbers: whole numbers that doubles do not tell apart speak against
// a key.
func TestInexactNumbers(t *testing.T) {
	for _, c := range []struct {
		from    int64
		inexact int64
	}{{1 << 40, 0}, {9007199254740991 - 99, 0}, {9007199254740992, 100}, {-9007199254740992 - 99, 100}} {
		s, err := NewStudy([][]string{{"/n"}}, Options{Partitions: 2})
		if err != nil {
			t.Fatal(err)
		}
		for i := range int64(100) {
			if err := s.Add(fmt.Appendf(nil, `{"id":"%d","n":%d}`, i, c.from+i)); err != nil {
				t.Fatal(err)
			}
		}
		got := s.Report().Candidates[0]
		if got.Inexact != c.inexact || (got.Verdict == Poor && strings.Contains(fmt.Sprint(got.Reasons), "strings")) != (c.inexact > 0) {
			t.Errorf("from %d: %d inexact, %v: %v", c.from, got.Inexact, got.Verdict, got.Reasons)
		}
	}
}
