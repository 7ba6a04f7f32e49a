package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/harness"
)

// writeRun writes the result of a run as JSON, with these rates and p99 of its
// repetitions.
func writeRun(t *testing.T, name, workload, durability string, verdicts []string, rates, p99s []float64) {
	t.Helper()
	rep := &report{V: 1, Workload: workload, Engine: &engineFigures{Run: &settings{Durability: durability}}}
	for i := range rates {
		f := operationFigures{Ops: 10, OpsPerS: rates[i], latencyFigures: latencyFigures{P99Micros: p99s[i]}}
		loop := &loopFigures{Kind: openLoop, Verdicts: verdicts, Service: map[string]latencyFigures{"read": {P50Micros: 1}}}
		rep.results = results{All: f, Ops: map[string]operationFigures{"read": f}}
		rep.Engine.Loop = loop
		if len(rates) > 1 {
			rep.Engine.Repeats = append(rep.Engine.Repeats, repeat{rep.results, loop})
		}
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	saveReport(t, name, rep)
}

// saveReport writes a result to a file.
func saveReport(t *testing.T, name string, rep any) {
	t.Helper()
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := harness.WriteJSON(file, rep); err != nil {
		t.Fatal(err)
	}
}

func TestCompare(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	writeRun(t, filepath.Join(a, runFile), "ycsb-b", "synced", nil, []float64{100, 102, 98, 101}, []float64{10, 11, 12, 10})
	writeRun(t, filepath.Join(b, runFile), "ycsb-b", "buffered", nil, []float64{120, 122, 119, 121}, []float64{11, 12, 13, 12})
	s := newSession(t)
	s.do(t, cli.ExitOK, "compare", a, b)
	text := s.out.String()
	wants(t, text, "old: "+a, "ycsb-b: durability differs: synced, then buffered", "+19.9 %  better", "no difference seen", "4, 4",
		"of 5 figures 2 better, 0 worse, 3 without a difference that can be seen")
	if strings.Contains(text, "chance") {
		t.Errorf("four runs on each side tell\n%s", text)
	}
	s.do(t, harness.ExitFailed, "compare", b, a, "--fail-on", "5%", "--json", "-")
	wants(t, s.errOut.String(), "worse by over 5 %: ycsb-b read ops/s -16.6 %, ycsb-b all ops/s -16.6 %")
	var c comparison
	if err := json.Unmarshal(s.out.Bytes(), &c); err != nil || c.V != 1 || len(c.Rows) != 5 || c.Rows[0].Verdict != worse || c.Rows[0].Old.N != 4 || len(c.Settings) != 1 {
		t.Errorf("%v: %s", err, &s.out)
	}
	s.do(t, cli.ExitOK, "compare", b, a, "--fail-on", "20%")
	s.do(t, cli.ExitOK, "compare", a, b, "--fail-on", "1%") // better is no failure
}

// Single runs, also several of them in a directory.
func TestCompareFewRuns(t *testing.T) {
	dir := t.TempDir()
	old, now := filepath.Join(dir, "old.json"), filepath.Join(dir, "now.json")
	writeRun(t, old, "read", "synced", nil, []float64{100}, []float64{10})
	writeRun(t, now, "read", "synced", nil, []float64{90}, []float64{12})
	s := newSession(t)
	s.do(t, cli.ExitOK, "compare", old, now)
	wants(t, s.out.String(), "-10.0 %  worse, or chance", "+20.0 %  worse, or chance", "repeat them with --count 5", "?")

	many := filepath.Join(dir, "many")
	for i, rate := range []float64{80, 81, 82, 83} {
		writeRun(t, filepath.Join(many, "run"+string(rune('0'+i)), runFile), "read", "synced", nil, []float64{rate}, []float64{10})
	}
	s.do(t, cli.ExitOK, "compare", old, many)
	wants(t, s.out.String(), "1, 4", "of 5 figures 0 better, 2 worse")
	other := filepath.Join(dir, "flat")
	writeRun(t, filepath.Join(other, "1.json"), "put", "synced", nil, []float64{1}, []float64{1})
	s.do(t, harness.ExitFailed, "compare", old, other)
	wants(t, s.errOut.String(), "no workload in common: read and put")
	if err := os.WriteFile(filepath.Join(other, "2.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.do(t, harness.ExitFailed, "compare", old, other)
	wants(t, s.errOut.String(), "2.json: unexpected end of JSON")
}

// Response times of an overloaded run are not compared.
func TestCompareOverloaded(t *testing.T) {
	dir := t.TempDir()
	old, now := filepath.Join(dir, "old.json"), filepath.Join(dir, "now.json")
	writeRun(t, old, "read", "synced", nil, []float64{100}, []float64{10})
	writeRun(t, now, "read", "synced", []string{overloaded}, []float64{90}, []float64{1e6})
	s := newSession(t)
	s.do(t, harness.ExitFailed, "compare", old, now, "--fail-on", "1")
	wants(t, s.out.String(), "not compared: OVERLOADED", "2 not compared")
	if strings.Contains(s.errOut.String(), "p99") {
		t.Errorf("%s", &s.errOut)
	}
}

// changeRun reads a result, changes it and writes it again.
func changeRun(t *testing.T, name string, change func(r *report)) {
	t.Helper()
	rep, err := readReport(name)
	if err != nil {
		t.Fatal(err)
	}
	change(rep)
	saveReport(t, name, rep)
}

// TestCompareErrors: errors where there were none are worse, and fail a comparison whatever its
// bound; an interrupted run is told.
func TestCompareErrors(t *testing.T) {
	dir := t.TempDir()
	old, now := filepath.Join(dir, "old.json"), filepath.Join(dir, "now.json")
	for _, name := range []string{old, now} {
		writeRun(t, name, "read", "synced", nil, []float64{100}, []float64{10})
	}
	changeRun(t, now, func(r *report) {
		f := r.Ops["read"]
		f.Errors = 3
		r.Ops["read"] = f
		r.Engine.Run.Interrupted = true
	})
	s := newSession(t)
	s.do(t, harness.ExitFailed, "compare", old, now, "--fail-on", "1000%")
	wants(t, s.out.String(), "errors", "1 worse", "read: interrupted in "+now+": 1 run")
	wants(t, s.errOut.String(), "read read errors")
	s.do(t, cli.ExitOK, "compare", now, old, "--fail-on", "1%")
	wants(t, s.out.String(), "1 better")
	s.do(t, cli.ExitOK, "compare", now, now, "--fail-on", "1%") // as many as before
}

// TestCompareLost: a figure that the new result does not have any more is worse.
func TestCompareLost(t *testing.T) {
	dir := t.TempDir()
	old, now := filepath.Join(dir, "old.json"), filepath.Join(dir, "now.json")
	for _, name := range []string{old, now} {
		writeRun(t, name, "read", "synced", nil, []float64{100}, []float64{10})
	}
	changeRun(t, now, func(r *report) { r.Ops["read"] = operationFigures{Errors: 10} })
	s := newSession(t)
	s.do(t, harness.ExitFailed, "compare", old, now, "--fail-on", "1000%")
	wants(t, s.out.String(), "lost  worse")
	wants(t, s.errOut.String(), "read read ops/s lost", "read read p99 µs lost", "read read errors")
}

// TestCompareLostWorkload: a workload that only the old results have is lost; one that only the new ones have is told.
func TestCompareLostWorkload(t *testing.T) {
	dir := t.TempDir()
	old, now := filepath.Join(dir, "old"), filepath.Join(dir, "now")
	for _, name := range []string{old, now} {
		writeRun(t, filepath.Join(name, "1.json"), "read", "synced", nil, []float64{100}, []float64{10})
	}
	writeRun(t, filepath.Join(old, "2.json"), "ycsb-a", "synced", nil, []float64{100}, []float64{10})
	s := newSession(t)
	s.do(t, harness.ExitFailed, "compare", old, now, "--fail-on", "5%")
	wants(t, s.out.String(), "lost  worse", "1 worse")
	wants(t, s.errOut.String(), "ycsb-a all ops/s lost")
	s.do(t, cli.ExitOK, "compare", now, old, "--fail-on", "5%")
	wants(t, s.out.String(), "ycsb-a: only in "+old)
}

// TestCompareMoreErrors: a larger share of errors is worse by the bound, as other figures are.
func TestCompareMoreErrors(t *testing.T) {
	dir := t.TempDir()
	old, now := filepath.Join(dir, "old.json"), filepath.Join(dir, "now.json")
	for name, errors := range map[string]int64{old: 10, now: 30} { // beside 10 operations that succeeded
		writeRun(t, name, "read", "synced", nil, []float64{100}, []float64{10})
		changeRun(t, name, func(r *report) {
			f := r.Ops["read"]
			f.Errors = errors
			r.Ops["read"] = f
		})
	}
	s := newSession(t)
	s.do(t, harness.ExitFailed, "compare", old, now, "--fail-on", "5%")
	wants(t, s.errOut.String(), "read read errors % +50.0 %")
	s.do(t, cli.ExitOK, "compare", old, now, "--fail-on", "60%")
	s.do(t, cli.ExitOK, "compare", now, old, "--fail-on", "5%")
}

// TestCompareNothingDone: a repetition in which nothing was done has a rate, 0.
func TestCompareNothingDone(t *testing.T) {
	dir := t.TempDir()
	old, now := filepath.Join(dir, "old.json"), filepath.Join(dir, "now.json")
	p99s := []float64{10, 0, 0, 0, 0}
	writeRun(t, old, "read", "synced", nil, []float64{1000, 1000, 1000, 1000, 1000}, p99s)
	writeRun(t, now, "read", "synced", nil, []float64{1000, 0, 0, 0, 0}, p99s)
	s := newSession(t)
	s.do(t, harness.ExitFailed, "compare", old, now, "--fail-on", "5%")
	wants(t, s.errOut.String(), "read read ops/s -100.0 %")
	wants(t, s.out.String(), "5, 5", "1, 1", "over 100 %")
	s.do(t, cli.ExitOK, "compare", now, old, "--json", "-")
	wants(t, s.out.String(), `"change_percent": 100`)
}

// TestCompareRareOperation: operations that the first repetition lacks are compared too.
func TestCompareRareOperation(t *testing.T) {
	dir := t.TempDir()
	old, now := filepath.Join(dir, "old.json"), filepath.Join(dir, "now.json")
	for name, rate := range map[string]float64{old: 100, now: 1} {
		writeRun(t, name, "ycsb-b", "synced", nil, []float64{100, 100, 100, 100, 100}, []float64{10, 10, 10, 10, 10})
		changeRun(t, name, func(r *report) {
			for i := range r.Engine.Repeats[1:] {
				r.Engine.Repeats[1+i].Ops["update"] = operationFigures{Ops: 1, OpsPerS: rate}
			}
		})
	}
	s := newSession(t)
	s.do(t, harness.ExitFailed, "compare", old, now, "--fail-on", "5%")
	wants(t, s.errOut.String(), "ycsb-b update ops/s -99.0 %")
}

// TestCompareLoops: times of an open and of a closed loop are compared by what calls take.
func TestCompareLoops(t *testing.T) {
	dir := t.TempDir()
	open, closed := filepath.Join(dir, "open.json"), filepath.Join(dir, "closed.json")
	for _, name := range []string{open, closed} {
		writeRun(t, name, "read", "synced", nil, []float64{100}, []float64{10})
	}
	changeRun(t, open, func(r *report) {
		r.Engine.Loop.Service["read"] = latencyFigures{P50Micros: 1, P99Micros: 20}
	})
	changeRun(t, closed, func(r *report) { r.Engine.Loop = &loopFigures{Kind: closedLoop} })
	s := newSession(t)
	s.do(t, cli.ExitOK, "compare", closed, open)
	wants(t, s.out.String(), "not compared: open and closed loop", "service p99 µs  10.0", "+100.0 %  worse, or chance")
	s.do(t, cli.ExitOK, "compare", closed, closed)
	if strings.Contains(s.out.String(), "service") {
		t.Errorf("a closed loop has service times apart:\n%s", &s.out)
	}
	first := &recorded{report: &report{Engine: &engineFigures{Loop: &loopFigures{Kind: openLoop}}}, name: "A"}
	last := &recorded{report: &report{Engine: &engineFigures{Loop: &loopFigures{Kind: closedLoop}}}, name: "B"}
	wants(t, latencyCaption([]*recorded{first, last}), "A from when", "B the times of the calls in a closed loop")
}

// What a run writes can be compared.
func TestCompareRuns(t *testing.T) {
	name := filepath.Join(t.TempDir(), "run.json")
	s := newSession(t)
	s.do(t, cli.ExitOK, "run", "--docs", "100", "--closed", "--ops", "200", "--warmup", "0s", "--count", "2", "--json", name)
	s.do(t, cli.ExitOK, "compare", name, name)
	wants(t, s.out.String(), "ycsb-b", "read", "update", "ALL", "0 better, 0 worse")
}

func TestSpread(t *testing.T) {
	s := newSpread([]float64{5, 1, 3, 2})
	if s != (spread{Median: 2.5, Min: 1, Max: 5, N: 4}) || s.half() != 0.8 || (spread{}).half() != 0 {
		t.Errorf("%+v: %v", s, s.half())
	}
	low, high := newSpread([]float64{1, 2}), newSpread([]float64{3})
	if low.apart(high) != -1 || high.apart(low) != 1 || low.apart(newSpread([]float64{2, 3})) != 0 || high.apart(high) != 0 {
		t.Error("apart")
	}
	for _, c := range []struct {
		a, b []float64
		want float64
	}{
		{[]float64{1}, []float64{2}, 1}, {[]float64{1, 2, 3}, []float64{4, 5, 6}, 0.1}, {[]float64{1, 2, 3, 4}, []float64{5, 6, 7, 8}, 2. / 70},
		{[]float64{1, 2, 3, 4, 5}, []float64{6, 7, 8, 9, 10}, 2. / 252}, {[]float64{1, 2, 3, 5}, []float64{4, 6, 7, 8}, 4. / 70}, {[]float64{3, 3}, []float64{3, 3}, 1},
	} {
		if got := chance(c.a, c.b); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%v and %v: %v, want %v", c.a, c.b, got, c.want)
		}
	}
}

// TestCompareOverlap: values that overlap a little differ if there are enough of them.
func TestCompareOverlap(t *testing.T) {
	dir := t.TempDir()
	old, now := filepath.Join(dir, "old.json"), filepath.Join(dir, "now.json")
	same := []float64{10, 10, 10, 10, 10, 10}
	writeRun(t, old, "read", "synced", nil, []float64{100, 101, 102, 103, 104, 106}, same)
	writeRun(t, now, "read", "synced", nil, []float64{105, 110, 111, 112, 113, 114}, same)
	s := newSession(t)
	s.do(t, cli.ExitOK, "compare", old, now)
	wants(t, s.out.String(), "+8.8 %  better", "2 better, 0 worse, 3 without")
	s.do(t, harness.ExitFailed, "compare", now, old, "--fail-on", "5%")
	s.do(t, cli.ExitOK, "compare", "--help")
	if strings.Contains(strings.Join(strings.Fields(s.out.String()), " "), "such as 5%, and its values do not overlap") {
		t.Error("the help says that values which overlap do not fail")
	}
}

// TestCompareScanCache: two runs that differ in the memory for scans are not taken as alike.
func TestCompareScanCache(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a.json"), filepath.Join(dir, "b.json")
	s := newSession(t)
	run := []string{"run", "--docs", "50", "--ops", "50", "--warmup", "0s", "--closed", "--json"}
	s.do(t, cli.ExitOK, append(run, a)...)
	s.do(t, cli.ExitOK, append(run, b, "--scan-cache", "1MiB")...)
	wants(t, s.out.String(), "memory budget 256 MiB, scan cache 1.00 MiB, ")
	s.do(t, cli.ExitOK, "compare", a, b)
	wants(t, s.out.String(), "scan cache differs: unknown, then 1.00 MiB")
}
