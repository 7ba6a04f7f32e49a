package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cleavestore/cleave/internal/measure"
	"github.com/cleavestore/cleave/internal/workload"
)

// demoCommand is the whole way of data in one go, in at most half a minute: a
// load that ends when its time is over, a YCSB-B run as fast as it goes and at a
// rate, with a split in the middle, a table, and in one line each what the split
// cost and what was reached.
type demoCommand struct {
	Docs         count      `default:"250k" placeholder:"N" help:"Number of documents to load, as far as they go in 7 s; default ${default}."`
	JSON         jsonOutput `name:"json" placeholder:"FILE" help:"Write the figures of the run as JSON; - is standard output, in place of the table."`
	MemoryBudget byteCount  `default:"256MiB" placeholder:"SIZE" help:"Memory that the engine may use for write buffers and scratch; default ${default}."`
	Seed         uint64     `default:"1" placeholder:"N" help:"Seed of documents and operations; default ${default}."`
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
const demoWorkers = splitWorkers

// Help returns what follows the short help.
func (*demoCommand) Help() string {
	return `
Examples:

    pbench                     the demonstration
    pbench --json - | jq .all  its figures for a program
    pbench load --help         more commands: load, run, sweep, splits, compare, list`
}

// Run shows what the engine does here.
func (d *demoCommand) Run(ctx context.Context, env *environment) error {
	g, n, err := (&generatorFlags{Docs: d.Docs, Seed: d.Seed}).generator()
	if err != nil {
		return err
	}
	return inTemporary(func(dir string) error { return d.runIn(ctx, env, dir, g, n) })
}

func (d *demoCommand) runIn(ctx context.Context, env *environment, dir string, g *workload.Generator, n int64) (err error) {
	r := runFlags{loopFlags: loopFlags{Workers: demoWorkers, Warmup: demoWarmup}, Duration: demoRunTime, SplitAt: []time.Duration{demoSplitAt}, Count: 1, JSON: d.JSON, brief: true}
	engine := engineFlags{MemoryBudget: d.MemoryBudget}
	if err = r.JSON.open(); err != nil {
		return err
	}
	defer r.JSON.discard()
	if err = engine.Durability.UnmarshalText([]byte("synced")); err != nil {
		return err
	}
	w, err := workload.FindWorkload("ycsb-b")
	if err != nil {
		return err
	}
	t := &target{dir: dir, name: "food", splits: new(splitLog)}
	if t.store, err = env.open(ctx, dir, engine.options(env, t.splits)); err != nil {
		return err
	}
	t.shut = sync.OnceValue(t.store.Close)
	defer func() { err = errors.Join(err, t.shut()) }()
	if t.c, err = t.store.CreateContainer(ctx, t.name, new(newContainerFlags).def([]string{g.KeyPath()})); err != nil {
		return err
	}
	var mem measure.Memory
	in := generatedInput(g, 0, n)
	deadline := time.Now().Add(demoLoadTime)
	in.docs = until(in.docs, func() bool { return time.Now().After(deadline) })
	result, err := load(ctx, env, t.c, in, 0, 0, &mem, t.splits)
	if ctx.Err() != nil {
		return errInterrupted
	}
	if err != nil {
		return err
	}
	settling, cancel := context.WithTimeout(ctx, demoSettleTime)
	defer cancel()
	err = result.settle(settling, env, t.store, &mem, t.splits)
	if ctx.Err() != nil {
		return errInterrupted
	}
	if err != nil && settling.Err() == nil {
		return err
	}
	if result.documents == 0 {
		return errors.New("nothing was loaded in " + demoLoadTime.String())
	}
	if !r.JSON.replacesText() {
		fmt.Fprintln(env.stdout, "load, then run, in a temporary directory that is removed at the end")
		result.print(env.stdout, in.about, t.c.Def().partitions)
	}
	t.docs = measure.NewGenerated(g, result.documents)
	b, err := newBenchmark(env, t, &r.loopFlags, w, d.Seed)
	if err != nil {
		return err
	}
	rep, err := r.measure(ctx, b, &engine)
	if rep != nil && !r.JSON.replacesText() {
		fmt.Fprintln(env.stdout)
		if s := rep.Engine.Splits; s != nil && s.Count > 0 {
			fmt.Fprintln(env.stdout, cost(&s.List[0], rep.Engine.Loop.is(overloaded)))
		}
		fmt.Fprintln(env.stdout, reached(&result, rep))
		fmt.Fprintln(env.stdout, "More: pbench --json - has all figures; pbench run --help measures your way.")
	}
	return err
}

// cost says in a line what a split under load cost. Latencies of a run that was
// swamped are left out.
func cost(f *splitFigures, swamped bool) string {
	text := fmt.Sprintf("Split: %s was cut in two under this load; writes to it were held up for %s µs, %s were copied",
		joined(f.Parents), formatMicros(f.Pause), formatBytes(f.CopiedBytes))
	if f.Before != nil && f.Around != nil && !swamped {
		text += fmt.Sprintf("; in that second %s operations failed and p99.9 was %s ms, after %s ms in the %s s before",
			formatCount(f.Around.Errors), formatMillis(f.Around.P999), formatMillis(f.Before.P999), formatShort(f.Before.Seconds))
	}
	return text + "."
}

// reached says in a line what a newcomer wants to know.
func reached(l *loadResult, rep *report) string {
	loop := rep.Engine.Loop
	text := fmt.Sprintf("Reached: loaded %s, did at most %s of YCSB-B;",
		formatRate(float64(l.documents)/max(l.elapsed.Seconds(), 1e-9)), formatRate(loop.Maximum))
	if loop.is(overloaded) {
		return text + " this machine was too busy to keep up 60 % of it."
	}
	share := 100 * loop.Offered / max(loop.Maximum, 1)
	if loop.is(suspect) {
		return text + fmt.Sprintf(" at %.0f %% of it the calls of 99 of 100 reads took at most %s ms, of updates %s ms (this machine was too busy to tell when they were due).",
			share, formatMillis(loop.Service["read"].P99Micros), formatMillis(loop.Service["update"].P99Micros))
	}
	return text + fmt.Sprintf(" at %.0f %% of it 99 of 100 reads took at most %s ms, updates %s ms.",
		share, formatMillis(rep.Ops["read"].P99Micros), formatMillis(rep.Ops["update"].P99Micros))
}
