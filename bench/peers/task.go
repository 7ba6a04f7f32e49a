package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"os"
	"runtime"
	"time"

	"github.com/cleavestore/cleave/internal/measure"
	"github.com/cleavestore/cleave/internal/workload"
	"github.com/cleavestore/cleave/partmap"
)

// partitionItems is how many documents a logical partition has.
const partitionItems = 1000

// shape says which documents of pbench a run has.
type shape struct {
	Name         string  `json:"name"`                     // one of workload.Shapes
	Sizes        string  `json:"document_sizes,omitempty"` // as workload.Params has it
	Compressible float64 `json:"compressible,omitempty"`
}

// defaultShape is that of the published figures.
var defaultShape = shape{Name: "food"}

// generator returns the generator of the first n documents.
func (s shape) generator(seed uint64, n int64) (*workload.Generator, error) {
	return workload.NewGenerator(workload.Params{
		Shape: s.Name, Seed: seed, LogicalPartitions: int(max(n/partitionItems, 1)), Sizes: s.Sizes, Compressible: s.Compressible,
	})
}

// String describes the documents.
func (s shape) String() string {
	if s.Sizes == "" {
		return "`" + s.Name + "` documents"
	}
	return fmt.Sprintf("`%s` documents of %s, of which %v is the same in all,", s.Name, s.Sizes, s.Compressible)
}

// task is what one process does with one store.
type task struct {
	Store     string        `json:"store"`
	Kind      taskKind      `json:"kind"`
	Dir       string        `json:"dir"`
	Mode      mode          `json:"mode"`
	Seed      uint64        `json:"seed"`
	Shape     shape         `json:"shape"`
	Loaded    int64         `json:"loaded"`          // documents of a whole load: they fix the number of logical partitions
	Documents int64         `json:"documents"`       // that exist, or that are to be written
	Parts     []part        `json:"parts,omitempty"` // of a run, in order; of a fill one
	Keys      string        `json:"keys,omitempty"`  // in place of those of the workloads
	Group     string        `json:"group,omitempty"` // control group that bounds memory
	Warmup    time.Duration `json:"warmup,omitempty"`
	Duration  time.Duration `json:"duration,omitempty"`
}

// part is a workload that a task runs, and measures.
type part struct {
	Workload string `json:"workload"`
	Before   string `json:"before,omitempty"` // a workload that runs first, for the same time
	Workers  int    `json:"workers"`
}

type taskKind string

const (
	loadTask   taskKind = "load"   // load a new store, settle, close
	runTask    taskKind = "run"    // open a store, run the parts on it, settle after each that writes, close
	fillTask   taskKind = "fill"   // run a workload on a new store until Documents are written or Duration is over
	killTask   taskKind = "kill"   // write Documents to a new store, one by one, and be killed
	reopenTask taskKind = "reopen" // open a store, read a document, see how many there are, close
)

// result is what a process reports: one for each part, or one for a task without parts. The
// memory of a part is the most since the process began.
type result struct {
	Figures   map[string]float64 `json:"figures"`
	Documents int64              `json:"documents"` // that exist afterwards
	Memory    measure.Memory     `json:"memory"`
	Error     string             `json:"error,omitempty"`
}

// Figures of results.
const (
	figureRate       = "calls_per_s" // goroutines divided by the mean latency
	figureWall       = "ops_per_s"   // by the clock, with what the loop itself takes
	figureP50        = "p50_us"
	figureP99        = "p99_us"
	figureP999       = "p99.9_us"
	figureP9999      = "p99.99_us"
	figureMax        = "max_us"
	figureCPU        = "cpu_us_per_op"
	figureAllocs     = "allocations_per_op"
	figureClient     = "client_us_per_op"
	figureOpen       = "open_ms" // until the first read was answered, where there is one
	figureClose      = "close_s"
	figureSettle     = "settle_s"
	figureSlowest    = "slowest_second_per_s"
	figureDisk       = "disk_share"    // of the documents' bytes
	figureWritten    = "written_share" // by the device for all programs, of the documents' bytes
	figureAnonymous  = "peak_anonymous_mb"
	figureResident   = "peak_resident_mb"
	figureLost       = "lost_documents"
	figureMaking     = "making_us_per_document"
	figureSettledRun = "settle_after_s"
)

// job is a task under way.
type job struct {
	task
	ctx     context.Context
	c       candidate
	docs    *measure.Generated
	figures map[string]float64
	memory  measure.Memory
}

// perform does a task in this process, and reports its results. A kill task does not return.
func perform(ctx context.Context, t task, report func(result)) error {
	c, err := findCandidate(t.Store)
	if err != nil {
		return err
	}
	g, err := t.Shape.generator(t.Seed, t.Loaded)
	if err != nil {
		return err
	}
	if t.Group != "" {
		if err := measure.JoinMemoryGroup(t.Group); err != nil {
			return err
		}
	}
	t.Mode.KeyPath = g.KeyPath()
	j := &job{task: t, ctx: ctx, c: c, docs: measure.NewGenerated(g, t.Documents), figures: make(map[string]float64)}
	switch t.Kind {
	case loadTask:
		err = j.load()
	case runTask, fillTask:
		return j.run(report)
	case killTask:
		if err = j.fillAll(); err == nil {
			j.report(report, t.Documents)
			err = killSelf()
		}
	case reopenTask:
		err = j.reopen()
	default:
		err = fmt.Errorf("unknown task %q", t.Kind)
	}
	if err == nil {
		j.report(report, t.Documents)
	}
	return err
}

// report reports the figures so far, and begins new ones.
func (j *job) report(to func(result), documents int64) {
	j.memory.Sample()
	to(result{Figures: j.figures, Documents: documents, Memory: j.memory})
	j.figures = make(map[string]float64)
}

// open opens the store and notes how long it took.
func (j *job) open() (store, error) {
	start := time.Now()
	s, err := j.c.open(j.ctx, j.Dir, j.Mode)
	j.figures[figureOpen] = milliseconds(time.Since(start))
	return s, err
}

// all yields the documents to be written, as loads read them.
func (j *job) all() iter.Seq[document] {
	return func(yield func(document) bool) {
		var id, body []byte
		for i := range j.Documents {
			id = j.docs.AppendID(id[:0], i)
			body, _ = j.docs.AppendVersion(j.ctx, body[:0], i, 0) // generators have no errors
			if !yield(document{key: j.docs.Key(i), id: string(id), body: body}) {
				return
			}
		}
	}
}

// makingCost is what it takes to make a document: the best of some rounds.
func (j *job) makingCost() time.Duration {
	best := time.Duration(math.MaxInt64)
	for range 20 {
		const n = 500
		made := 0
		start := time.Now()
		for range j.all() {
			if made++; made == n {
				break
			}
		}
		best = min(best, time.Since(start)/time.Duration(made))
	}
	return best
}

func (j *job) load() (err error) {
	j.figures[figureMaking] = microseconds(j.makingCost())
	written := measure.DeviceWritten(j.Dir)
	s, err := j.open()
	if err != nil {
		return err
	}
	m := newMeter()
	start := time.Now()
	err = measure.WhileWaiting(func() error { return s.Load(j.ctx, m.count(j.all())) }, func(time.Time) { j.memory.Sample() })
	elapsed := time.Since(start)
	if err != nil {
		return errors.Join(err, s.Close())
	}
	j.figures[figureWall] = float64(j.Documents) / elapsed.Seconds()
	if slowest, ok := m.slowest(); ok {
		j.figures[figureSlowest] = slowest
	}
	if err := j.settle(s, figureSettle); err != nil {
		return errors.Join(err, s.Close())
	}
	start = time.Now()
	if err := s.Close(); err != nil {
		return err
	}
	j.figures[figureClose] = time.Since(start).Seconds()
	j.memory.Sample()
	j.figures[figureAnonymous] = float64(j.memory.PeakAnonymous) / 1e6
	j.figures[figureResident] = float64(j.memory.PeakResident) / 1e6
	disk, err := measure.DiskBytes(j.Dir, "")
	if err != nil {
		return err
	}
	j.figures[figureDisk] = float64(disk) / float64(m.bytes)
	if written >= 0 {
		j.figures[figureWritten] = float64(measure.DeviceWritten(j.Dir)-written) / float64(m.bytes)
	}
	return nil
}

// settle waits until the store is at rest, and notes how long it took.
func (j *job) settle(s store, figure string) error {
	start := time.Now()
	var quiet time.Duration
	err := measure.WhileWaiting(func() (err error) {
		quiet, err = s.Settle(j.ctx)
		return err
	}, func(time.Time) { j.memory.Sample() })
	j.figures[figure] = (time.Since(start) - quiet).Seconds()
	return err
}

// run runs the parts, and reports a result for each.
func (j *job) run(report func(result)) (err error) {
	s, err := j.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	filled := j.Mode.Memory > 0
	for _, p := range j.Parts {
		w, err := j.workload(p.Workload)
		if err != nil {
			return err
		}
		if !filled && w.Mix[workload.Update]+w.Mix[workload.Insert] < 1 {
			if err := j.fillCaches(s); err != nil {
				return err
			}
			filled = true
		}
		documents, err := j.part(s, p, w)
		if err != nil {
			return err
		}
		j.report(report, documents)
	}
	return nil
}

// part runs one part on the open store, and returns the number of documents that exist then.
func (j *job) part(s store, p part, w workload.Workload) (documents int64, err error) {
	writes := w.Mix.Writes()
	if p.Before != "" {
		before, err := j.workload(p.Before)
		if err != nil {
			return 0, err
		}
		if _, err := j.loop(s, before, p.Workers, 0); err != nil {
			return 0, err
		}
		writes = writes || before.Mix.Writes()
	}
	o, err := j.loop(s, w, p.Workers, j.Warmup)
	if err != nil {
		return 0, err
	}
	j.note(o, p.Workers)
	if writes {
		if err := j.settle(s, figureSettledRun); err != nil {
			return 0, err
		}
	}
	return o.Documents, nil
}

// fillScans is how often all documents are scanned before a store's first workload that reads. Most
// caches hold a block at once; that for scans of Cleave holds a stretch when it is wanted a fourth time.
const fillScans = 4

// fillCaches scans all documents: the caches of the store, where it has some, are filled then,
// and pages are mapped. A warm-up of seconds is too short for that, and memory that is used for the
// first time is slow on many machines.
func (j *job) fillCaches(s store) error {
	for range fillScans {
		if err := j.scanAll(s); err != nil {
			return err
		}
	}
	return nil
}

// scanAll reads a byte of each page of each document.
func (j *job) scanAll(s store) error {
	found, sum := int64(0), byte(0)
	g := j.docs.Generator()
	for p := range g.Params().LogicalPartitions {
		err := s.Scan(j.ctx, partmap.String(string(g.AppendKey(nil, p))), "", 0, func(doc []byte) {
			found++
			for at := 0; at < len(doc); at += 4096 {
				sum += doc[at]
			}
			sum += doc[len(doc)-1]
		})
		if err != nil {
			return err
		}
	}
	runtime.KeepAlive(sum) // else the reads could be left out
	if found < j.Documents {
		return fmt.Errorf("a scan found %d of %d documents", found, j.Documents)
	}
	return nil
}

// workload returns the workload of a name, with the keys of the task.
func (j *job) workload(name string) (w workload.Workload, err error) {
	if w, err = workload.FindWorkload(name); err == nil && j.Keys != "" {
		w.Keys, err = workload.ParseKeys(j.Keys)
	}
	return w, err
}

// loop runs a workload on a store that is open. What it inserts exists in the next loop.
func (j *job) loop(s store, w workload.Workload, workers int, warmup time.Duration) (*measure.Outcome, error) {
	loop := measure.Loop{
		Workload: w, Documents: j.docs, Store: s, Workers: workers, Seed: j.Seed,
		Warmup: warmup, Duration: j.Duration, Memory: &j.memory,
	}
	if j.Kind == fillTask {
		loop.Documents, loop.Limit = measure.NewGenerated(j.docs.Generator(), 0), j.Documents
	}
	o, err := loop.Run(j.ctx)
	if err == nil {
		err = errors.Join(o.Err, j.ctx.Err())
	}
	if err == nil {
		j.docs = measure.NewGenerated(j.docs.Generator(), o.Documents)
	}
	return o, err
}

// note takes the figures of a loop.
func (j *job) note(o *measure.Outcome, workers int) {
	all := o.All()
	n := float64(all.Successes())
	if n == 0 {
		return
	}
	f := j.figures
	f[figureRate] = n * float64(workers) / all.Busy.Seconds()
	f[figureWall] = n / o.Elapsed.Seconds()
	for figure, percentile := range map[string]float64{figureP50: 50, figureP99: 99, figureP999: 99.9, figureP9999: 99.99, figureMax: 100} {
		f[figure] = all.Micros(percentile)
	}
	f[figureCPU] = microseconds(o.CPU) / n
	f[figureAllocs] = float64(o.Allocations) / n
	f[figureClient] = microseconds(o.Client)
	f[figureAnonymous] = float64(j.memory.PeakAnonymous) / 1e6
	f[figureResident] = float64(j.memory.PeakResident) / 1e6
}

// fillAll writes all documents, one by one.
func (j *job) fillAll() error {
	s, err := j.open()
	if err != nil {
		return err
	}
	for doc := range j.all() {
		if err := s.Upsert(j.ctx, doc.key, doc.id, doc.body); err != nil {
			return errors.Join(err, s.Close())
		}
	}
	return nil
}

// killSelf ends the process without giving it a chance to do anything more.
func killSelf() error {
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		return err
	}
	if err := self.Kill(); err != nil {
		return err
	}
	select {}
}

// reopen measures how long it takes until a read is answered, and counts the
// documents that are missing.
func (j *job) reopen() (err error) {
	ctx := context.WithoutCancel(j.ctx)
	start := time.Now()
	s, err := j.c.open(ctx, j.Dir, j.Mode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	lost := int64(0)
	var body []byte
	for i := range j.Documents {
		id := string(j.docs.AppendID(nil, i))
		body, err = s.Read(ctx, j.docs.Key(i), id, body[:0])
		if i == 0 {
			j.figures[figureOpen] = milliseconds(time.Since(start))
		}
		switch {
		case errors.Is(err, measure.ErrNotFound):
			lost++
		case err != nil:
			return err
		case !j.docs.Check(body, id):
			return fmt.Errorf("document %q: wrong body of %d bytes", id, len(body))
		}
		if err := j.ctx.Err(); err != nil {
			return err
		}
	}
	j.figures[figureLost] = float64(lost)
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
