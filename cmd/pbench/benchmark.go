package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/cleavestore/cleave/internal/harness"
	"github.com/cleavestore/cleave/internal/measure"
	"github.com/cleavestore/cleave/internal/workload"
)

// loopFlags are those of everything that performs operations.
type loopFlags struct {
	Workers int           `placeholder:"N" help:"Goroutines that call the store, so many operations at a time at most; default 64, in a closed loop 16."`
	Warmup  time.Duration `default:"2s" placeholder:"TIME" help:"Run so long before measuring; default ${default}."`
	Spin    bool          `help:"Wait for the due moments in a loop that takes a core: exact to a microsecond, for stores that answer in a few."`
}

const (
	// defaultOpenWorkers leaves some free while others wait for a sync.
	defaultOpenWorkers   = 64
	defaultClosedWorkers = 16
	maxWorkers           = 4096
)

// check refuses wrong usage.
func (f *loopFlags) check() error {
	if f.Workers < 0 || f.Workers > maxWorkers {
		return harness.Usagef("--workers %d: want 1 to %d", f.Workers, maxWorkers)
	}
	if f.Warmup < 0 {
		return harness.Usagef("--warmup cannot be negative")
	}
	return nil
}

// settle gives what is not set its default.
func (f *loopFlags) settle(closed bool) {
	if f.Workers == 0 {
		f.Workers = defaultOpenWorkers
		if closed {
			f.Workers = defaultClosedWorkers
		}
	}
}

// benchmark performs loops of operations on a target, one after the other.
type benchmark struct {
	*loopFlags
	env      *harness.Environment
	target   *harness.Target
	workload workload.Workload
	seed     uint64
	clock    *measure.Clock // nil before the first open loop
	mem      measure.Memory
	warm     bool // it needs no warm-up any more

	// Set by those who want them.
	before, after func() error
	measuring     func() // is called when the warm-up is over
	interval      func(measure.Interval)
	ttl           time.Duration // of what is written; 0: for ever
	places        bool          // count operations by their place in the key space
	splits        *splitWatch
	splitAt       []time.Duration // since the measuring began
	copyEvery     time.Duration   // between checkpoints; 0: none
	copied        []harness.Checkpoint
}

func newBenchmark(env *harness.Environment, t *harness.Target, f *loopFlags, w workload.Workload, seed uint64) (*benchmark, error) {
	if w.Mix[workload.Insert] > 0 && !harness.CanInsert(t.Docs) {
		return nil, harness.Usagef("container %q was not filled by a generator: workload %s cannot insert into it", t.Name, w.Name)
	}
	if w.Mix.Queries() {
		if !t.Container.Def().Index {
			return nil, harness.Usagef("container %q has no index: workload %s takes one that was loaded with --index", t.Name, w.Name)
		}
		if g, ok := t.Docs.(*measure.Generated); !ok || g.Generator().Params().Shape != workload.QueryShape {
			return nil, harness.Usagef("container %q: workload %s asks for documents of --generator %s", t.Name, w.Name, workload.QueryShape)
		}
	}
	return &benchmark{loopFlags: f, env: env, target: t, workload: w, seed: seed}, nil
}

// maximum returns the rate of a closed loop, in operations a second.
func (b *benchmark) maximum(ctx context.Context) (float64, error) {
	quiet := *b
	quiet.before, quiet.after, quiet.measuring, quiet.interval, quiet.splits, quiet.splitAt = nil, nil, nil, nil, nil, nil
	quiet.copyEvery, quiet.places = 0, false
	quiet.seed = ^b.seed // other operations than those that are measured: repetitions and steps count up
	o, err := quiet.perform(ctx, "maximum", 0, b.env.Trial.Maximum, 0)
	b.mem = quiet.mem
	switch {
	case err != nil:
		return 0, err
	case o.Interrupted:
		return 0, fmt.Errorf("%w before measuring", harness.ErrInterrupted)
	}
	all := o.All()
	if o.Err != nil {
		return 0, fmt.Errorf("%s failed, the first: %w", harness.Plural(all.Errors, "operation"), o.Err)
	}
	if all.Throttled > 0 { // a call that is refused takes no time
		return 0, harness.Usagef("container %q has limits on throughput, and refused %s of a closed loop, so there is no maximum to take a share of: give a --rate in operations a second, or take a container without limits",
			b.target.Name, harness.Plural(all.Throttled, "call"))
	}
	return o.Achieved(), nil
}

// calibrated makes and calibrates the clock if that was not done.
func (b *benchmark) calibrated(ctx context.Context) {
	if b.clock != nil {
		return
	}
	b.clock = measure.NewClock(b.Spin)
	bar := harness.NewProgress(b.env, "calibrate", time.Now())
	defer bar.End()
	_ = measure.WhileWaiting(func() error {
		b.clock.Calibrate(ctx, b.env.Trial.Calibration)
		return nil
	}, func(now time.Time) {
		bar.Show(now, -1, func() string { return "how late the clock wakes" })
	})
}

// perform warms up and measures a loop, with progress shown: at a rate, or as
// fast as it goes (0), for a time or a number of operations, 0 being no limit. A
// cancelled ctx ends it early, with what was measured so far.
func (b *benchmark) perform(ctx context.Context, label string, perSecond float64, d time.Duration, limit int64) (*measure.Outcome, error) {
	if perSecond > 0 {
		b.calibrated(ctx)
	}
	live := harness.LiveLine{Env: b.env, Label: label, Stats: b.target.Store.Stats, Offered: perSecond, Splits: b.target.Splits}
	cuts := cutter{c: b.target.Container, at: b.splitAt}
	defer cuts.stop()
	copies := copier{s: b.target.Store, dir: filepath.Join(harness.CheckpointDir(b.target.Dir), harness.NewestCheckpoint), every: b.copyEvery}
	defer copies.stop()
	store := measure.Store(b.target.Container)
	if b.ttl > 0 {
		store = b.target.Container.Expiring(b.ttl)
	}
	loop := measure.Loop{
		Workload: b.workload, Documents: b.target.Docs, Store: store, Expiring: b.ttl > 0,
		Workers: b.Workers, Seed: b.seed, Rate: perSecond, Clock: b.clock,
		Duration: d, Limit: limit, Memory: &b.mem, After: b.after, Places: b.places,
		Before: func() error {
			if b.before != nil {
				if err := b.before(); err != nil {
					return err
				}
			}
			if b.measuring != nil {
				b.measuring()
			}
			cuts.start(ctx)
			copies.start(ctx)
			return nil
		},
		Watch: live.Watch,
		Interval: func(i measure.Interval) {
			live.Interval(i)
			if b.splits != nil && !i.WarmUp {
				b.splits.interval(i)
			}
			if b.interval != nil && !i.WarmUp {
				b.interval(i)
			}
		},
	}
	if !b.warm {
		loop.Warmup = b.Warmup
	}
	o, err := loop.Run(ctx)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(cuts.stop(), copies.stop()); err != nil {
		b.env.Notef("%v", err)
	}
	b.copied = append(b.copied, copies.made...)
	b.warm = true // for a further loop of this kind
	b.target.Grown(o.Documents)
	return o, nil
}
