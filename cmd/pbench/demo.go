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

// demoCommand is the whole way of data in one go, in at most a minute: a load
// that ends when its time is over, a YCSB-B run as fast as it goes and at a rate,
// a table, and in one line what was reached.
type demoCommand struct {
	Docs         count      `default:"250k" placeholder:"N" help:"Number of documents to load, as far as they go in 18 s; default ${default}."`
	JSON         jsonOutput `name:"json" placeholder:"FILE" help:"Write the figures of the run as JSON; - is standard output, in place of the table."`
	MemoryBudget byteCount  `default:"256MiB" placeholder:"SIZE" help:"Memory that the engine may use for write buffers and scratch; default ${default}."`
	Seed         uint64     `default:"1" placeholder:"N" help:"Seed of documents and operations; default ${default}."`
}

// What the demonstration takes at most, beside the trials: 2 + 4 s as fast as
// it goes, 1 s for the clock.
const (
	demoLoadTime   = 18 * time.Second
	demoSettleTime = 10 * time.Second
	demoRunTime    = 8 * time.Second
	demoWarmup     = 2 * time.Second
)

// Help returns what follows the short help.
func (*demoCommand) Help() string {
	return `
Examples:

    pbench                     the demonstration
    pbench --json - | jq .all  its figures for a program
    pbench load --help         more commands: load, run, sweep, compare, list`
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
	r := runFlags{loopFlags: loopFlags{Workers: defaultOpenWorkers, Warmup: demoWarmup}, Duration: demoRunTime, Count: 1, JSON: d.JSON}
	engine := engineFlags{MemoryBudget: d.MemoryBudget}
	if err := r.JSON.open(); err != nil {
		return err
	}
	defer r.JSON.discard()
	if err := engine.Durability.UnmarshalText([]byte("synced")); err != nil {
		return err
	}
	w, err := workload.FindWorkload("ycsb-b")
	if err != nil {
		return err
	}
	t := &target{dir: dir, name: "food"}
	if t.store, err = env.open(ctx, dir, engine.options(env)); err != nil {
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
	result, err := load(ctx, env, t.c, in, 0, 0, &mem)
	if ctx.Err() != nil {
		return errInterrupted
	}
	if err != nil {
		return err
	}
	settling, cancel := context.WithTimeout(ctx, demoSettleTime)
	defer cancel()
	err = result.settle(settling, env, t.store, &mem)
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
		fmt.Fprintf(env.stdout, "\n%s\n", reached(&result, rep))
	}
	return err
}

// reached says in a line what a newcomer wants to know.
func reached(l *loadResult, rep *report) string {
	loop := rep.Engine.Loop
	text := fmt.Sprintf("Reached: loaded %s, did at most %s of YCSB-B;",
		formatRate(float64(l.documents)/max(l.elapsed.Seconds(), 1e-9)), formatRate(loop.Maximum))
	if loop.is(overloaded) {
		return text + " this machine was too busy to keep up 60 % of it."
	}
	return text + fmt.Sprintf(" at %.0f %% of it 99 of 100 reads took at most %s ms, updates %s ms.",
		100*loop.Offered/max(loop.Maximum, 1), formatMillis(rep.Ops["read"].P99Micros), formatMillis(rep.Ops["update"].P99Micros))
}
