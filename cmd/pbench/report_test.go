package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/harness"
)

// recordedRun measures a little with a split, and returns the directory.
func recordedRun(t *testing.T, s *session, args ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	s.do(t, cli.ExitOK, append([]string{"run", "--docs", "2000", "--generator", "small", "--workload", "ycsb-a", "--durability", "buffered",
		"--warmup", "0s", "--out", dir}, args...)...)
	return dir
}

var outsidePage = regexp.MustCompile(`(?i)(\bhref=|\bsrc=|url\(|@import|https?://|//[a-z])`)

// checkPage checks the form of a page: each picture is well-formed, tags are closed, nothing
// is asked of the network.
func checkPage(t *testing.T, page string) {
	t.Helper()
	for _, svg := range regexp.MustCompile(`(?s)<svg class="chart".*?</svg>\s*</div>`).FindAllString(page, -1) {
		d := xml.NewDecoder(strings.NewReader(strings.TrimSuffix(strings.TrimSpace(svg), "</div>")))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%v in\n%s", err, svg)
			}
		}
		for _, want := range []string{"<title", "<desc"} {
			if !strings.Contains(svg, want) {
				t.Errorf("a picture has no %s", want)
			}
		}
	}
	text := strings.ReplaceAll(page, `"http://www.w3.org/2000/svg"`, "")
	text = regexp.MustCompile(`(?m)^\s*// .*$`).ReplaceAllString(text, "")
	if m := outsidePage.FindString(text); m != "" {
		t.Errorf("%q refers to something outside", m)
	}
	if strings.Contains(page, "NaN") || strings.Contains(page, "ZgotmplZ") {
		t.Error("a value is no number, or the template refused one")
	}
	for _, tag := range []string{"div", "figure", "table", "section", "details", "svg", "g", "tr", "td", "script", "style"} {
		if a, b := len(regexp.MustCompile(`<`+tag+`[\s>]`).FindAllString(page, -1)), strings.Count(page, "</"+tag+">"); a != b {
			t.Errorf("<%s>: %d begin, %d end", tag, a, b)
		}
	}
}

// figureIn returns what the script of a page knows of a figure.
func figureIn(t *testing.T, page, id string) (d figureData) {
	t.Helper()
	m := regexp.MustCompile(`(?s)<script type="application/json" data-for="` + id + `">(.*?)</script>`).FindStringSubmatch(page)
	if m == nil {
		t.Fatalf("no numbers of %s", id)
	}
	if err := json.Unmarshal([]byte(m[1]), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// drawnAs reports whether a point of a line has a value; nil is a gap.
func drawnAs(point *float64, value float64) bool { return point != nil && *point == value }

// TestReportPage: the page of a run with a split under load has all series, with the numbers
// of the files.
func TestReportPage(t *testing.T) {
	s := newEngineSession(t)
	dir := recordedRun(t, s, "--rate", "500", "--duration", "3s", "--split-at", "1s")
	file := filepath.Join(t.TempDir(), "r.html")
	s.do(t, cli.ExitOK, "report", dir, "--html", file)
	wants(t, s.errOut.String(), "the report is in "+file)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	checkPage(t, page)
	var seconds []second
	if err := readLines(filepath.Join(dir, seriesFile), func(s second) { seconds = append(seconds, s) }); err != nil {
		t.Fatal(err)
	}
	for id, names := range map[string][]string{
		"latency": {"p50", "p99", "p99.9", "max"}, "op-read": {"p99"}, "op-update": {"p99"}, "rate": {"offered", "achieved"}, "curve": {"all", "all, calls", "read", "update"},
		"bytes": {"by the caller", "log"}, "amplification": {"by the engine to files"}, "memory": {"write buffers"},
	} {
		d := figureIn(t, page, id)
		for _, name := range names {
			found := false
			for _, l := range d.Lines {
				found = found || l.Name == name && len(l.Y) > 0
			}
			if !found {
				t.Errorf("%s has no line %q", id, name)
			}
		}
	}
	var drawn []second
	for _, s := range seconds {
		if s.Seconds >= minPart {
			drawn = append(drawn, s)
		}
	}
	rate, latency, heat := figureIn(t, page, "rate"), figureIn(t, page, "latency"), figureIn(t, page, "heat")
	if len(drawn) < 2 || len(rate.Lines) != 2 || len(rate.Lines[1].Y) != len(drawn) || len(heat.Heat) != len(drawn) {
		t.Fatalf("%d seconds; %d lines, %d columns", len(drawn), len(rate.Lines), len(heat.Heat))
	}
	for i, s := range drawn {
		if !drawnAs(rate.Lines[1].Y[i], s.All.OpsPerS) {
			t.Errorf("second %d: the rate %v is not drawn", i, s.All.OpsPerS)
		}
		// A second in which no operation returned has no latency, and the line a gap.
		if p99 := latency.Lines[1].Y[i]; s.All.Ops == 0 && p99 != nil || s.All.Ops > 0 && !drawnAs(p99, s.All.P99Micros) {
			t.Errorf("second %d: %d operations, whose latency %v is not drawn", i, s.All.Ops, s.All.P99Micros)
		}
		sum, total := 0.0, int64(0)
		for place, n := range s.OpsByPlace {
			total += n
			sum += heat.Heat[i].Values[place]
		}
		if total != s.All.Ops {
			t.Errorf("second %d: %d of %d operations have a place", i, total, s.All.Ops)
		}
		// Each of the 64 places has a rate rounded to 0.1; a second can last longer than one.
		if math.Abs(sum-float64(total)/s.Seconds) > 64*0.06 {
			t.Errorf("second %d: the heat adds up to %v", i, sum*s.Seconds)
		}
	}
	rep, err := readReport(filepath.Join(dir, runFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range figureIn(t, page, "curve").Lines {
		if l.Name == allName && math.Abs(*l.Y[len(l.Y)-1]-rep.All.MaxMicros) > rep.All.MaxMicros/500 {
			t.Errorf("the curve ends at %v, the longest took %v µs", *l.Y[len(l.Y)-1], rep.All.MaxMicros)
		}
	}
	wants(t, page, "boundary from a split", "boundary before", ">flush<", ">split<", "split of P", "pbench run --docs 2000", "memory budget", "Splits, merges and moves",
		"prefers-color-scheme:dark", "<summary>Numbers: Response times</summary>")
}

// TestReportTwo: two runs are drawn over each other and compared.
func TestReportTwo(t *testing.T) {
	s := newSession(t)
	a := recordedRun(t, s, "--closed", "--ops", "3000")
	b := recordedRun(t, newSession(t), "--closed", "--ops", "3000")
	s.do(t, cli.ExitOK, "report", a, b, "--html", "-")
	page := s.out.String()
	checkPage(t, page)
	wants(t, page, "A against B", "A p99", "B p99", "A achieved", "B achieved", "of 15 figures")
	rate := figureIn(t, page, "rate")
	if len(rate.Lines) != 2 || rate.Lines[0].Name != "A achieved" || rate.Lines[1].Name != "B achieved" {
		t.Errorf("%+v", rate.Lines)
	}
}

// TestRunReport: a run draws itself, with --out and without, and says when it cannot.
func TestRunReport(t *testing.T) {
	file := filepath.Join(t.TempDir(), "r.html")
	s := newSession(t)
	s.do(t, cli.ExitOK, "run", "--docs", "500", "--generator", "small", "--closed", "--ops", "2000", "--warmup", "0s", "--report", file)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	checkPage(t, string(text))
	wants(t, string(text), "pbench run --docs 500", "No operation failed")
	if strings.Contains(string(text), "pbench report") {
		t.Error("the page names a directory that is removed")
	}
	onto := []string{"run", "--docs", "500", "--generator", "small", "--closed", "--ops", "100", "--warmup", "0s", "--report", "-"}
	s.do(t, cli.ExitOK, onto...)
	if page := s.out.String(); !strings.HasPrefix(page, "<!DOCTYPE html>") || !strings.HasSuffix(strings.TrimSpace(page), "</html>") {
		t.Errorf("standard output has more than the page:\n%.300s", page)
	}
	s.do(t, cli.ExitUsage, append(onto, "--json", "-")...)
	s.do(t, harness.ExitFailed, "run", "--docs", "500", "--generator", "small", "--closed", "--ops", "2000", "--warmup", "0s", "--report", filepath.Join(file, "x"))
	wants(t, s.errOut.String(), "--report")
	if s.out.Len() > 0 {
		t.Errorf("the run began:\n%s", &s.out)
	}
	s.do(t, harness.ExitFailed, "report", t.TempDir())
	wants(t, s.errOut.String(), "pbench run --out")
}

// TestRunOutputs: the figures are written beside a page, and where a profile cannot be written.
func TestRunOutputs(t *testing.T) {
	dir := t.TempDir()
	s := newSession(t)
	run := []string{"run", "--docs", "500", "--generator", "small", "--closed", "--ops", "500", "--warmup", "0s", "--json"}
	drawn, profiled := filepath.Join(dir, "drawn.json"), filepath.Join(dir, "profiled.json")
	s.do(t, cli.ExitOK, append(run, drawn, "--report", filepath.Join(dir, "r.html"))...)
	if err := os.Mkdir(filepath.Join(dir, "heap.pprof"), 0o700); err != nil {
		t.Fatal(err)
	}
	s.do(t, harness.ExitFailed, append(run, profiled, "--profile", "heap", "--profile-out", dir)...)
	wants(t, s.errOut.String(), "heap.pprof")
	for _, name := range []string{drawn, profiled} {
		if _, err := readReport(name); err != nil {
			t.Error(err)
		}
	}
}

// TestReportOfKilled: the series of a run that was killed ends within a line, and is read up
// to there.
func TestReportOfKilled(t *testing.T) {
	s := newSession(t)
	dir := recordedRun(t, s, "--closed", "--ops", "3000")
	name := filepath.Join(dir, seriesFile)
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, append(text, `{"v":1,"rep`...), 0o600); err != nil {
		t.Fatal(err)
	}
	s.do(t, cli.ExitOK, "report", dir, "--html", "-")
	if err := os.WriteFile(name, append([]byte("nonsense\n"), text...), 0o600); err != nil {
		t.Fatal(err)
	}
	s.do(t, harness.ExitFailed, "report", dir, "--html", "-")
	wants(t, s.errOut.String(), seriesFile, "line 1")
}

// TestReportUnreadable: a file that cannot be read to its end makes no report that lacks what is in it.
func TestReportUnreadable(t *testing.T) {
	s := newEngineSession(t)
	dir := recordedRun(t, s, "--closed", "--ops", "100")
	events := filepath.Join(dir, eventsFile)
	if err := errors.Join(os.Remove(events), os.Mkdir(events, 0o700)); err != nil {
		t.Fatal(err)
	}
	s.do(t, harness.ExitFailed, "report", dir, "--html", "-")
	wants(t, s.errOut.String(), eventsFile)
}

func TestQuoted(t *testing.T) {
	for text, want := range map[string]string{"a-b=1": "a-b=1", "": "''", "p99<1ms": "'p99<1ms'", "it's": `'it'\''s'`} {
		if got := harness.Quoted(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// TestCommandQuoted: the command that a result begins with is one that can be given again.
func TestCommandQuoted(t *testing.T) {
	s := newSession(t)
	dir := filepath.Join(t.TempDir(), "it's a store")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s.do(t, cli.ExitOK, "load", "--db", dir, "--docs", "10", "--generator", "small")
	wants(t, s.out.String(), "$ pbench load --db "+harness.Quoted(dir)+" --docs 10")
}

// TestBytesOfTheDevice: what the device writes for all programs is drawn beside what the store
// writes, and is no part of the amplification of the store.
func TestBytesOfTheDevice(t *testing.T) {
	written := int64(1 << 30)
	r := &recorded{seconds: []second{
		{Repeat: 1, AtS: 1, Seconds: 1, WrittenBytes: 1000, LogBytes: 1500, DiskWritten: &written},
		{Repeat: 1, AtS: 2, Seconds: 1, WrittenBytes: 1000, LogBytes: 1500, FlushBytes: 1000, DiskWritten: &written},
	}}
	lines := amplificationLines([]*recorded{r})
	if len(lines) != 1 || len(lines[0].Points) != 2 || lines[0].Points[0].Y != 1.5 || lines[0].Points[1].Y != 2 {
		t.Errorf("amplification: %+v", lines)
	}
	for _, l := range byteLines([]*recorded{r}) {
		if l.Name == "device, for all programs" {
			if len(l.Points) != 2 || l.Points[1].Y != float64(written) {
				t.Errorf("%+v", l)
			}
			return
		}
	}
	t.Error("no line of the device")
}
