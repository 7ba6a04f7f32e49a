package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
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
	eventsFile = "events.ndjson" // a line for each flush, compaction and split
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
	sample   func() sample
	splits   *splitWatch
	work     *harness.WorkLog
	series   *os.File
	events   *os.File
	hlog     *os.File
	log      *hdrhistogram.HistogramLogWriter
	err      error // the first

	repeat  int
	offered float64
	begun   time.Time // of the repetition; zero: no interval yet
	last    sample
	told    []harness.PartitionBounds // the physical partitions that the series has last
}

// sample is what is looked at once in a second.
type sample struct {
	stats         harness.StoreStats
	memory        measure.Memory
	partitions    []harness.PartitionBounds
	cpu           time.Duration
	read          int64 // by the process from storage; -1: unknown
	deviceWritten int64 // by the device of the store, for all programs; -1: unknown
}

// newRecorder makes the files of --out. takes gives it what is looked at each second, of a
// target that keeps a log of its work.
func newRecorder(dir, workloadName string, splits *splitWatch, work *harness.WorkLog, takes func() sample) (r *recorder, err error) {
	if err = os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	r = &recorder{dir: dir, workload: workloadName, splits: splits, work: work, sample: takes}
	for _, f := range []struct {
		name string
		file **os.File
	}{{seriesFile, &r.series}, {eventsFile, &r.events}, {hlogFile, &r.hlog}} {
		if *f.file, err = os.Create(filepath.Join(dir, f.name)); err != nil {
			return nil, errors.Join(err, r.close())
		}
	}
	work.Keep()
	r.log = hdrhistogram.NewHistogramLogWriter(r.hlog)
	now := time.Now().Unix() * 1000 // the base time has whole seconds
	r.log.SetBaseTime(now)
	r.err = errors.Join(
		r.log.OutputComment("[Latencies in nanoseconds, by pbench; tags: OPERATION (response times of an open loop, else service times), OPERATION.service]"),
		r.log.OutputLogFormatVersion(), r.log.OutputStartTime(now), r.log.OutputBaseTime(now), r.log.OutputLegend())
	return r, nil
}

// begin notes that a repetition begins, with its warm-up.
func (r *recorder) begin(repeat int, offered float64) {
	r.tell() // what ended after the last interval of the repetition before
	r.repeat, r.offered, r.begun, r.told = repeat, offered, time.Time{}, nil
	r.work.Take() // what ended before is not told
	r.last = r.sample()
}

// measuring notes that the warm-up is over: what it wrote is not in the first interval.
func (r *recorder) measuring() {
	r.work.Take()
	r.last = r.sample()
}

// event is a line of the events: what the store did beside the operations, and when. Times
// are since the repetition began.
type event struct {
	V         int      `json:"v"`
	Repeat    int      `json:"repeat"`
	Kind      string   `json:"kind"` // flush, compaction, trim, reindex, split, merge or move
	FromS     float64  `json:"from_s"`
	ToS       float64  `json:"to_s"`
	AtS       float64  `json:"at_s,omitempty"` // of the cut
	Partition uint32   `json:"partition,omitempty"`
	Parents   []uint32 `json:"parents,omitempty"`
	Children  []uint32 `json:"children,omitempty"`
	ReadBytes int64    `json:"read_bytes,omitempty"` // of the files that were compacted
	Bytes     int64    `json:"bytes,omitempty"`      // of the files that were written
	Runs      int      `json:"runs,omitempty"`       // that were compacted
	Error     string   `json:"error,omitempty"`
}

// tell writes the events that ended since the last time.
func (r *recorder) tell() {
	if r.begun.IsZero() {
		return
	}
	at := func(t time.Time) float64 { return harness.Round(t.Sub(r.begun).Seconds(), 3) }
	for _, w := range r.work.Take() {
		if w.Ended.Before(r.begun) {
			continue
		}
		r.event(event{Kind: w.Kind, FromS: at(w.Begun), ToS: at(w.Ended), Partition: w.Partition, ReadBytes: w.BytesIn, Bytes: w.Bytes, Runs: w.Runs})
	}
	for _, s := range r.splits.untold() {
		if !s.Swapped.IsZero() && s.Swapped.Before(r.begun) {
			continue
		}
		e := event{Kind: s.Kind, Parents: s.Parents, Children: s.Children, Bytes: s.Copied}
		if s.Err != nil {
			e.Error = s.Err.Error()
		}
		if !s.Swapped.IsZero() {
			e.FromS, e.AtS, e.ToS = at(s.Swapped.Add(-s.Settle-s.Prepare-s.Commit-s.Pause)), at(s.Swapped), at(s.Swapped.Add(s.Inherit))
		}
		r.event(e)
	}
}

func (r *recorder) event(e event) {
	e.V, e.Repeat = 1, r.repeat
	text, err := json.Marshal(e)
	if err == nil {
		_, err = r.events.Write(append(text, '\n'))
	}
	r.fail(err)
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
	WrittenBytes    int64                     `json:"written_bytes"`     // keys, ids and documents
	LogBytes        int64                     `json:"log_bytes"`
	Flushes         int64                     `json:"flushes"`
	FlushBytes      int64                     `json:"flush_bytes"`
	Compactions     int64                     `json:"compactions"`
	CompactionBytes int64                     `json:"compaction_bytes"`
	Syncs           int64                     `json:"syncs"`
	Stalls          int64                     `json:"stalls"`
	StallMicros     float64                   `json:"stall_us,omitempty"`  // how long writes waited for memory, all together
	Throttled       int64                     `json:"throttled,omitempty"` // operations that were not admitted
	Expired         int64                     `json:"expired,omitempty"`   // documents that were looked for and had expired
	ColdReads       int64                     `json:"cold_reads,omitempty"`
	DeviceRead      *int64                    `json:"device_read_bytes,omitempty"`  // by the process, where the system tells
	DiskWritten     *int64                    `json:"disk_written_bytes,omitempty"` // by the store's device, for all programs, where the system tells
	CPUSeconds      float64                   `json:"cpu_s,omitempty"`
	BufferBytes     int64                     `json:"buffer_bytes"`
	ResidentBytes   int64                     `json:"resident_bytes,omitempty"`
	AnonymousBytes  int64                     `json:"anonymous_bytes,omitempty"`
	Splits          []harness.SplitFigures    `json:"splits,omitempty"` // that ended
	// OpsByPlace counts operations on single logical partitions by the first byte of the hash
	// of their key, 00 to 3F.
	OpsByPlace *measure.Places `json:"ops_by_place,omitempty"`
	// Partitions are the physical ones, in key-space order, in the first line of a repetition
	// and where they are others than in the line before.
	Partitions []harness.PartitionBounds `json:"partitions,omitempty"`
}

// interval writes what happened in a part of the repetition.
func (r *recorder) interval(i measure.Interval) {
	now := r.sample()
	stats, memory := now.stats, now.memory
	d := stats.Since(r.last.stats)
	if r.begun.IsZero() {
		r.begun = i.Now.Add(-i.Elapsed)
	}
	all := i.Tallies.All()
	line := second{
		V: 1, Repeat: r.repeat, AtS: harness.Round(i.Elapsed.Seconds(), 3), Seconds: harness.Round(i.Seconds(), 3),
		Offered: harness.Round(r.offered, 1), Behind: i.Behind, results: resultsOf(i.Tallies, i.Seconds()),
		WrittenBytes: d.WrittenBytes, LogBytes: d.LogBytes, Flushes: d.Flushes, FlushBytes: d.FlushBytes, Compactions: d.Compactions, CompactionBytes: d.CompactionBytes,
		Syncs: d.Syncs, Stalls: d.Stalls, BufferBytes: stats.BufferBytes,
		StallMicros: harness.Round(harness.Micros(d.PressureWait), 1), Throttled: all.Throttled, Expired: all.Expired, ColdReads: d.ColdReads,
		DeviceRead: grown(r.last.read, now.read), DiskWritten: grown(r.last.deviceWritten, now.deviceWritten),
		CPUSeconds:    harness.Round((now.cpu - r.last.cpu).Seconds(), 3),
		ResidentBytes: memory.Resident, AnonymousBytes: memory.Anonymous,
		Splits: r.splits.fresh, OpsByPlace: i.Tallies.AddPlaces(),
	}
	if !slices.Equal(now.partitions, r.told) {
		line.Partitions, r.told = now.partitions, now.partitions
	}
	r.last = now
	r.tell()
	if all.Lag.Count() > 0 {
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

// grown returns by how much a count that may be unknown has grown; nil: that is unknown.
func grown(before, now int64) *int64 {
	if before < 0 || now < 0 {
		return nil
	}
	by := now - before
	return &by
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
	r.tell()
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
	err := r.err
	for _, file := range []*os.File{r.series, r.events, r.hlog} {
		if file != nil {
			err = errors.Join(err, file.Close())
		}
	}
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	return nil
}
