package main

import (
	"fmt"
	"io"

	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/harness"
	"github.com/cleavestore/cleave/internal/humanize"
	"github.com/cleavestore/cleave/internal/measure"
	"github.com/cleavestore/cleave/internal/workload"
)

// report is what a run prints as JSON. Its form is fixed; fields may be added
// to engine.
type report struct {
	V        int    `json:"v"`
	Workload string `json:"workload"`
	results
	Engine *engineFigures `json:"engine"`
}

// results are the figures of the operations of a run, or of a part of it.
type results struct {
	All operationFigures            `json:"all"`
	Ops map[string]operationFigures `json:"ops"`
}

// operationFigures describe operations of one kind, or of all. Latencies are
// those of operations that succeeded, in microseconds: response times in an
// open loop, service times in a closed one.
type operationFigures struct {
	Ops     int64   `json:"ops"` // that succeeded
	OpsPerS float64 `json:"ops_per_s"`
	Errors  int64   `json:"errors"`
	latencyFigures

	service         latencyFigures
	mean, bytesPerS float64
}

// latencyFigures are percentiles in microseconds.
type latencyFigures struct {
	P50Micros float64 `json:"p50_us"`
	P99Micros float64 `json:"p99_us"`
	P999      float64 `json:"p999_us"`
	MaxMicros float64 `json:"max_us"`
}

func newLatencyFigures(l *measure.Latencies) latencyFigures {
	return latencyFigures{P50Micros: l.Micros(50), P99Micros: l.Micros(99), P999: l.Micros(99.9), MaxMicros: l.Micros(100)}
}

// percentile returns one of percentiles.
func (f *latencyFigures) percentile(name string) float64 {
	switch name {
	case "p50":
		return f.P50Micros
	case "p99":
		return f.P99Micros
	case "p99.9":
		return f.P999
	}
	return f.MaxMicros
}

func newOperationFigures(t *measure.Tally, seconds float64) operationFigures {
	f := operationFigures{
		Ops: t.Successes(), Errors: t.Errors,
		latencyFigures: newLatencyFigures(t.Latencies()), service: newLatencyFigures(&t.Service),
	}
	if seconds > 0 {
		f.OpsPerS = harness.Round(float64(f.Ops)/seconds, 1)
		f.bytesPerS = float64(t.Bytes) / seconds
	}
	if f.Ops > 0 {
		f.mean = harness.Micros(t.Busy) / float64(f.Ops)
	}
	return f
}

func newResults(o *measure.Outcome) results { return resultsOf(&o.Tallies, o.Elapsed.Seconds()) }

func resultsOf(t *measure.Tallies, seconds float64) results {
	r := results{Ops: make(map[string]operationFigures)}
	for op := range t {
		if t[op].Successes()+t[op].Errors > 0 {
			r.Ops[workload.Op(op).String()] = newOperationFigures(&t[op], seconds)
		}
	}
	all := t.All()
	r.All = newOperationFigures(&all, seconds)
	return r
}

// operation returns the figures of one kind of operation, or of all.
func (r *results) operation(name string) (operationFigures, bool) {
	if name == allName {
		return r.All, true
	}
	f, ok := r.Ops[name]
	return f, ok
}

// names returns the kinds of operations there are, in the order of tables, and
// allName.
func (r *results) names() (names []string) {
	for op := range workload.NumOps {
		if name := workload.Op(op).String(); r.Ops[name] != (operationFigures{}) {
			names = append(names, name)
		}
	}
	return append(names, allName)
}

// displayName is how tables call operations.
func displayName(name string) string {
	if name == allName {
		return "ALL"
	}
	return name
}

func newReport(name string, o *measure.Outcome, figures *engineFigures) *report {
	return &report{V: 1, Workload: name, results: newResults(o), Engine: figures}
}

// print writes the table of operations.
func (r *report) print(w io.Writer) {
	open := r.Engine.Loop.isOpen()
	headings := []string{"<operation", "count", "ops/s", "MiB/s", "mean µs", "p50 µs", "p99 µs", "p99.9 µs", "max µs", "errors"}
	if open {
		headings = []string{"<operation", "count", "ops/s", "MiB/s", "service p50", "p99", "p99.9", "max", "response p50", "p99", "p99.9", "max", "errors"}
	}
	latencies := func(f latencyFigures) []string {
		return []string{harness.FormatMicros(f.P50Micros), harness.FormatMicros(f.P99Micros), harness.FormatMicros(f.P999), harness.FormatMicros(f.MaxMicros)}
	}
	t := cli.NewTable(headings...)
	for _, name := range r.names() {
		f, _ := r.operation(name)
		row := []string{displayName(name), humanize.Count(f.Ops), humanize.Count(int64(f.OpsPerS)), humanize.Number(f.bytesPerS / (1 << 20))}
		if open {
			row = append(row, latencies(f.service)...)
		} else {
			row = append(row, harness.FormatMicros(f.mean))
		}
		t.Row(append(append(row, latencies(f.latencyFigures)...), humanize.Count(f.Errors))...)
	}
	t.Print(w, "")
	if open {
		fmt.Fprintln(w, "latencies are in µs; service: of the call, without the making of documents; response: from when it was due; MiB are of documents")
	} else {
		fmt.Fprintln(w, "latencies are those of the calls, without the making of documents; MiB are of documents read and written")
	}
}

// printBrief writes the figures of an open loop that a newcomer can read, and what
// they mean.
func (r *report) printBrief(w io.Writer) {
	t := cli.NewTable("<operation", "count", "ops/s", "call p50 µs", "p99 µs", "p99.9 µs", "response p99 µs", "errors")
	for _, name := range r.names() {
		f, _ := r.operation(name)
		t.Row(displayName(name), humanize.Count(f.Ops), humanize.Count(int64(f.OpsPerS)), harness.FormatMicros(f.service.P50Micros), harness.FormatMicros(f.service.P99Micros),
			harness.FormatMicros(f.service.P999), harness.FormatMicros(f.P99Micros), humanize.Count(f.Errors))
	}
	t.Print(w, "")
	fmt.Fprintf(w, `
call      what a call takes: half, 99 of 100, 999 of 1,000 took at most so long; an update is on disk when it returns
response  from when an operation was due, at %s, to its end: a busy machine begins late, and shows here
on disk   %s, %.2f of the %s of documents
`, harness.FormatRate(r.Engine.Loop.Offered), humanize.Bytes(r.Engine.DiskBytes), r.Engine.SpaceAmplification, humanize.Bytes(r.Engine.RawBytes))
}

// engineFigures are what the engine and the process did while something was
// measured.
type engineFigures struct {
	Writes             int64   `json:"writes"`
	WrittenBytes       int64   `json:"written_bytes"` // keys, ids and documents
	LogBytes           int64   `json:"log_bytes"`
	FlushBytes         int64   `json:"flush_bytes"`
	CompactionBytes    int64   `json:"compaction_bytes"`
	WriteAmplification float64 `json:"write_amplification"` // bytes to files for a byte written
	Syncs              int64   `json:"syncs"`
	Flushes            int64   `json:"flushes"`
	Compactions        int64   `json:"compactions"`

	Waited waits          `json:"waited"`
	Memory measure.Memory `json:"memory"`

	RawBytes           int64   `json:"raw_bytes"`  // of the documents in the store, old versions that compactions left too
	DiskBytes          int64   `json:"disk_bytes"` // of all files, after Close
	SpaceAmplification float64 `json:"space_amplification"`

	Expiry     *expiryFigures        `json:"expiry,omitempty"`     // where --ttl was given
	Throughput *throughputFigures    `json:"throughput,omitempty"` // of a container that has some
	Splits     *harness.SplitSummary `json:"splits,omitempty"`
	Copies     *checkpointFigures    `json:"checkpoints,omitempty"`
	Loop       *loopFigures          `json:"loop,omitempty"`
	Repeats    []repeat              `json:"repeats,omitempty"` // if there is more than one
	Process    *processFigures       `json:"process,omitempty"`
	Client     *clientFigures        `json:"client,omitempty"`
	Run        *settings             `json:"run,omitempty"`
	From       *measure.Machine      `json:"machine,omitempty"`
}

// expiryFigures tell of a run whose documents expire.
type expiryFigures struct {
	TTL   float64 `json:"ttl_s"`
	Reads int64   `json:"reads_of_expired"` // reads that found their document expired
}

// print writes the figures as a line.
func (f *expiryFigures) print(w io.Writer) {
	if f != nil {
		fmt.Fprintf(w, "  expiry   %s s after the write; %s found theirs expired\n", humanize.Number(f.TTL), harness.Plural(f.Reads, "read"))
	}
}

// waits tell how often and for how long calls waited, by cause.
type waits struct {
	Sync         wait `json:"sync"`
	BackPressure wait `json:"back_pressure"`
	ColdRead     wait `json:"cold_read"`
}

type wait struct {
	Count  int64   `json:"count"`
	Micros float64 `json:"us"`
}

func (w wait) String() string {
	return fmt.Sprintf("%s s in %s", humanize.Number(w.Micros/1e6), humanize.Count(w.Count))
}

// processFigures are about engine and pbench together. Much less processor
// time than the workers could have used means that they waited, or that the
// machine was busy with something else.
type processFigures struct {
	CPUSeconds       float64 `json:"cpu_s"`
	AllocationsPerOp float64 `json:"allocations_per_op"`
	Collections      uint32  `json:"collections"` // of garbage
}

// clientFigures are what pbench itself costs.
type clientFigures struct {
	MicrosPerOp float64 `json:"us_per_op"`    // to choose, make, time and count an operation
	MemoryBytes int64   `json:"memory_bytes"` // of histograms and of what is known of the documents
	// CallsPerS is how many calls a second one worker would make if it did
	// nothing else; only where there is one.
	CallsPerS float64 `json:"calls_per_s,omitempty"`
}

// newEngineFigures returns what s did since before.
func newEngineFigures(s harness.Store, before harness.StoreStats, mem measure.Memory) *engineFigures {
	d := s.Stats().Since(before)
	f := &engineFigures{
		Writes: d.Writes, WrittenBytes: d.WrittenBytes,
		LogBytes: d.LogBytes, FlushBytes: d.FlushBytes, CompactionBytes: d.CompactionBytes,
		Syncs: d.Syncs, Flushes: d.Flushes, Compactions: d.Compactions,
		Waited: waits{
			Sync:         wait{d.SyncWaits, harness.Micros(d.SyncWait)},
			BackPressure: wait{d.Stalls, harness.Micros(d.PressureWait)},
			ColdRead:     wait{d.ColdReads, harness.Micros(d.ColdWait)},
		},
		Memory: mem,
	}
	for _, name := range s.Names() {
		if c, err := s.Container(name); err == nil {
			f.RawBytes += c.Stats().RawBytes
		}
	}
	f.WriteAmplification = ratio(f.LogBytes+f.FlushBytes+f.CompactionBytes, f.WrittenBytes)
	return f
}

// addDisk adds what a closed store takes on disk.
func (f *engineFigures) addDisk(dir string) (err error) {
	f.DiskBytes, err = measure.DiskBytes(dir, harness.CatalogName)
	f.SpaceAmplification = ratio(f.DiskBytes, f.RawBytes)
	return err
}

// print writes the figures as lines.
func (f *engineFigures) print(w io.Writer) {
	if f.Writes > 0 {
		fmt.Fprintf(w, "  written  %s by the caller; log %s, %s %s, %s %s: write amplification %.2f\n",
			humanize.Bytes(f.WrittenBytes), humanize.Bytes(f.LogBytes), humanize.Plural(f.Flushes, "flush", "flushes"), humanize.Bytes(f.FlushBytes),
			harness.Plural(f.Compactions, "compaction"), humanize.Bytes(f.CompactionBytes), f.WriteAmplification)
	}
	fmt.Fprintf(w, "  waited   sync %v (%s), back-pressure %v, cold reads %v; all workers together\n",
		f.Waited.Sync, harness.Plural(f.Syncs, "sync"), f.Waited.BackPressure, f.Waited.ColdRead)
	if f.Memory != (measure.Memory{}) {
		fmt.Fprintf(w, "  memory   resident %s (peak %s), anonymous %s (peak %s)\n", humanize.Bytes(f.Memory.Resident),
			humanize.Bytes(f.Memory.PeakResident), humanize.Bytes(f.Memory.Anonymous), humanize.Bytes(f.Memory.PeakAnonymous))
	}
	fmt.Fprintf(w, "  disk     %s after close, %.2f of the %s of documents in it\n", humanize.Bytes(f.DiskBytes), f.SpaceAmplification, humanize.Bytes(f.RawBytes))
	f.Splits.Print(w)
	f.Copies.print(w)
	f.Throughput.print(w)
	f.Expiry.print(w)
	if p := f.Process; p != nil {
		fmt.Fprintf(w, "  process  %s s of processor time, %s allocations an operation, %s\n",
			humanize.Number(p.CPUSeconds), humanize.Number(p.AllocationsPerOp), harness.Plural(p.Collections, "garbage collection"))
	}
	if c := f.Client; c != nil {
		fmt.Fprintf(w, "  pbench   takes %s µs of its own for an operation, and %s of memory\n", humanize.Number(c.MicrosPerOp), humanize.Bytes(c.MemoryBytes))
		if c.CallsPerS > 0 {
			fmt.Fprintf(w, "           without it the one worker would make %s calls a second\n", humanize.Count(int64(c.CallsPerS)))
		}
	}
}

// ratio returns a/b with three decimals, 0 if b is 0.
func ratio(a, b int64) float64 {
	if b == 0 {
		return 0
	}
	return harness.Round(float64(a)/float64(b), 3)
}
