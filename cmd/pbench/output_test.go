package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/harness"
	"github.com/cleavestore/cleave/internal/measure"
	"github.com/cleavestore/cleave/internal/workload"
)

func keysOf(t *testing.T, text []byte) []string {
	t.Helper()
	var object map[string]json.RawMessage
	if err := json.Unmarshal(text, &object); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return slices.Sorted(maps.Keys(object))
}

// The form that programs read: fields may be added to engine only.
func TestJSONForm(t *testing.T) {
	o := &measure.Outcome{Elapsed: 2 * time.Second}
	for range 1000 {
		o.Tallies[workload.Read].Record(2 * time.Microsecond)
	}
	o.Tallies[workload.Update].Record(40 * time.Microsecond)
	o.Tallies[workload.Update].Errors = 2
	var b bytes.Buffer
	if err := harness.WriteJSON(&b, newReport("ycsb-b", o, &engineFigures{})); err != nil {
		t.Fatal(err)
	}
	if got := keysOf(t, b.Bytes()); !slices.Equal(got, []string{"all", "engine", "ops", "v", "workload"}) {
		t.Errorf("fields %q", got)
	}
	var r struct {
		V        int
		Workload string
		All      json.RawMessage
		Ops      map[string]json.RawMessage
	}
	if err := json.Unmarshal(b.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if r.V != 1 || r.Workload != "ycsb-b" {
		t.Errorf("version %d of %q", r.V, r.Workload)
	}
	if got := slices.Sorted(maps.Keys(r.Ops)); !slices.Equal(got, []string{"read", "update"}) {
		t.Errorf("operations %q", got)
	}
	fields := []string{"errors", "max_us", "ops", "ops_per_s", "p50_us", "p999_us", "p99_us"}
	for _, text := range []json.RawMessage{r.All, r.Ops["read"], r.Ops["update"]} {
		if got := keysOf(t, text); !slices.Equal(got, fields) {
			t.Errorf("fields %q", got)
		}
	}
	var all operationFigures
	if err := json.Unmarshal(r.All, &all); err != nil {
		t.Fatal(err)
	}
	if all.Ops != 1001 || all.Errors != 2 || all.OpsPerS != 500.5 || all.P50Micros < 1.99 || all.P50Micros > 2.01 || all.MaxMicros < 39.9 || all.MaxMicros > 40.1 {
		t.Errorf("%+v", all)
	}
}

func TestReportText(t *testing.T) {
	o := &measure.Outcome{Elapsed: time.Second}
	for range 4 {
		o.Tallies[workload.Read].Record(1000 * time.Nanosecond)
	}
	o.Tallies[workload.Read].Bytes = 8 << 20
	f := &engineFigures{
		Writes: 4, WrittenBytes: 1 << 20, LogBytes: 3 << 19, FlushBytes: 512, Flushes: 1, Syncs: 2, WriteAmplification: 2,
		Waited:   waits{Sync: wait{3, 2e6}, BackPressure: wait{2, 1.5e6}},
		Memory:   measure.Memory{Resident: 2 << 10, PeakResident: 3 << 10, Anonymous: 1 << 10, PeakAnonymous: 1 << 10},
		RawBytes: 1 << 10, DiskBytes: 512, SpaceAmplification: 0.5,
		Process: &processFigures{CPUSeconds: 0.9, Collections: 3},
		Client:  &clientFigures{MicrosPerOp: 0.7, CallsPerS: 1e6},
	}
	var b bytes.Buffer
	newReport("read", o, f).print(&b)
	f.print(&b)
	const want = `operation  count  ops/s  MiB/s  mean µs  p50 µs  p99 µs  p99.9 µs  max µs  errors
read           4      4   8.00      1.0     1.0     1.0       1.0     1.0       0
ALL            4      4   8.00      1.0     1.0     1.0       1.0     1.0       0
latencies are those of the calls, without the making of documents; MiB are of documents read and written
  written  1.00 MiB by the caller; log 1.50 MiB, 1 flush 512 B, 0 compactions 0 B: write amplification 2.00
  waited   sync 2.00 s in 3 (2 syncs), back-pressure 1.50 s in 2, cold reads 0.00 s in 0; all workers together
  memory   resident 2.00 KiB (peak 3.00 KiB), anonymous 1.00 KiB (peak 1.00 KiB)
  disk     512 B after close, 0.50 of the 1.00 KiB of documents in it
  process  0.90 s of processor time, 0.00 allocations an operation, 3 garbage collections
  pbench   takes 0.70 µs of its own for an operation, and 0 B of memory
           without it the one worker would make 1,000,000 calls a second
`
	if b.String() != want {
		t.Errorf("got\n%s", &b)
	}
}

// The bar gives way to the text.
func TestProgressBar(t *testing.T) {
	start := time.Unix(1000, 0)
	const text = "12,345,000 documents  13.5 GiB  125,000/s  135 MiB/s"
	for width, want := range map[int]string{
		300: "\rload 01:05 ▓▓▓▓▓▓▓▓▓▓░░░░░░░░░░  50 %  " + text,
		80:  "\rload 01:05 ▓▓▓░░░░  50 %  " + text,
		76:  "\rload 01:05 ▓▓░░  50 %  " + text,
		60:  "\rload 01:05   50 %  " + text[:40],
	} {
		var b bytes.Buffer
		p := harness.NewProgress(&harness.Environment{Stderr: &b, Width: width}, "load", start)
		p.Show(start.Add(65*time.Second), 0.5, func() string { return text })
		if b.String() != want {
			t.Errorf("%d columns: drawn %q", width, &b)
		}
	}
}

func TestProgressElsewhere(t *testing.T) {
	var b bytes.Buffer
	start := time.Unix(1000, 0)
	p := harness.NewProgress(&harness.Environment{Stderr: &b}, "load", start)
	text := func() string { return "text" }
	p.Show(start, 0, text)
	p.Show(start.Add(harness.LineEvery-1), 0.1, text)
	p.Show(start.Add(harness.LineEvery), 0.25, text)
	p.Show(start.Add(harness.LineEvery+1), 0.3, text)
	p.Show(start.Add(2*harness.LineEvery), -1, text)
	p.End()
	if want := "load 00:10  25 %  text\nload 00:20  text\n"; b.String() != want {
		t.Errorf("printed %q", &b)
	}
}

func TestMachineWithoutRevision(t *testing.T) {
	var b bytes.Buffer
	(&harness.Environment{Name: "pbench", Args: []string{"run"}}).PrintMachine(&b, measure.Machine{Go: "go1", Platform: "p/q", Cores: 2})
	if want := "$ pbench run\ngo1, p/q, CPU unknown, 2 cores, file system unknown\n"; b.String() != want {
		t.Errorf("printed %q", &b)
	}
	b.Reset()
	(&harness.Environment{Name: "pbench"}).PrintMachine(&b, measure.Machine{Revision: "abc"})
	wants(t, b.String(), ", revision abc\n")
}
