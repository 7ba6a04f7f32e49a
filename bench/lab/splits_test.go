package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/harness"
)

// lab splits measures and draws; what it measured before it shows again.
func TestSplitsCommand(t *testing.T) {
	dir := t.TempDir()
	file, chart := filepath.Join(dir, "splits.json"), filepath.Join(dir, "splits.svg")
	s := newSession(t)
	args := []string{"splits", "--splits", "3", "--every", "60ms", "--window", "1500ms", "--rate", "500"}
	status := s.run(t, append(args, "--size", "2MB", "--json", file)) // whether bounds are kept, is not the question
	if status != cli.ExitOK && status != harness.ExitFailed {
		t.Fatalf("status %d: %s", status, &s.errOut)
	}
	wants(t, s.out.String(), "2.00 MB", "split, under the lock", "p99.9 around the cuts", "gap between writes, controls")
	sizes, err := readSplitsReport(file)
	if err != nil || len(sizes) != 1 {
		t.Fatalf("%v: %+v", err, sizes)
	}
	f := sizes[0]
	if f.Splits != 3 || f.Merges != 3 || f.Failed != 0 || f.CopiedBytes != 0 || f.Pause.Max <= 0 || f.Pause.P50 > f.Pause.Max ||
		!f.Overloaded && (f.Gap.P50 <= 0 || f.ControlGap.P90 <= 0 || f.Before.Ops == 0 || f.Around.Ops == 0 || f.After.Ops == 0 || len(f.Curve) == 0) || f.Documents < 1000 {
		t.Errorf("%+v", f)
	}
	s.out.Reset()
	status = s.run(t, append(args, "--size", "3MB", "--beside", file, "--svg", chart, "--json", "-"))
	if status != cli.ExitOK && status != harness.ExitFailed {
		t.Fatalf("status %d: %s", status, &s.errOut)
	}
	var r splitsReport
	if err := json.Unmarshal(s.out.Bytes(), &r); err != nil || len(r.Sizes) != 2 {
		t.Errorf("%v: %d sizes", err, len(r.Sizes))
	}
	text, err := os.ReadFile(chart)
	if err != nil {
		t.Fatal(err)
	}
	wants(t, string(text), "<svg ", "2.00 MB, 3 splits", "3.00 MB, 3 splits", "</svg>")
	s.out.Reset()
	if status = s.run(t, []string{"splits", "--beside", file}); status == cli.ExitUsage {
		t.Errorf("status %d: %s", status, &s.errOut)
	}
	wants(t, s.out.String(), "2.00 MB", "split, under the lock")
	s.do(t, harness.ExitFailed, "splits", "--beside", chart)
	wants(t, s.errOut.String(), "no result of lab splits")
}

// Each bound is judged by itself.
func TestSplitBounds(t *testing.T) {
	good := sizeFigures{
		Bytes: 1e8, Asked: 2, Splits: 2, Pause: quantiles{5, 9, 200}, Gap: quantiles{10, 90, 900}, ControlGap: quantiles{5, 10, 20},
		Before: harness.WindowFigures{P999: 100}, Around: harness.WindowFigures{P999: 200}, After: harness.WindowFigures{P999: 200},
		SecondBefore: quantiles{40, 60, 90}, SecondAround: quantiles{80, 900, 900}, SecondAfter: quantiles{80, 900, 900},
	}
	for want, change := range map[string]func(f *sizeFigures){
		"":                          func(*sizeFigures) {},
		"1 of 2 splits":             func(f *sizeFigures) { f.Splits = 1 },
		"the rate of ":              func(f *sizeFigures) { f.Overloaded = true },
		"201.0 µs under the lock":   func(f *sizeFigures) { f.Pause.Max = 201 },
		"median gap of 11.0 µs":     func(f *sizeFigures) { f.Gap.P50 = 11 },
		"µs around the cuts":        func(f *sizeFigures) { f.Around.P999 = 201 },
		"µs after the cuts":         func(f *sizeFigures) { f.After.P999 = 201 },
		"of a second around a cut ": func(f *sizeFigures) { f.SecondAround.P50 = 81 },
		"a second after the cuts ":  func(f *sizeFigures) { f.SecondAfter.P50 = 81 },
		"1 failed operations":       func(f *sizeFigures) { f.Failed = 1 },
		"1 B copied":                func(f *sizeFigures) { f.CopiedBytes = 1 },
		"median time under the loc": func(f *sizeFigures) { f.Pause.P50 = 11 },
	} {
		bad := good
		bad.Bytes = 1e9
		change(&bad)
		r := splitsReport{Sizes: []sizeFigures{good, bad}}
		r.judge()
		if got := strings.Join(r.Missed, "; "); want == "" && got != "" || !strings.Contains(got, want) || want != "" && len(r.Missed) != 1 {
			t.Errorf("%q is judged %q", want, got)
		}
	}
}

// TestQuantiles: the median of an even number lies in the middle, and nine of ten values do not exceed the 90th percentile.
func TestQuantiles(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   quantiles
	}{
		{nil, quantiles{}},
		{[]float64{7}, quantiles{7, 7, 7}},
		{[]float64{3, 1}, quantiles{2, 3, 3}},
		{[]float64{10, 9, 8, 7, 6, 5, 4, 3, 2, 1}, quantiles{5.5, 9, 10}},
		{[]float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, quantiles{6, 10, 11}},
	} {
		if got := newQuantiles(c.values); got != c.want {
			t.Errorf("%v: %+v, want %+v", c.values, got, c.want)
		}
	}
}
