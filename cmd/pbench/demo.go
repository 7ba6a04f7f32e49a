package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cleavestore/cleave/internal/harness"
	"github.com/cleavestore/cleave/internal/humanize"
	"github.com/cleavestore/cleave/internal/measure"
	"github.com/cleavestore/cleave/internal/workload"
)

// demoCommand is the whole way of data in one go, in at most half a minute: a
// load that ends when its time is over, a YCSB-B run as fast as it goes and at a
// rate, with a split in the middle, a table, and in one line each what the split
// cost and what was reached.
type demoCommand struct {
	Docs         harness.Count      `default:"250k" placeholder:"N" help:"Number of documents to load, as far as they go in 7 s; default ${default}."`
	JSON         harness.JSONOutput `name:"json" placeholder:"FILE" help:"Write the figures of the run as JSON; - is standard output, in place of the table."`
	Report       harness.OutputFile `placeholder:"FILE" help:"Draw the run as a page of HTML; - is standard output, in place of the table."`
	MemoryBudget harness.ByteCount  `default:"256MiB" placeholder:"SIZE" help:"Memory that the engine may use for write buffers and scratch; default ${default}."`
	Seed         uint64             `default:"1" placeholder:"N" help:"Seed of documents and operations; default ${default}."`
}

// What the demonstration takes at most, beside the trials: 1 + 4 s as fast as
// it goes, 1 s for the clock.
const (
	demoLoadTime   = 7 * time.Second
	demoSettleTime = 4 * time.Second
	demoRunTime    = 8 * time.Second
	demoSplitAt    = 4 * time.Second
	demoWarmup     = time.Second
)

// demoWorkers are so many that a read that is due finds one while synced updates
// wait for a device that stalls: else it would show the device, not the engine.
const demoWorkers = 512

// Help returns what follows the short help.
func (*demoCommand) Help() string {
	return `
Examples:

    pbench                     the demonstration
    pbench --report demo.html  the same, drawn
    pbench --json - | jq .all  its figures for a program
    pbench load --help         more commands: load, run, sweep, reopen, copy, compare, report, list`
}

// Run shows what the engine does here.
func (d *demoCommand) Run(ctx context.Context, env *harness.Environment) error {
	g, n, err := (&harness.GeneratorFlags{Docs: d.Docs, Seed: d.Seed}).NewGenerator()
	if err != nil {
		return err
	}
	return harness.InTemporary(func(dir string) error { return d.runIn(ctx, env, dir, g, n) })
}

func (d *demoCommand) runIn(ctx context.Context, env *harness.Environment, dir string, g *workload.Generator, n int64) (err error) {
	r := runFlags{loopFlags: loopFlags{Workers: demoWorkers, Warmup: demoWarmup}, Duration: demoRunTime, SplitAt: []time.Duration{demoSplitAt}, Count: 1, JSON: d.JSON, Report: d.Report, brief: true}
	engine := harness.EngineFlags{MemoryBudget: d.MemoryBudget}
	defer r.discard()
	if err = r.openOutputs(); err != nil {
		return err
	}
	if err = engine.Durability.UnmarshalText([]byte("synced")); err != nil {
		return err
	}
	w, err := workload.FindWorkload("ycsb-b")
	if err != nil {
		return err
	}
	t := &harness.Target{Dir: dir, Name: "food", Splits: new(harness.SplitLog), Work: new(harness.WorkLog)}
	options := engine.Options(env, t.Splits)
	options.Work = t.Work
	if t.Store, err = env.Open(ctx, dir, options); err != nil {
		return err
	}
	t.Shut = sync.OnceValue(t.Store.Close)
	defer func() { err = errors.Join(err, t.Shut()) }()
	if t.Container, err = t.Store.CreateContainer(ctx, t.Name, new(harness.NewContainerFlags).Def([]string{g.KeyPath()})); err != nil {
		return err
	}
	var mem measure.Memory
	in := harness.GeneratedInput(g, 0, n)
	deadline := time.Now().Add(demoLoadTime)
	in.Docs = harness.Until(in.Docs, func() bool { return time.Now().After(deadline) })
	result, err := harness.Load(ctx, env, t.Container, in, 0, 0, &mem, t.Splits)
	if ctx.Err() != nil {
		return harness.ErrInterrupted
	}
	if err != nil {
		return err
	}
	settling, cancel := context.WithTimeout(ctx, demoSettleTime)
	defer cancel()
	err = result.Settle(settling, env, t.Store, &mem, t.Splits)
	if ctx.Err() != nil {
		return harness.ErrInterrupted
	}
	if err != nil && settling.Err() == nil {
		return err
	}
	if result.Documents == 0 {
		return errors.New("nothing was loaded in " + demoLoadTime.String())
	}
	if !r.quiet() {
		fmt.Fprintln(env.Stdout, "load, then run, in a temporary directory that is removed at the end")
		result.Print(env.Stdout, in.About, t.Container.Def().Partitions)
	}
	t.Docs = measure.NewGenerated(g, result.Documents)
	b, err := newBenchmark(env, t, &r.loopFlags, w, d.Seed)
	if err != nil {
		return err
	}
	rep, err := r.measure(ctx, b, &engine)
	if rep != nil && !r.quiet() {
		fmt.Fprintln(env.Stdout)
		if s := rep.Engine.Splits; s != nil && s.Count > 0 {
			fmt.Fprintln(env.Stdout, cost(&s.List[0], rep.Engine.Loop.is(overloaded)))
		}
		fmt.Fprintln(env.Stdout, reached(&result, rep))
		more := "More: pbench --report demo.html draws this run; pbench run --help measures your way."
		if report := d.Report.String(); report != "" {
			more = "More: open " + report + " in a browser; pbench run --help measures your way."
		}
		fmt.Fprintln(env.Stdout, more)
	}
	return err
}

// cost says in a line what a split under load cost. Latencies of a run that was
// swamped are left out.
func cost(f *harness.SplitFigures, swamped bool) string {
	text := fmt.Sprintf("Split: %s was cut in two under this load; writes to it were held up for %s µs, %s were copied",
		harness.Joined(f.Parents), harness.FormatMicros(f.Pause), humanize.Bytes(f.CopiedBytes))
	if f.Before != nil && f.Around != nil && !swamped {
		text += fmt.Sprintf("; in that second %s operations failed and p99.9 was %s ms, after %s ms in the %s s before",
			humanize.Count(f.Around.Errors), harness.FormatMillis(f.Around.P999), harness.FormatMillis(f.Before.P999), humanize.Number(f.Before.Seconds))
	}
	return text + "."
}

// reached says in a line what a newcomer wants to know.
func reached(l *harness.LoadResult, rep *report) string {
	loop := rep.Engine.Loop
	text := fmt.Sprintf("Reached: loaded %s, did at most %s of YCSB-B;",
		harness.FormatRate(float64(l.Documents)/max(l.Elapsed.Seconds(), 1e-9)), harness.FormatRate(loop.Maximum))
	if loop.is(overloaded) {
		return text + " this machine was too busy to keep up 60 % of it."
	}
	share := 100 * loop.Offered / max(loop.Maximum, 1)
	if loop.is(suspect) {
		return text + fmt.Sprintf(" at %.0f %% of it the calls of 99 of 100 reads took at most %s ms, of updates %s ms (this machine was too busy to tell when they were due).",
			share, harness.FormatMillis(loop.Service["read"].P99Micros), harness.FormatMillis(loop.Service["update"].P99Micros))
	}
	return text + fmt.Sprintf(" at %.0f %% of it 99 of 100 reads took at most %s ms, updates %s ms.",
		share, harness.FormatMillis(rep.Ops["read"].P99Micros), harness.FormatMillis(rep.Ops["update"].P99Micros))
}
