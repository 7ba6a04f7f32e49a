package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/alecthomas/kong"

	"github.com/cleavestore/cleave/internal/harness"
	"github.com/cleavestore/cleave/internal/humanize"
	"github.com/cleavestore/cleave/internal/measure"
	"github.com/cleavestore/cleave/internal/workload"
)

// runFlags say how to run and where the results go.
type runFlags struct {
	Rate *rate `placeholder:"RATE" help:"Operations a second that are due, such as 20000, 20k or 60%, a share of what a closed loop reaches just before; default 60%."`
	// In place of a rate.
	Closed bool `help:"Closed loop: each worker begins an operation when its last one is done. It finds the maximum; its latencies leave out who would have waited."`
	loopFlags
	Throughput      harness.Count      `placeholder:"RU/S" help:"Provision the container with so many request units a second while the workload runs; calls that it does not admit are counted apart. Default: leave it as it is."`
	TTL             time.Duration      `name:"ttl" placeholder:"TIME" help:"What the workload writes expires so long after, such as 5s. A read that finds its document expired is no failure, and is counted."`
	SplitAt         []time.Duration    `placeholder:"TIME,..." help:"Split the largest physical partition so long after the measuring began, such as 5s,10s."`
	CheckpointEvery time.Duration      `placeholder:"TIME" help:"Make a checkpoint so often while measuring, in DIR.checkpoint, and remove it; the result tells how long they took."`
	Duration        time.Duration      `placeholder:"TIME" help:"How long to run; default 20s, or no limit with --ops."`
	Ops             harness.Count      `placeholder:"N" help:"Number of operations after which to stop."`
	Count           int                `default:"1" placeholder:"N" help:"Repeat so often, for pbench compare to see the spread; default ${default}."`
	Out             string             `placeholder:"DIR" help:"Write the results to a new directory: run.json, series.ndjson, latency.hlog, bench.txt, profiles."`
	JSON            harness.JSONOutput `name:"json" placeholder:"FILE" help:"Write the figures as JSON; - is standard output, in place of the table."`
	Report          harness.OutputFile `placeholder:"FILE" help:"Draw the run as a page of HTML: see pbench report; - is standard output, in place of the table."`
	FailIf          conditions         `placeholder:"WHEN" help:"Exit with status 1 if one of these holds, such as all.p99>5ms,read.max>50ms."`
	Profile         profileKinds       `placeholder:"KINDS" help:"Take profiles, a list of cpu, heap, mutex, and print the top functions."`
	brief           bool               // print what a newcomer wants to know
	unkept          bool               // Out is removed when the report is written
	ProfileOut      string             `placeholder:"DIR" help:"Also write the profiles to DIR/KIND.pprof for go tool pprof; default that of --out."`
}

const (
	defaultDuration = 20 * time.Second
	maxCount        = 100
)

type runCommand struct {
	harness.TargetFlags
	runFlags
}

// Help returns what follows the short help.
func (*runCommand) Help() string {
	return `
The loop is open unless --closed is given: operation i is due i/RATE after the start, whatever became of those before it, and a free worker begins it then. The response time counts from the due moment, so that a stall is charged to all who would have waited; the service time is that of the call. The document is made before, and what that takes is printed apart. A run is marked OVERLOADED if the rate was missed by over 1 %: response times then only say how long it lasted. It is marked SUSPECT if the lag, by which the clock woke the workers late, is at p99 above a tenth of the response time: look at the service times then, or take --spin.

Interrupting a run prints what was measured so far. With --split-at, and where --max-partition-bytes makes partitions split by themselves, the result tells of each split how long writes to the partition were held up, what its phases took, and p99.9 of all operations in the second around it and in the minute before and after, or what the run has of it. In a container that no generator filled, at most a million documents, evenly spread over the key space, take part; an update writes them as they are.

Examples:

    pbench run --docs 1M --workload read --workers 1 --closed
    pbench run --db food --workload ycsb-a --rate 20k --duration 5m --out runs/a
    pbench run --db food --workload put --workers 64 --rate 60% --fail-if 'update.p99.9>5ms'
    pbench run --db food --workload ycsb-a --keys zipf:1.2 --closed --profile cpu,mutex
    pbench run --db food --workload ycsb-a --rate 10k --duration 3m --split-at 60s,90s --out runs/split
    pbench run --docs 200k --workload ycsb-a --split-at 10s --report split.html
    pbench run --db food --workload ycsb-a --rate 10k --checkpoint-every 2s
    pbench run --docs 1M --index --workload query-mixed --rate 2k
    pbench run --docs 280k --workload query-cliffs
    pbench run --docs 1M --workload stalls --duration 1m
    pbench run --docs 100k --workload read --throughput 4000 --no-burst --rate 8k
    pbench run --docs 100k --doc-size lognormal:200..20k --compressible 0.7 --workload ycsb-a --closed
    pbench run --docs 100k --workload ycsb-a --ttl 5s --rate 5k
    pbench run --db cities --mix read=99,scan=1 --keys hot:0.01/0.9 --count 5 --json -`
}

// Run runs a workload.
func (r *runCommand) Run(ctx context.Context, parsed *kong.Context, env *harness.Environment) (err error) {
	if err = r.checkFlags(parsed); err != nil {
		return err
	}
	if r.Workload == workload.QueryCliffs {
		return r.runCliffs(ctx, env)
	}
	if r.Workload == workload.Stalls {
		return r.runStalls(ctx, env)
	}
	w, err := r.FindWorkload()
	if err != nil {
		return err
	}
	if err := r.runFlags.check(w); err != nil {
		return err
	}
	if err := r.TargetFlags.Check(); err != nil {
		return err
	}
	defer r.discard()
	if err := r.openOutputs(r.DB); err != nil {
		return err
	}
	r.settle(r.Closed)
	r.Expiring = r.TTL > 0
	return r.With(ctx, env, r.quiet(), func(t *harness.Target) error {
		b, err := newBenchmark(env, t, &r.loopFlags, w, r.Seed)
		if err != nil {
			return err
		}
		if b.ttl = r.TTL; b.ttl > 0 && t.Container.Def().TTL == 0 {
			return harness.Usagef("container %q lets nothing expire: --ttl takes one that was loaded with --ttl own, or with a time", t.Name)
		}
		rep, err := r.measure(ctx, b, &r.EngineFlags)
		if rep != nil {
			err = errors.Join(err, r.judge(rep))
		}
		return err
	})
}

// check refuses wrong usage.
func (r *runFlags) check(w workload.Workload) error {
	if err := r.loopFlags.check(); err != nil {
		return err
	}
	if r.Rate != nil && r.Closed {
		return harness.Usagef("--rate does not go with --closed")
	}
	if r.Spin && r.Closed {
		return harness.Usagef("--spin does not go with --closed")
	}
	if r.Throughput > 0 && w.Mix[workload.Insert] > 0 {
		return harness.Usagef("--throughput: workload %s inserts, and its documents are expected to be there", w.Name)
	}
	if r.Throughput > 0 && !r.Closed && (r.Rate == nil || r.Rate.share > 0) {
		return harness.Usagef("--throughput goes with --closed or with a --rate in operations a second")
	}
	if r.TTL < 0 || r.TTL > 0 && r.TTL < time.Millisecond {
		return harness.Usagef("--ttl: want at least 1ms")
	}
	if r.TTL > 0 && !w.Mix.Writes() {
		return harness.Usagef("--ttl: workload %s writes nothing", w.Name)
	}
	if r.Duration < 0 {
		return harness.Usagef("--duration cannot be negative")
	}
	if r.Count < 1 || r.Count > maxCount {
		return harness.Usagef("--count %d: want 1 to %d", r.Count, maxCount)
	}
	for _, at := range r.SplitAt {
		if end := r.duration(); at < 0 || end > 0 && at >= end {
			return harness.Usagef("--split-at %v: the run is over after %v", at, end)
		}
	}
	if r.CheckpointEvery < 0 {
		return harness.Usagef("--checkpoint-every cannot be negative")
	}
	if err := r.FailIf.check(w); err != nil {
		return err
	}
	if r.Out != "" {
		if err := checkOut(r.Out); err != nil {
			return err
		}
	}
	if r.ProfileOut != "" {
		if len(r.Profile) == 0 {
			return harness.Usagef("--profile-out goes with --profile")
		}
		if info, err := os.Stat(r.ProfileOut); err != nil || !info.IsDir() {
			return harness.Usagef("--profile-out %s is no directory", r.ProfileOut)
		}
	}
	return nil
}

// openOutputs opens the files for results before anything is measured, and refuses to write into a store, also into that of the
// run.
func (r *runFlags) openOutputs(dirs ...string) error {
	if r.JSON.ReplacesText() && r.Report.String() == "-" {
		return harness.Usagef("--json - and --report - both name standard output: choose one")
	}
	if err := errors.Join(harness.OutsideStores("--out", r.Out, dirs...), harness.OutsideStores("--profile-out", r.ProfileOut, dirs...)); err != nil {
		return err
	}
	if err := r.JSON.Open(dirs...); err != nil {
		return err
	}
	return r.Report.Open("--report", dirs...)
}

// quiet reports whether standard output is for a file of results alone.
func (r *runFlags) quiet() bool { return r.JSON.ReplacesText() || r.Report.String() == "-" }

// discard closes the files to which nothing was written.
func (r *runFlags) discard() {
	r.JSON.Discard()
	r.Report.Discard()
}

// measure performs the repetitions, closes the store and delivers the results;
// none if there are none to tell of.
func (r *runFlags) measure(ctx context.Context, b *benchmark, engine *harness.EngineFlags) (rep *report, err error) {
	if r.Report.String() == "" || r.Out != "" {
		return r.perform(ctx, b, engine)
	}
	err = harness.InTemporary(func(dir string) error {
		r.Out, r.unkept = filepath.Join(dir, "run"), true
		var failed error
		rep, failed = r.perform(ctx, b, engine)
		return failed
	})
	r.Out = ""
	return rep, err
}

// perform is measure with a directory for the results, if they are to be drawn.
func (r *runFlags) perform(ctx context.Context, b *benchmark, engine *harness.EngineFlags) (rep *report, err error) {
	t := b.target
	if r.Throughput > 0 || r.CheckpointEvery > 0 {
		mark := harness.RunMark{
			V: harness.RunMarkVersion, Container: t.Name, Before: t.Container.Def().Throughput, During: float64(r.Throughput), Checkpoints: r.CheckpointEvery > 0,
		}
		if err = mark.Begin(ctx, t.Dir, t.Store); err != nil {
			return nil, errors.Join(err, t.Shut())
		}
		shut := t.Shut
		t.Shut = sync.OnceValue(func() error {
			_, undoErr := mark.Undo(context.WithoutCancel(ctx), t.Dir, t.Store)
			return errors.Join(undoErr, shut())
		})
	}
	var maximum, perSecond float64
	if !r.Closed {
		pace := defaultRate
		if r.Rate != nil {
			pace = *r.Rate
		}
		if pace.share > 0 {
			if maximum, err = b.maximum(ctx); err != nil {
				return nil, errors.Join(err, t.Shut())
			}
		}
		perSecond = pace.of(maximum)
		b.calibrated(ctx)
	}
	b.splits, b.splitAt, b.copyEvery = newSplitWatch(t.Splits), r.SplitAt, r.CheckpointEvery
	var rec *recorder
	if r.Out != "" {
		takes := func() sample {
			return sample{
				stats: t.Store.Stats(), memory: b.mem, partitions: t.Container.Stats().Partitions,
				cpu: measure.CPUTime(), read: measure.ReadBytes(), deviceWritten: measure.DeviceWritten(t.Dir),
			}
		}
		if rec, err = newRecorder(r.Out, b.workload.Name, b.splits, t.Work, takes); err != nil {
			return nil, err
		}
		b.places = true
		defer func() { err = errors.Join(err, rec.close()) }()
		b.measuring, b.interval = rec.measuring, rec.interval
	}
	p := profiler{kinds: r.Profile}
	var before harness.StoreStats
	var spent []float64
	b.before = func() error {
		before, spent = t.Store.Stats(), t.Container.Stats().Consumed
		return p.start()
	}
	var spentSince []float64
	b.after = func() error { spentSince = t.Container.Stats().Consumed; return nil }
	var outcomes []*measure.Outcome
	documents := t.Docs.Count()
	for i := range r.Count {
		label := "run"
		if r.Count > 1 {
			label = fmt.Sprintf("run %d/%d", i+1, r.Count)
		}
		b.splits.begin(i + 1)
		if rec != nil {
			rec.begin(i+1, perSecond)
		}
		o, runErr := b.perform(ctx, label, perSecond, r.duration(), int64(r.Ops))
		if runErr != nil {
			return nil, runErr
		}
		b.before = nil
		if outcomes = append(outcomes, o); o.Interrupted || o.Err != nil {
			break
		}
	}
	captures, err := p.stop()
	if err != nil {
		return nil, err
	}
	o := outcomes[0]
	if len(outcomes) > 1 {
		o = together(outcomes)
	}
	if o.Interrupted && !o.Measured() {
		return nil, errors.Join(fmt.Errorf("%w before measuring", harness.ErrInterrupted), t.Shut())
	}
	// What writes owe to the disk belongs to them.
	if b.workload.Mix.Writes() && o.Err == nil && !o.Interrupted {
		if err := t.Store.Flush(ctx); err != nil && ctx.Err() == nil {
			return nil, err
		}
	}
	f := newEngineFigures(t.Store, before, b.mem)
	def := t.Container.Def()
	if all := o.All(); def.Throughput > 0 || all.Throttled > 0 {
		f.Throughput = newThroughputFigures(def.Throughput, spent, spentSince, o.Elapsed, all.Throttled)
	}
	if r.TTL > 0 {
		all := o.All()
		f.Expiry = &expiryFigures{TTL: r.TTL.Seconds(), Reads: all.Expired}
	}
	partitions := def.Partitions
	if err := t.Shut(); err != nil {
		return nil, err
	}
	b.splits.settle() // the store has told of all
	f.Splits, f.Copies = b.splits.summary(), newCheckpointFigures(b.copied)
	if err := f.addDisk(t.Dir); err != nil {
		return nil, err
	}
	host := measure.DescribeMachine(t.Dir)
	f.From = &host
	f.Process = &processFigures{CPUSeconds: harness.Round(o.CPU.Seconds(), 3), Collections: o.Collections}
	f.Client = &clientFigures{MicrosPerOp: harness.Round(harness.Micros(o.Client), 3), MemoryBytes: o.Memory + t.Docs.Memory()}
	f.Loop = newLoopFigures(outcomes, maximum)
	f.Run = &settings{
		Container: t.Name, Documents: documents, Partitions: partitions,
		Mix: b.workload.Mix.String(), Keys: b.workload.Keys.String(), Loop: f.Loop.Kind, Rate: harness.Round(perSecond, 1), Workers: b.Workers,
		Seconds: harness.Round(o.Elapsed.Seconds(), 3), Durability: engine.Durability.String(), MemoryBudget: int64(engine.MemoryBudget), ScanCache: int64(engine.ScanCache),
		Seed: b.seed, Interrupted: o.Interrupted, Command: harness.CommandLine(b.env.Name, b.env.Args),
	}
	if g, ok := t.Docs.(*measure.Generated); ok {
		f.Run.Sizes = g.Generator().Params().Sizes
	}
	rep = newReport(b.workload.Name, o, f)
	if len(outcomes) > 1 {
		for _, one := range outcomes {
			f.Repeats = append(f.Repeats, repeat{newResults(one), newLoopFigures([]*measure.Outcome{one}, 0)})
		}
	}
	if n := rep.All.Ops; n > 0 {
		f.Process.AllocationsPerOp = harness.Round(float64(o.Allocations)/float64(n), 3)
		if b.Workers == 1 {
			f.Client.CallsPerS = harness.Round(1e6/rep.All.mean, 1)
		}
	}
	if err := r.deliver(b.env, rep, captures, rec); err != nil {
		return nil, err
	}
	switch {
	case o.Err != nil:
		return rep, fmt.Errorf("%s failed, the first: %w", harness.Plural(rep.All.Errors, "operation"), o.Err)
	case o.Interrupted:
		return rep, harness.ErrInterrupted
	}
	return rep, nil
}

// duration is how long to run; 0: no limit.
func (r *runFlags) duration() time.Duration {
	if r.Duration == 0 && r.Ops == 0 {
		return defaultDuration
	}
	return r.Duration
}

// together returns the outcome of repetitions as if they were one.
func together(outcomes []*measure.Outcome) *measure.Outcome {
	all := *outcomes[0]
	all.Tallies = measure.Tallies{}
	all.Elapsed, all.CPU, all.Allocations, all.Collections = 0, 0, 0, 0
	all.Pacing.Missed = 0
	for _, o := range outcomes {
		all.Tallies.Add(&o.Tallies)
		all.Elapsed += o.Elapsed
		all.CPU += o.CPU
		all.Allocations += o.Allocations
		all.Collections += o.Collections
		all.Pacing.Missed += o.Pacing.Missed
		all.Interrupted = all.Interrupted || o.Interrupted
		all.Err = cmp.Or(all.Err, o.Err)
		all.Documents = max(all.Documents, o.Documents)
	}
	return &all
}

// deliver prints the results and writes the files that were asked for; one that fails does not keep back the others.
func (r *runFlags) deliver(env *harness.Environment, rep *report, captures []capture, rec *recorder) error {
	text := env.Stdout
	if r.quiet() {
		text = env.Stderr
	} else {
		env.PrintMachine(text, *rep.Engine.From)
		rep.Engine.Run.print(text, rep.Workload)
		fmt.Fprintln(text)
		if r.brief {
			rep.printBrief(text)
		} else {
			rep.print(text)
			fmt.Fprintln(text)
			rep.Engine.Loop.print(text)
			rep.Engine.print(text)
		}
	}
	var errs []error
	saved := cmp.Or(r.ProfileOut, r.Out)
	for i := range captures {
		errs = append(errs, captures[i].printTop(text, topFunctions/len(captures)))
		if saved != "" {
			errs = append(errs, captures[i].save(saved))
		}
	}
	if rec != nil {
		err := rec.finish(rep)
		if err == nil && r.Report.String() != "" {
			if err = writeReport(env, &r.Report, !r.unkept, r.Out); err != nil {
				err = fmt.Errorf("--report: %w", err)
			}
		}
		errs = append(errs, err)
	}
	return errors.Join(append(errs, r.JSON.Write(env, rep))...)
}

// topFunctions is how many lines the profiles take together.
const topFunctions = 24

// judge returns an error if a condition of --fail-if holds.
func (r *runFlags) judge(rep *report) error {
	if met := r.FailIf.met(&rep.results); len(met) > 0 {
		return fmt.Errorf("failed, as asked for: %s", met)
	}
	return nil
}

// settings are what a run or a load depends on; a load has no operations to
// choose.
type settings struct {
	Container    string  `json:"container"`
	Documents    int64   `json:"documents"`
	Partitions   int     `json:"partitions"`
	Mix          string  `json:"mix,omitempty"`
	Keys         string  `json:"keys,omitempty"`
	Loop         string  `json:"loop,omitempty"`
	Rate         float64 `json:"rate_per_s,omitempty"` // of an open loop
	Workers      int     `json:"workers,omitempty"`
	Seconds      float64 `json:"seconds"`
	Durability   string  `json:"durability"`
	MemoryBudget int64   `json:"memory_budget_bytes"`
	ScanCache    int64   `json:"scan_cache_bytes,omitempty"` // 0: the engine's default
	Seed         uint64  `json:"seed"`
	Interrupted  bool    `json:"interrupted,omitempty"`
	Command      string  `json:"command,omitempty"`
	Sizes        string  `json:"document_sizes,omitempty"` // their distribution, where it was chosen
}

// print writes what a run depends on as two lines.
func (s *settings) print(w io.Writer, name string) {
	note := ""
	if s.Interrupted {
		note = ", INTERRUPTED"
	}
	memory := "memory budget " + humanize.Bytes(s.MemoryBudget)
	if s.ScanCache > 0 {
		memory += ", scan cache " + humanize.Bytes(s.ScanCache)
	}
	loop := s.Loop + " loop"
	if s.Rate > 0 {
		loop += " at " + harness.FormatRate(s.Rate)
	}
	fmt.Fprintf(w, "%s in %s; %s (%s), %s keys, seed %d\n", harness.Plural(s.Documents, "document"), harness.Plural(s.Partitions, "physical partition"),
		name, s.Mix, s.Keys, s.Seed)
	fmt.Fprintf(w, "%s, %s, %s, %s, %s s%s\n",
		harness.Plural(s.Workers, "worker"), loop, s.Durability, memory, humanize.Number(s.Seconds), note)
}
