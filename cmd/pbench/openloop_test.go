package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/harness"
	"github.com/cleavestore/cleave/internal/measure"
	"github.com/cleavestore/cleave/internal/workload"
)

func TestParseRate(t *testing.T) {
	for text, want := range map[string]rate{
		"20000": {perSecond: 20_000}, "20k/s": {perSecond: 20_000}, "1.5M": {perSecond: 1_500_000},
		"60%": {share: 0.6}, "0.5 %": {share: 0.005}, "120%": {share: 1.2},
	} {
		var r rate
		if err := r.UnmarshalText([]byte(text)); err != nil || r != want {
			t.Errorf("%q reads as %+v: %v", text, r, err)
		}
	}
	for _, text := range []string{"", "x", "0", "-1", "%", "0%", "-5%", "NaN%", "2000%", "/s", "60%%"} {
		if err := new(rate).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q reads as a rate", text)
		}
	}
	if got := (rate{share: 0.6}).of(1000); got != 600 {
		t.Errorf("60 %% of 1000/s are %v/s", got)
	}
	if got := (rate{perSecond: 7}).of(1000); got != 7 {
		t.Errorf("7/s are %v/s", got)
	}
}

func TestConditions(t *testing.T) {
	var c conditions
	if err := c.UnmarshalText([]byte("read.p99<1ms, all.max>=50us,update.p999<2s")); err != nil || len(c) != 3 {
		t.Fatalf("%v: %+v", err, c)
	}
	if c[0].limit != time.Millisecond || c[0].above || !c[1].above || c[1].limit != 50*time.Microsecond || c[2].percentile != "p99.9" {
		t.Errorf("%+v", c)
	}
	for _, text := range []string{"", "read.p99", "read<1ms", "read.p98<1ms", "reads.p99<1ms", "read.p99<1", "read.p99<-1ms", "read.p99<1ms,", "p99<1ms"} {
		if err := new(conditions).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q reads as a condition", text)
		}
	}
	r := &results{All: operationFigures{Ops: 2, latencyFigures: latencyFigures{MaxMicros: 60}},
		Ops: map[string]operationFigures{"read": {Ops: 2, latencyFigures: latencyFigures{P99Micros: 999}}}}
	// There is no update: what is said of it does not hold.
	if met, broken := c.met(r), c.broken(r); met.String() != "read.p99<1ms,all.max>=50us" || broken.String() != "update.p999<2s" {
		t.Errorf("met %s, broken %s", met, broken)
	}
}

// The search ends near the rate that is sought, wherever it is.
func TestSearch(t *testing.T) {
	for _, truth := range []float64{0, 5, 80, 999, 3000, 9_900, 42_000, 100_000, 1e6} {
		s := search{maximum: 40_000}
		steps := 0
		for rate := s.next(); rate > 0; rate = s.next() {
			s.tried(rate, rate <= truth)
			if steps++; steps > 30 {
				t.Fatalf("%v: no end: %+v", truth, s)
			}
		}
		switch {
		case truth > 50_000: // past the top of the ladder
			if s.low != 50_000 || steps != len(ladder) {
				t.Errorf("%v: %+v", truth, s)
			}
		case truth < 40: // below what is looked at
			if s.low > truth {
				t.Errorf("%v: %+v", truth, s)
			}
		default:
			if s.low > truth || s.low < truth/1.06 {
				t.Errorf("%v: %+v after %d steps", truth, s, steps)
			}
		}
	}
	if s := (search{maximum: 3}); s.next() != 1 {
		t.Errorf("a slow store: %v", s.next())
	}
}

// openOutcome is an open loop of a second at 1,000/s.
func openOutcome(response, lag time.Duration, done int) *measure.Outcome {
	o := &measure.Outcome{Elapsed: time.Second, Pacing: measure.Pacing{Rate: 1000, Lag: 20 * time.Microsecond, Missed: int64(1000 - done)}}
	for range done {
		o.Tallies[workload.Read].RecordDue(response/2, response, lag)
	}
	return o
}

func TestLoopFigures(t *testing.T) {
	fine, slow := openOutcome(time.Millisecond, 50*time.Microsecond, 1000), openOutcome(time.Second, 0, 900)
	unsure := openOutcome(time.Millisecond, 200*time.Microsecond, 1000)
	for _, c := range []struct {
		outcomes []*measure.Outcome
		verdicts string
		texts    []string
	}{
		{[]*measure.Outcome{fine}, "", []string{"offered 1,000/s, achieved 1,000/s; 50 % of the 2,000/s of a closed loop", "lag      p50 50.", "over 20.0 µs", "verdict  OK"}},
		{[]*measure.Outcome{slow}, overloaded, []string{"achieved 900/s", "due and not begun: 100 operations", "verdict  OVERLOADED: "}},
		{[]*measure.Outcome{unsure}, suspect, []string{"verdict  SUSPECT: "}},
		{[]*measure.Outcome{fine, slow, unsure}, "OVERLOADED SUSPECT", []string{"OVERLOADED", "SUSPECT"}},
	} {
		l := newLoopFigures(c.outcomes, 2000)
		var b bytes.Buffer
		l.print(&b)
		if l.notes() != c.verdicts || l.Kind != openLoop {
			t.Errorf("%+v, want %q", l, c.verdicts)
		}
		wants(t, b.String(), c.texts...)
		text, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		wants(t, string(text), `"verdicts":[`, `"lag":{"p50_us":`, `"service":{`, `"all":{`)
	}
	o := &measure.Outcome{Elapsed: time.Second}
	o.Tallies[workload.Read].Record(time.Microsecond)
	var b bytes.Buffer
	l := newLoopFigures([]*measure.Outcome{o}, 0)
	if l.print(&b); l.Kind != closedLoop || len(l.Verdicts) != 0 || b.Len() > 0 {
		t.Errorf("closed: %+v, printed %q", l, &b)
	}
}

// A run at a rate tells service and response times, and how it was paced.
func TestRunAtRate(t *testing.T) {
	s := newSession(t)
	s.do(t, cli.ExitOK, "run", "--docs", "100", "--rate", "2000", "--ops", "200", "--warmup", "1ms", "--workload", "a")
	wants(t, s.out.String(), "64 workers, open loop at 2,000/s, synced", "service p50", "response p50", "offered 2,000/s", "verdict  ", "µs: how late the clock woke")
	s.do(t, cli.ExitOK, "run", "--docs", "100", "--rate", "5%", "--ops", "200", "--warmup", "1ms", "--workers", "3", "--json", "-", "--spin")
	var r report
	if err := json.Unmarshal(s.out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	l := r.Engine.Loop
	if r.All.Ops != 200 || l.Kind != openLoop || l.Maximum <= 0 || l.Offered <= 0 || !l.Spins || l.Lag == nil || l.Service["read"].P50Micros <= 0 || r.Engine.Run.Rate != l.Offered {
		t.Errorf("%s", &s.out)
	}
	if got := keysOf(t, s.out.Bytes()); strings.Join(got, " ") != "all engine ops v workload" {
		t.Errorf("fields %q", got)
	}
	// Inserts of the trial are not made again. The store of the session above has
	// documents with the same names.
	s = newSession(t)
	dir := t.TempDir()
	s.do(t, cli.ExitOK, "load", "--db", dir, "--docs", "10")
	s.do(t, cli.ExitOK, "run", "--db", dir, "--workload", "insert", "--rate", "10%", "--ops", "50", "--warmup", "0s")
	known, err := harness.ReadCatalog(dir)
	if n := int64(len(s.store.containers["docs"].docs)); err != nil || known.Containers["docs"].Documents != n || n < 60 {
		t.Errorf("%v: %d documents, %+v known", err, n, known)
	}
}

func TestFailIf(t *testing.T) {
	s := newSession(t)
	run := []string{"run", "--docs", "100", "--closed", "--ops", "100", "--warmup", "0s", "--fail-if"}
	s.do(t, harness.ExitFailed, append(run, "all.max>1ns,read.p50<1h")...)
	wants(t, s.errOut.String(), "failed, as asked for: all.max>1ns,read.p50<1h")
	wants(t, s.out.String(), "ALL ")
	s.do(t, cli.ExitOK, append(run, "all.max>1h")...)
}

// What --out writes is read back.
func TestOut(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "results")
	s := newSession(t)
	s.do(t, cli.ExitOK, "run", "--docs", "100", "--rate", "2000", "--ops", "300", "--count", "2", "--warmup", "1ms", "--workload", "a", "--out", dir, "--profile", "heap")
	rep, err := readReport(filepath.Join(dir, runFile))
	if err != nil || rep.All.Ops != 600 || len(rep.Engine.Repeats) != 2 || rep.Engine.Repeats[1].All.Ops != 300 {
		t.Fatalf("%v: %+v", err, rep)
	}

	file, err := os.Open(filepath.Join(dir, seriesFile))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	perRepeat := make(map[int]int64)
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var line second
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil || line.V != 1 || line.Seconds <= 0 || line.AtS < line.Seconds || line.Offered != 2000 {
			t.Fatalf("%v: %s", err, lines.Bytes())
		}
		if line.All.Ops > 0 && (line.Lag == nil || line.Service["all"].MaxMicros == 0 || line.All.MaxMicros == 0) {
			t.Errorf("%s", lines.Bytes())
		}
		perRepeat[line.Repeat] += line.All.Ops
	}
	if perRepeat[1] != 300 || perRepeat[2] != 300 {
		t.Errorf("operations of the series: %v", perRepeat)
	}

	hlog, err := os.Open(filepath.Join(dir, hlogFile))
	if err != nil {
		t.Fatal(err)
	}
	defer hlog.Close()
	counts := make(map[string]int64)
	reader := hdrhistogram.NewHistogramLogReader(hlog)
	for {
		h, err := reader.NextIntervalHistogram()
		if err != nil {
			t.Fatal(err)
		}
		if h == nil {
			break
		}
		if h.EndTimeMs() < h.StartTimeMs() || time.Since(time.UnixMilli(h.StartTimeMs())) > time.Hour {
			t.Errorf("an interval from %d to %d", h.StartTimeMs(), h.EndTimeMs())
		}
		counts[h.Tag()] += h.TotalCount()
	}
	reads, updates := rep.Ops["read"].Ops, rep.Ops["update"].Ops
	if counts["read"] != reads || counts["read.service"] != reads || counts["update"] != updates || counts["update.service"] != updates || len(counts) != 4 {
		t.Errorf("histograms of %v, there were %d and %d", counts, reads, updates)
	}

	text, err := os.ReadFile(filepath.Join(dir, benchFile))
	if err != nil {
		t.Fatal(err)
	}
	checkBench(t, string(text), 6)
	if info, err := os.Stat(filepath.Join(dir, "heap.pprof")); err != nil || info.Size() == 0 {
		t.Error(err)
	}
	s.do(t, cli.ExitUsage, "run", "--docs", "100", "--out", dir)
}

var benchLine = regexp.MustCompile(`^Benchmark\S+-\d+\t\d+(\t[0-9.]+ \S+)+$`)

// checkBench checks the form of Go benchmark lines: pairs of value and unit.
func checkBench(t *testing.T, text string, want int) {
	t.Helper()
	lines := 0
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if !strings.HasPrefix(line, "Benchmark") {
			continue
		}
		lines++
		fields := strings.Fields(line)
		if !benchLine.MatchString(line) || len(fields)%2 != 0 || !strings.Contains(line, "/op=") {
			t.Errorf("%q", line)
		}
		for i := 2; i < len(fields); i += 2 {
			if _, err := strconv.ParseFloat(fields[i], 64); err != nil {
				t.Errorf("%q: %v", line, err)
			}
		}
	}
	if lines != want {
		t.Errorf("%d lines, want %d, in\n%s", lines, want, text)
	}
	wants(t, text, "goos: ", "goarch: ", "pkg: ", "Unit ops/s better=higher\n", "Unit p99-ns better=lower\n", " ns/op\t")
}

func TestSweep(t *testing.T) {
	s := newSession(t)
	args := []string{"sweep", "--docs", "50", "--generator", "small", "--workload", "a", "--duration", "10ms", "--warmup", "1ms", "--workers", "4", "--slo"}
	s.do(t, cli.ExitOK, append(args, "read.p99<1h,all.max<1h")...)
	wants(t, s.out.String(), "rate", "achieved", "response p50", "read p99 by rate", "| is 1h0m0s", "all max by rate", "▓")
	s.do(t, cli.ExitOK, append(args, "read.p50<1ns", "--json", "-")...)
	var r sweepReport
	if err := json.Unmarshal(s.out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if r.V != 1 || r.Best != 0 || r.Maximum <= 0 || len(r.Steps) < 2 || len(r.SLO) != 1 {
		t.Errorf("%s", &s.out)
	}
	for i, step := range r.Steps {
		if step.Met || len(step.Broken) != 1 || step.Loop.Offered != step.Rate || i > 0 && step.Rate <= r.Steps[i-1].Rate {
			t.Errorf("%+v", step)
		}
	}
	s.do(t, cli.ExitOK, append(args, "read.p50<1ns")...)
	wants(t, s.out.String(), "no rate that was tried meets read.p50<1ns")
	dir := t.TempDir()
	s.do(t, cli.ExitOK, "load", "--db", dir, "--docs", "10", "--generator", "small")
	s.store.containers["docs"].readErr = errors.New("the disk is gone")
	s.do(t, harness.ExitFailed, "sweep", "--db", dir, "--workload", "c", "--slo", "read.p99<1ms", "--warmup", "0s")
	wants(t, s.errOut.String(), "the disk is gone")
}

// TestSweepSeeds: the closed loop that finds the maximum, and each step, perform operations of their own.
func TestSweepSeeds(t *testing.T) {
	s := newSession(t)
	dir := t.TempDir()
	s.do(t, cli.ExitOK, "load", "--db", dir, "--docs", "1000", "--generator", "small")
	reads := make(map[int][]string) // the first of the closed loop and of each step
	s.store.containers["docs"].onRead = func(id string) {
		if list := reads[s.store.settled]; len(list) < 10 {
			reads[s.store.settled] = append(list, strings.Clone(id))
		}
	}
	settled := s.store.settled
	s.do(t, cli.ExitOK, "sweep", "--db", dir, "--workload", "c", "--duration", "500ms", "--warmup", "0s", "--workers", "1", "--slo", "read.max<1h")
	if len(reads) < 3 || len(reads[settled]) < 10 {
		t.Fatalf("reads of %d loops: %v", len(reads), reads)
	}
	seen := make(map[string]int)
	for loop, list := range reads {
		text := strings.Join(list, " ")
		if other, ok := seen[text]; ok {
			t.Errorf("loops %d and %d read the same: %s", other, loop, text)
		}
		seen[text] = loop
	}
}

// The rules by which a step meets the bounds.
func TestSweepStep(t *testing.T) {
	slo := conditions{{text: "read.p99<2ms", op: "read", percentile: "p99", limit: 2 * time.Millisecond}}
	for _, c := range []struct {
		o    *measure.Outcome
		met  bool
		note string
	}{
		{openOutcome(time.Millisecond, 0, 1000), true, "met"},
		{openOutcome(3*time.Millisecond, 0, 1000), false, "not met"},
		{openOutcome(time.Millisecond, 0, 980), false, "not met  OVERLOADED"},
		{openOutcome(time.Millisecond, time.Millisecond, 1000), true, "met  SUSPECT"},
	} {
		if step := newSweepStep(1000, c.o, slo); step.Met != c.met || step.notes() != c.note {
			t.Errorf("%+v: %s", step, step.notes())
		}
	}
}

// TestSweepErrors: a rate at which operations fail does not meet the bounds, and the search goes on below it.
func TestSweepErrors(t *testing.T) {
	slo := conditions{{text: "read.p99<2ms", op: "read", percentile: "p99", limit: 2 * time.Millisecond}}
	failed, refused := openOutcome(time.Millisecond, 0, 1000), openOutcome(time.Millisecond, 0, 1000)
	failed.Tallies[workload.Read].Errors, refused.Tallies[workload.Read].Throttled = 3, 3
	if step := newSweepStep(1000, failed, slo); step.Met || step.notes() != "not met  3 failed" {
		t.Errorf("%+v: %s", step, step.notes())
	}
	if step := newSweepStep(1000, refused, slo); step.Met {
		t.Errorf("%+v: %s", step, step.notes())
	}
	s := newSession(t)
	s.store.fails = 1 // in each step
	s.do(t, cli.ExitOK, "sweep", "--docs", "50", "--generator", "small", "--workload", "c", "--duration", "100ms", "--warmup", "0s", "--workers", "4", "--slo", "read.p99<1h")
	wants(t, s.out.String(), "not met", "1 failed", "no rate that was tried meets")
}

// On a terminal a line shows the loop; elsewhere nothing is drawn.
func TestLiveLine(t *testing.T) {
	var stats harness.StoreStats
	var b bytes.Buffer
	l := harness.LiveLine{Env: &harness.Environment{Stderr: &b, Width: 300}, Label: "run", Offered: 1000, Stats: func() harness.StoreStats { return stats }}
	now := time.Unix(1000, 0)
	at := func(s float64, part float64, ops, behind int64) measure.Progress {
		d := time.Duration(s * float64(time.Second))
		return measure.Progress{Now: now.Add(d), Elapsed: d, Part: part, Operations: ops, Behind: behind}
	}
	stats = harness.StoreStats{Flushes: 7, Compactions: 2}
	l.Watch(at(0.2, 0.1, 200, 0))
	o := openOutcome(1234*time.Microsecond, 90*time.Microsecond, 100)
	o.Tallies[workload.Update].Errors = 3
	l.Interval(measure.Interval{Progress: at(1, 0.5, 1000, 0), Tallies: &o.Tallies})
	stats = harness.StoreStats{Flushes: 9, Compactions: 3, Stalls: 1, BufferBytes: 3 << 20}
	l.Watch(at(1, 0.5, 990, 10))
	const want = "run 00:01 ▓▓▓▓▓▓▓▓▓▓░░░░░░░░░░  50 %  990/s of 1,000/s  behind 10  read p99 1.23  lag 0.090 ms  errors 3  buffers 3.00 MiB  flushes 2  compactions 1  stalls 1"
	if got := strings.TrimPrefix(b.String(), "\r"); got != want {
		t.Errorf("drawn\n%q, want\n%q", got, want)
	}
	done := at(2, 1, 2000, 0)
	done.Done = true
	l.Watch(done)
	if !strings.HasSuffix(b.String(), "\r") {
		t.Error("the line is left")
	}
	b.Reset()
	l.Env = &harness.Environment{Stderr: &b}
	l.Watch(at(0.2, 0.1, 200, 0))
	l.Watch(at(1, 0.5, 990, 10))
	l.Watch(done)
	if b.Len() > 0 {
		t.Errorf("without a terminal %q is drawn", &b)
	}
}

// The demonstration ends with a line for newcomers.
func TestReached(t *testing.T) {
	l := &harness.LoadResult{Documents: 1000, Elapsed: 2 * time.Second}
	rep := newReport("ycsb-b", openOutcome(time.Millisecond, 0, 1000), &engineFigures{Loop: newLoopFigures([]*measure.Outcome{openOutcome(time.Millisecond, 0, 1000)}, 2000)})
	text := reached(l, rep)
	wants(t, text, "loaded 500/s", "at most 2,000/s", "at 50 % of it 99 of 100 reads took at most 1.00 ms")
	rep.Engine.Loop.Verdicts = []string{overloaded}
	wants(t, reached(l, rep), "too busy to keep up")
	rep.Engine.Loop.Verdicts = []string{suspect}
	wants(t, reached(l, rep), "the calls of 99 of 100 reads")
	if strings.Contains(text, "\n") {
		t.Errorf("%q is more than a line", text)
	}
}
