package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/measure"
	"github.com/cleavestore/cleave/internal/workload"
)

// runFlags say what to run and where the results go.
type runFlags struct {
	Workers    int           `default:"16" placeholder:"N" help:"Goroutines, each of which begins an operation when its last one is done; default ${default}."`
	Duration   time.Duration `placeholder:"TIME" help:"How long to run; default 20s, or no limit with --ops."`
	Ops        count         `placeholder:"N" help:"Number of operations after which to stop."`
	Warmup     time.Duration `default:"2s" placeholder:"TIME" help:"Run so long before measuring; default ${default}."`
	JSON       jsonOutput    `name:"json" placeholder:"FILE" help:"Write the figures as JSON; - is standard output, in place of the table."`
	Profile    profileKinds  `placeholder:"KINDS" help:"Take profiles, a list of cpu, heap, mutex, and print the top functions."`
	ProfileOut string        `placeholder:"DIR" help:"Also write the profiles to DIR/KIND.pprof for go tool pprof."`
}

const defaultDuration = 20 * time.Second

type runCommand struct {
	DB        string         `name:"db" type:"directory" placeholder:"DIR" help:"Directory of a store that was loaded before. Without it a temporary one is loaded with generated documents."`
	Container string         `placeholder:"NAME" help:"Container; default the only one of the store."`
	Workload  string         `default:"ycsb-b" placeholder:"NAME" help:"ycsb-a to ycsb-f, read, put, insert, scan, absent or partition; see pbench list; default ${default}."`
	Mix       *workload.Mix  `placeholder:"OP=WEIGHT,..." help:"Operations in place of those of the workload, such as read=95,update=5; it is then called mix."`
	Keys      *workload.Keys `placeholder:"HOW" help:"Key distribution in place of that of the workload: uniform, zipf:0.99, latest or hot:0.01/0.9."`
	runFlags
	generatorFlags
	newContainerFlags
	engineFlags
}

// Help returns what follows the short help.
func (*runCommand) Help() string {
	return `
Workers call the store in a closed loop. A latency is that of the call; the document is made before it, and what that takes is printed apart. Interrupting a run prints what was measured so far. In a container that no generator filled, at most a million documents, evenly spread over the key space, take part; an update writes them as they are.

Examples:

    pbench run --docs 1M --workload read --workers 1
    pbench run --db food --workload put --workers 64 --durability synced --duration 30s
    pbench run --db food --workload ycsb-a --keys zipf:1.2 --profile cpu,mutex
    pbench run --db cities --mix read=99,scan=1 --keys hot:0.01/0.9 --json -`
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
	Workers      int     `json:"workers,omitempty"`
	Seconds      float64 `json:"seconds"`
	Durability   string  `json:"durability"`
	MemoryBudget int64   `json:"memory_budget"`
	Seed         uint64  `json:"seed"`
	Interrupted  bool    `json:"interrupted,omitempty"`
}

// Run runs a workload.
func (r *runCommand) Run(ctx context.Context, env *environment) (err error) {
	b, err := r.benchmark()
	if err != nil {
		return err
	}
	if r.DB == "" {
		if r.Container != "" {
			return usagef("--container does not go without --db")
		}
		g, n, err := r.generator()
		if err != nil {
			return err
		}
		if err := r.JSON.open(); err != nil {
			return err
		}
		defer r.JSON.discard()
		return inTemporary(func(dir string) error { return r.runOnGenerated(ctx, env, dir, g, n, b) })
	}
	if r.given() || r.Docs != 0 || r.newContainerFlags != (newContainerFlags{}) {
		return usagef("--db names a store that was loaded before: flags about documents and partitions belong to pbench load")
	}
	if names, err := os.ReadDir(r.DB); err != nil {
		return err
	} else if len(names) == 0 {
		return fmt.Errorf("%s is empty: load something first", r.DB)
	}
	if err := r.JSON.open(); err != nil {
		return err
	}
	defer r.JSON.discard()
	s, err := env.open(ctx, r.DB, r.options(env))
	if err != nil {
		return err
	}
	shut := sync.OnceValue(s.Close)
	defer func() { err = errors.Join(err, shut()) }()
	name, err := theContainer(s, r.Container)
	if err != nil {
		return err
	}
	if b.c, err = s.Container(name); err != nil {
		return err
	}
	docs, from, err := findDocuments(ctx, env, r.DB, name, b.c)
	if ctx.Err() != nil {
		return errInterrupted
	}
	if err != nil {
		return err
	}
	b.docs = docs
	o, err := r.measure(ctx, env, s, shut, r.DB, name, b)
	if o != nil && from != nil && o.Documents > from.Documents {
		from.Documents = o.Documents
		err = errors.Join(err, setOrigin(r.DB, name, from))
	}
	return err
}

// theContainer returns name, or the only container of a store.
func theContainer(s store, name string) (string, error) {
	if name != "" {
		return name, nil
	}
	switch names := s.Names(); len(names) {
	case 0:
		return "", errors.New("the store has no container: load something first")
	case 1:
		return names[0], nil
	default:
		return "", usagef("which --container? The store has %s", strings.Join(names, ", "))
	}
}

// benchmark checks the flags of the workload.
func (r *runCommand) benchmark() (*benchmark, error) {
	w, err := workload.FindWorkload(r.Workload)
	if err != nil {
		return nil, cli.Usage(err)
	}
	if r.Mix != nil {
		w.Name, w.Mix = "mix", *r.Mix
	}
	if r.Keys != nil {
		w.Keys = *r.Keys
	}
	return r.closedLoop(w, r.Seed)
}

func (r *runFlags) closedLoop(w workload.Workload, seed uint64) (*benchmark, error) {
	if r.Workers < 1 || r.Workers > maxWorkers {
		return nil, usagef("--workers %d: want 1 to %d", r.Workers, maxWorkers)
	}
	if r.Duration < 0 || r.Warmup < 0 {
		return nil, usagef("--duration and --warmup cannot be negative")
	}
	b := &benchmark{Loop: measure.Loop{Workload: w, Workers: r.Workers, Seed: seed, Warmup: r.Warmup, Duration: r.Duration, Limit: int64(r.Ops)}}
	if b.Duration == 0 && b.Limit == 0 {
		b.Duration = defaultDuration
	}
	if r.ProfileOut != "" {
		if len(r.Profile) == 0 {
			return nil, usagef("--profile-out goes with --profile")
		}
		if info, err := os.Stat(r.ProfileOut); err != nil || !info.IsDir() {
			return nil, usagef("--profile-out %s is no directory", r.ProfileOut)
		}
	}
	return b, nil
}

// maxWorkers bounds the memory of the histograms: a quarter of a megabyte for
// each worker and kind of operation.
const maxWorkers = 4096

// runOnGenerated loads a new store in dir and runs on it.
func (r *runCommand) runOnGenerated(ctx context.Context, env *environment, dir string, g *workload.Generator, n int64, b *benchmark) (err error) {
	s, err := env.open(ctx, dir, r.options(env))
	if err != nil {
		return err
	}
	shut := sync.OnceValue(s.Close)
	defer func() { err = errors.Join(err, shut()) }()
	const name = "docs"
	if b.c, err = s.CreateContainer(ctx, name, r.def([]string{g.KeyPath()})); err != nil {
		return err
	}
	var mem measure.Memory
	in := generatedInput(g, 0, n)
	result, err := load(ctx, env, b.c, in, 0, 0, &mem)
	if ctx.Err() != nil {
		return errInterrupted
	}
	if err == nil {
		err = result.settle(ctx, env, s, &mem)
	}
	if err != nil {
		return err
	}
	if !r.JSON.replacesText() {
		result.print(env.stdout, in.about, b.c.Def().partitions)
	}
	b.docs = measure.NewGenerated(g, n)
	_, err = r.measure(ctx, env, s, shut, dir, name, b)
	return err
}

// measure runs a benchmark, closes the store and prints the results.
func (r *runCommand) measure(ctx context.Context, env *environment, s store, shut func() error, dir, name string, b *benchmark) (*measure.Outcome, error) {
	mix := &b.Workload.Mix
	if mix[workload.Insert] > 0 && !canInsert(b.docs) {
		return nil, usagef("container %q was not filled by a generator: workload %s cannot insert into it", name, b.Workload.Name)
	}
	p := profiler{kinds: r.Profile}
	var captures []capture
	var before storeStats
	var mem measure.Memory
	o, err := b.run(ctx, env, &mem,
		func() error { before = s.Stats(); return p.start() },
		func() (err error) { captures, err = p.stop(); return err })
	if err != nil {
		return nil, err
	}
	if o.Interrupted && !o.Measured() {
		return o, errors.Join(fmt.Errorf("%w before measuring", errInterrupted), shut())
	}
	// What writes owe to the disk belongs to them.
	if mix.Writes() && o.Err == nil && !o.Interrupted {
		if err := s.Flush(ctx); err != nil && ctx.Err() == nil {
			return o, err
		}
	}
	f := newEngineFigures(s, before, mem)
	partitions := b.c.Def().partitions
	if err := shut(); err != nil {
		return o, err
	}
	if err := f.addDisk(dir); err != nil {
		return o, err
	}
	host := measure.DescribeMachine(dir)
	f.From = &host
	f.Process = &processFigures{CPUSeconds: round(o.CPU.Seconds(), 3), Collections: o.Collections}
	f.Client = &clientFigures{MicrosPerOp: round(micros(o.Client), 3), MemoryBytes: o.Memory + b.docs.Memory()}
	f.Run = &settings{
		Container: name, Documents: b.docs.Count(), Partitions: partitions,
		Mix: mix.String(), Keys: b.Workload.Keys.String(), Loop: "closed", Workers: b.Workers,
		Seconds: round(o.Elapsed.Seconds(), 3), Durability: r.Durability.String(), MemoryBudget: int64(r.MemoryBudget),
		Seed: b.Seed, Interrupted: o.Interrupted,
	}
	rep := newReport(b.Workload.Name, o, f)
	if n := rep.All.Ops; n > 0 {
		f.Process.AllocationsPerOp = round(float64(o.Allocations)/float64(n), 3)
		if b.Workers == 1 {
			f.Client.CallsPerS = round(1e6/rep.All.mean, 1)
		}
	}
	if err := r.deliver(env, rep, captures); err != nil {
		return o, err
	}
	switch {
	case o.Err != nil:
		return o, fmt.Errorf("%s operations failed, the first: %w", formatCount(rep.All.Errors), o.Err)
	case o.Interrupted:
		return o, errInterrupted
	}
	return o, nil
}

// deliver prints the results and writes the files that were asked for.
func (r *runFlags) deliver(env *environment, rep *report, captures []capture) error {
	text := env.stdout
	if r.JSON.replacesText() {
		text = env.stderr
	} else {
		printMachine(text, env.args, *rep.Engine.From)
		rep.Engine.Run.print(text, rep.Workload)
		fmt.Fprintln(text)
		rep.print(text)
		fmt.Fprintln(text, "latencies are those of the calls, without the making of documents; MiB are of documents read and written")
		fmt.Fprintln(text)
		rep.Engine.print(text)
	}
	for i := range captures {
		if err := captures[i].printTop(text, topFunctions/len(captures)); err != nil {
			return err
		}
		if r.ProfileOut != "" {
			if err := captures[i].save(r.ProfileOut); err != nil {
				return err
			}
		}
	}
	return r.JSON.write(env, rep)
}

// topFunctions is how many lines the profiles take together.
const topFunctions = 24

// print writes what a run depends on as a line.
func (s *settings) print(w io.Writer, name string) {
	note := ""
	if s.Interrupted {
		note = ", INTERRUPTED"
	}
	fmt.Fprintf(w, "%s documents in %s; %s (%s), %s keys, seed %d\n", formatCount(s.Documents), plural(s.Partitions, "physical partition"),
		name, s.Mix, s.Keys, s.Seed)
	fmt.Fprintf(w, "%s, closed loop, %s, memory budget %s MiB, %s s%s\n",
		plural(s.Workers, "worker"), s.Durability, formatShort(float64(s.MemoryBudget)/(1<<20)), formatShort(s.Seconds), note)
}

// inTemporary calls fn with a directory that is removed afterwards.
func inTemporary(fn func(dir string) error) (err error) {
	dir, err := os.MkdirTemp("", "pbench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return fn(dir)
}
