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
// that ends when its time is over, a YCSB-B run, a table.
type demoCommand struct {
	Docs         count      `default:"250k" placeholder:"N" help:"Number of documents to load, as far as they go in 20 s; default ${default}."`
	JSON         jsonOutput `name:"json" placeholder:"FILE" help:"Write the figures of the run as JSON; - is standard output, in place of the table."`
	MemoryBudget byteCount  `default:"256MiB" placeholder:"SIZE" help:"Memory that the engine may use for write buffers and scratch; default ${default}."`
	Seed         uint64     `default:"1" placeholder:"N" help:"Seed of documents and operations; default ${default}."`
}

const (
	demoLoadTime   = 20 * time.Second
	demoSettleTime = 10 * time.Second
	demoRunTime    = 12 * time.Second
	demoWarmup     = 2 * time.Second
)

// Help returns what follows the short help.
func (*demoCommand) Help() string {
	return `
Examples:

    pbench                     the demonstration
    pbench --json - | jq .all  its figures for a program
    pbench load --help         more commands: load, run, list`
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
	r := runCommand{
		runFlags:    runFlags{Workers: 16, Duration: demoRunTime, Warmup: demoWarmup, JSON: d.JSON},
		engineFlags: engineFlags{MemoryBudget: d.MemoryBudget},
	}
	if err := r.JSON.open(); err != nil {
		return err
	}
	defer r.JSON.discard()
	if err := r.Durability.UnmarshalText([]byte("synced")); err != nil {
		return err
	}
	w, err := workload.FindWorkload("ycsb-b")
	if err != nil {
		return err
	}
	b, err := r.closedLoop(w, d.Seed)
	if err != nil {
		return err
	}
	s, err := env.open(ctx, dir, r.options(env))
	if err != nil {
		return err
	}
	shut := sync.OnceValue(s.Close)
	defer func() { err = errors.Join(err, shut()) }()
	if b.c, err = s.CreateContainer(ctx, "food", r.def([]string{g.KeyPath()})); err != nil {
		return err
	}
	var mem measure.Memory
	in := generatedInput(g, 0, n)
	deadline := time.Now().Add(demoLoadTime)
	in.docs = until(in.docs, func() bool { return time.Now().After(deadline) })
	result, err := load(ctx, env, b.c, in, 0, 0, &mem)
	if ctx.Err() != nil {
		return errInterrupted
	}
	if err != nil {
		return err
	}
	settling, cancel := context.WithTimeout(ctx, demoSettleTime)
	defer cancel()
	err = result.settle(settling, env, s, &mem)
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
		result.print(env.stdout, in.about, b.c.Def().partitions)
	}
	b.docs = measure.NewGenerated(g, result.documents)
	_, err = r.measure(ctx, env, s, shut, dir, "food", b)
	return err
}
