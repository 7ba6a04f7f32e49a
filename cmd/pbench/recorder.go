package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/cleavestore/cleave/internal/harness"
	"github.com/cleavestore/cleave/internal/measure"
	"github.com/cleavestore/cleave/internal/workload"
)

// Files of --out.
const (
	runFile    = "run.json"      // what --json writes
	seriesFile = "series.ndjson" // a line a second
	hlogFile   = "latency.hlog"  // histograms a second, in the HdrHistogram log format
	benchFile  = "bench.txt"     // a Go benchmark line a repetition and operation, for benchstat
)

// checkOut refuses a directory that is not for the results of a new run.
func checkOut(dir string) error {
	names, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(names) > 0 {
		return harness.Usagef("--out %s is not empty: name a new directory", dir)
	}
	return nil
}

// recorder writes the results of a run to a directory, the series while it
// runs, so that one that is killed can be read. It is for one goroutine.
type recorder struct {
	dir      string
	workload string
	sample   func() (harness.StoreStats, measure.Memory)
	splits   *splitWatch
	series   *os.File
	hlog     *os.File
	log      *hdrhistogram.HistogramLogWriter
	err      error // the first

	repeat  int
	offered float64
	begun   time.Time // of the repetition; zero: no interval yet
	last    harness.StoreStats
}

func newRecorder(dir, workloadName string, splits *splitWatch, sample func() (harness.StoreStats, measure.Memory)) (r *recorder, err error) {
	if err = os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	r = &recorder{dir: dir, workload: workloadName, splits: splits, sample: sample}
	if r.series, err = os.Create(filepath.Join(dir, seriesFile)); err != nil {
		return nil, err
	}
	if r.hlog, err = os.Create(filepath.Join(dir, hlogFile)); err != nil {
		return nil, errors.Join(err, r.series.Close())
	}
	r.log = hdrhistogram.NewHistogramLogWriter(r.hlog)
	now := time.Now().Unix() * 1000 // the base time has whole seconds
	r.log.SetBaseTime(now)
	r.err = errors.Join(
		r.log.OutputComment("[Latencies in nanoseconds, by pbench; tags: OPERATION (response times of an open loop, else service times), OPERATION.service]"),
		r.log.OutputLogFormatVersion(), r.log.OutputStartTime(now), r.log.OutputBaseTime(now), r.log.OutputLegend())
	return r, nil
}

// begin notes that a repetition begins.
func (r *recorder) begin(repeat int, offered float64) {
	r.repeat, r.offered, r.begun = repeat, offered, time.Time{}
	r.last, _ = r.sample()
}

// second is a line of the series.
type second struct {
	V       int     `json:"v"`
	Repeat  int     `json:"repeat"`
	AtS     float64 `json:"at_s"`    // since the repetition began, at the end of the interval
	Seconds float64 `json:"seconds"` // that the interval lasted
	Offered float64 `json:"offered_per_s,omitempty"`
	Behind  int64   `json:"behind,omitempty"` // operations that were due and not begun
	results
	Lag             *latencyFigures           `json:"lag,omitempty"`
	Service         map[string]latencyFigures `json:"service,omitempty"` // of an open loop
	LogBytes        int64                     `json:"log_bytes"`
	Flushes         int64                     `json:"flushes"`
	FlushBytes      int64                     `json:"flush_bytes"`
	Compactions     int64                     `json:"compactions"`
	CompactionBytes int64                     `json:"compaction_bytes"`
	Syncs           int64                     `json:"syncs"`
	Stalls          int64                     `json:"stalls"`
	BufferBytes     int64                     `json:"buffer_bytes"`
	ResidentBytes   int64                     `json:"resident_bytes,omitempty"`
	AnonymousBytes  int64                     `json:"anonymous_bytes,omitempty"`
	Splits          []harness.SplitFigures    `json:"splits,omitempty"` // that ended
}

// interval writes what happened in a part of the repetition.
func (r *recorder) interval(i measure.Interval) {
	stats, memory := r.sample()
	d := stats.Since(r.last)
	r.last = stats
	line := second{
		V: 1, Repeat: r.repeat, AtS: harness.Round(i.Elapsed.Seconds(), 3), Seconds: harness.Round(i.Seconds(), 3),
		Offered: harness.Round(r.offered, 1), Behind: i.Behind, results: resultsOf(i.Tallies, i.Seconds()),
		LogBytes: d.LogBytes, Flushes: d.Flushes, FlushBytes: d.FlushBytes, Compactions: d.Compactions, CompactionBytes: d.CompactionBytes,
		Syncs: d.Syncs, Stalls: d.Stalls, BufferBytes: stats.BufferBytes,
		ResidentBytes: memory.Resident, AnonymousBytes: memory.Anonymous,
		Splits: r.splits.fresh,
	}
	if all := i.Tallies.All(); all.Lag.Count() > 0 {
		lag := newLatencyFigures(&all.Lag)
		line.Lag, line.Service = &lag, make(map[string]latencyFigures)
		for name, f := range line.Ops {
			line.Service[name] = f.service
		}
		line.Service[allName] = line.All.service
	}
	text, err := json.Marshal(line)
	if err == nil {
		_, err = r.series.Write(append(text, '\n'))
	}
	r.fail(err)
	end := i.Now
	start := end.Add(i.Start - i.Elapsed)
	for op := range i.Tallies {
		t, name := &i.Tallies[op], workload.Op(op).String()
		r.histogram(t.Latencies(), name, start, end)
		if t.Response.Count() > 0 {
			r.histogram(&t.Service, name+".service", start, end)
		}
	}
}

func (r *recorder) histogram(l *measure.Latencies, tag string, start, end time.Time) {
	if l.Count() == 0 {
		return
	}
	h := l.Histogram()
	h.SetTag(tag)
	h.SetStartTimeMs(start.UnixMilli())
	h.SetEndTimeMs(end.UnixMilli())
	r.fail(r.log.OutputIntervalHistogram(h))
}

func (r *recorder) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// finish writes what is known only at the end.
func (r *recorder) finish(rep *report) error {
	if r.err != nil {
		return r.err
	}
	file, err := os.Create(filepath.Join(r.dir, benchFile))
	if err != nil {
		return err
	}
	if err = errors.Join(writeBench(file, rep), file.Close()); err != nil {
		return err
	}
	if file, err = os.Create(filepath.Join(r.dir, runFile)); err != nil {
		return err
	}
	return errors.Join(harness.WriteJSON(file, rep), file.Close())
}

// close closes the files.
func (r *recorder) close() error {
	if err := errors.Join(r.err, r.series.Close(), r.hlog.Close()); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	return nil
}
