package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavestore/cleave/internal/harness"
	"github.com/cleavestore/cleave/internal/humanize"
	"github.com/cleavestore/cleave/internal/measure"
	"github.com/cleavestore/cleave/internal/workload"
	"github.com/cleavestore/cleave/partmap"
)

// splitsCommand measures what splits cost under a steady load.
type splitsCommand struct {
	Size   []harness.ByteCount `placeholder:"SIZE,..." help:"Bytes of documents in the partition that is split, such as 10GB; default 100MB,1GB, with --beside none."`
	Splits int                 `default:"100" placeholder:"N" help:"Splits of each size; after each one the halves are merged again; default ${default}."`
	Every  time.Duration       `default:"3s" placeholder:"TIME" help:"From one split to the next; default ${default}."`
	Window time.Duration       `default:"1m" placeholder:"TIME" help:"How long to measure before the first split and after the last; default ${default}."`
	Rate   harness.Count       `default:"4k" placeholder:"N" help:"Operations a second: half of them reads, a quarter synced and a quarter buffered writes; default ${default}."`
	Beside []string            `placeholder:"FILE,..." help:"Show the results of earlier runs too, that were written with --json."`
	SVG    string              `name:"svg" placeholder:"FILE" help:"Draw the latencies around the cuts."`
	JSON   harness.JSONOutput  `name:"json" placeholder:"FILE" help:"Write the figures as JSON; - is standard output, in place of the table."`
	Seed   uint64              `default:"1" placeholder:"N" help:"Seed of documents and operations; default ${default}."`
}

// Help returns what follows the short help.
func (*splitsCommand) Help() string {
	return `
Each size is loaded into one physical partition of a temporary store, in documents of 1.2 KiB. Then operations are due at a steady rate; the partition is split, and its halves are merged again half way to the next split. The table says whether each of the bounds that the design sets was kept: how long writes were held up, the longest gap between acknowledged writes within 100 ms of a cut beside that in 1,000 random windows of the same run, p99.9 in the second around the cuts and after them against before, failed operations, and bytes copied before the children served. Exit status 1: a bound was not kept.

A size takes its load and settling, and 2 WINDOW + SPLITS x EVERY: seven minutes and the load by default. Disk: two times the size.

Examples:

    lab splits --size 100MB --splits 20 --window 10s
    lab splits --size 100MB --json small.json
    lab splits --size 1GB,10GB --beside small.json --svg splits.svg --json all.json
    lab splits --beside small.json,large.json --svg splits.svg`
}

// check refuses wrong usage.
func (s *splitsCommand) check() error {
	switch {
	case s.Splits < 1 || s.Splits > 10_000:
		return harness.Usagef("--splits %d: want 1 to 10,000", s.Splits)
	case s.Every < 20*time.Millisecond:
		return harness.Usagef("--every %v: at least 20ms", s.Every)
	case s.Window < 100*time.Millisecond:
		return harness.Usagef("--window %v: at least 100ms", s.Window)
	}
	if len(s.Size) == 0 && len(s.Beside) == 0 {
		s.Size = []harness.ByteCount{100e6, 1e9}
	}
	for _, size := range s.Size {
		if size < 1<<20 {
			return harness.Usagef("--size %s: at least 1MiB", humanize.Bytes(int64(size)))
		}
	}
	return nil
}

// Run measures.
func (s *splitsCommand) Run(ctx context.Context, env *harness.Environment) error {
	if err := s.check(); err != nil {
		return err
	}
	r := splitsReport{V: 1, Workload: "splits"}
	for _, name := range s.Beside {
		sizes, err := readSplitsReport(name)
		if err != nil {
			return err
		}
		r.Sizes = append(r.Sizes, sizes...)
	}
	if err := harness.OutsideStores("--svg", s.SVG); err != nil {
		return err
	}
	if err := s.JSON.Open(); err != nil {
		return err
	}
	defer s.JSON.Discard()
	for _, size := range s.Size {
		var f *sizeFigures
		if err := harness.InTemporary(func(dir string) (err error) {
			f, err = s.measure(ctx, env, dir, int64(size))
			return err
		}); err != nil {
			return err
		}
		r.Sizes = append(r.Sizes, *f)
	}
	if len(r.Sizes) == 0 {
		return errors.New("--beside: there are no sizes in it")
	}
	slices.SortStableFunc(r.Sizes, func(a, b sizeFigures) int { return cmp.Compare(a.Bytes, b.Bytes) })
	r.judge()
	if !s.JSON.ReplacesText() {
		env.PrintMachine(env.Stdout, r.Sizes[0].Machine)
		r.print(env.Stdout)
	}
	if s.SVG != "" {
		picture, err := r.svg()
		if err == nil {
			err = os.WriteFile(s.SVG, picture, 0o666)
		}
		if err != nil {
			return err
		}
	}
	if err := s.JSON.Write(env, r); err != nil {
		return err
	}
	if len(r.Missed) > 0 {
		return fmt.Errorf("not kept: %s", strings.Join(r.Missed, "; "))
	}
	return nil
}

// splitWorkers are so many that reads find a free one while synced writes wait
// for a disk that stalls.
const splitWorkers = 512

// halfDurable writes in turn with one durability and another.
type halfDurable struct {
	measure.Store
	other measure.Store
	n     atomic.Int64
}

// Upsert implements measure.Store.
func (h *halfDurable) Upsert(ctx context.Context, key partmap.Key, id string, doc []byte) error {
	if h.n.Add(1)%2 == 0 {
		return h.other.Upsert(ctx, key, id, doc)
	}
	return h.Store.Upsert(ctx, key, id, doc)
}

// measure loads a partition and splits it under load.
func (s *splitsCommand) measure(ctx context.Context, env *harness.Environment, dir string, size int64) (f *sizeFigures, err error) {
	g, err := workload.NewGenerator(workload.Params{Shape: "ycsb", Seed: s.Seed, LogicalPartitions: harness.DefaultLogicalPartitions})
	if err != nil {
		return nil, err
	}
	var synced, buffered harness.Durability
	if err = errors.Join(synced.UnmarshalText([]byte("synced")), buffered.UnmarshalText([]byte("buffered"))); err != nil {
		return nil, err
	}
	t := &harness.Target{Dir: dir, Name: "docs", Splits: new(harness.SplitLog)}
	engine := harness.EngineFlags{MemoryBudget: 256 << 20, Durability: buffered, MaxPartitionBytes: math.MaxInt64}
	if t.Store, err = env.Open(ctx, dir, engine.Options(env, t.Splits)); err != nil {
		return nil, err
	}
	t.Shut = sync.OnceValue(t.Store.Close)
	defer func() { err = errors.Join(err, t.Shut()) }()
	if t.Container, err = t.Store.CreateContainer(ctx, t.Name, (&harness.NewContainerFlags{Partitions: 1}).Def([]string{g.KeyPath()})); err != nil {
		return nil, err
	}
	var mem measure.Memory
	n := size / int64(len(g.Append(nil, 0, 0)))
	loaded, err := harness.Load(ctx, env, t.Container, harness.GeneratedInput(g, 0, n), 0, 0, &mem, t.Splits)
	if err == nil && ctx.Err() == nil {
		err = loaded.Settle(ctx, env, t.Store, &mem, t.Splits)
	}
	if ctx.Err() != nil {
		return nil, harness.ErrInterrupted
	}
	if err != nil {
		return nil, err
	}
	t.Docs = measure.NewGenerated(g, n)
	clock := measure.NewClock(false)
	clock.Calibrate(ctx, env.Trial.Calibration)
	live := harness.LiveLine{Env: env, Label: formatSize(size), Stats: t.Store.Stats, Offered: float64(s.Rate), Splits: t.Splits}
	trace := new(measure.Trace)
	cuts := shuttle{c: t.Container, n: s.Splits, every: s.Every, after: s.Window}
	loop := measure.Loop{
		Workload:  workload.Workload{Name: "splits", Mix: workload.Mix{workload.Read: 0.5, workload.Update: 0.5}},
		Documents: t.Docs, Store: &halfDurable{Store: t.Container.With(synced), other: t.Container.With(buffered)},
		Workers: splitWorkers, Seed: s.Seed, Rate: float64(s.Rate), Clock: clock, Warmup: min(2*time.Second, s.Window),
		Duration: 2*s.Window + time.Duration(s.Splits)*s.Every, Memory: &mem, Trace: trace,
		Before:   func() error { cuts.start(ctx); return nil },
		After:    cuts.finish,
		Interval: live.Interval, Watch: live.Watch,
	}
	o, err := loop.Run(ctx)
	if err != nil {
		return nil, err
	}
	if o.Interrupted {
		return nil, harness.ErrInterrupted
	}
	if err := t.Shut(); err != nil { // and the store has told of all splits
		return nil, err
	}
	f = newSizeFigures(t.Splits.After(0), trace.Samples(), cuts.begun, rand.New(rand.NewPCG(s.Seed, 1)))
	all := o.All()
	f.Bytes, f.Documents, f.Rate, f.Asked = size, n, float64(s.Rate), s.Splits
	f.Failed, f.Overloaded, f.Machine = all.Errors, o.Overloaded() || cuts.late, measure.DescribeMachine(dir)
	if o.Err != nil {
		env.Notef("%s failed, the first: %v", harness.Plural(all.Errors, "operation"), o.Err)
	}
	return f, nil
}

// shuttle splits the one partition of a container and merges its halves, n
// times.
type shuttle struct {
	c     harness.Container
	n     int
	after time.Duration // before the first
	every time.Duration

	begun time.Time
	done  chan error
	late  bool // the last were done when the load was over
}

func (s *shuttle) start(ctx context.Context) {
	s.begun, s.done = time.Now(), make(chan error, 1)
	go func() { s.done <- s.run(ctx) }()
}

// run keeps to its times, so that what a split takes does not move the next.
func (s *shuttle) run(ctx context.Context) error {
	for i := range s.n {
		at := s.begun.Add(s.after + time.Duration(i)*s.every)
		if !wakeAt(ctx, at) {
			return nil
		}
		if err := s.c.Split(ctx); err != nil {
			return ended(ctx, err)
		}
		if !wakeAt(ctx, at.Add(s.every/2)) {
			return nil
		}
		if err := s.c.Merge(ctx); err != nil {
			return ended(ctx, err)
		}
	}
	return nil
}

// ended returns an error unless it is that of ctx.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// finish waits for the last split, which belongs into the load, and returns the
// error that ended the splitting before.
func (s *shuttle) finish() error {
	select {
	case err := <-s.done:
		return err
	default:
		s.late = true
		return <-s.done
	}
}

// wakeAt waits for a moment; false: ctx has ended.
func wakeAt(ctx context.Context, at time.Time) bool {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
