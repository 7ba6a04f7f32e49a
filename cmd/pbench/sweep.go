package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/cleavestore/cleave/internal/chart"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/harness"
	"github.com/cleavestore/cleave/internal/humanize"
	"github.com/cleavestore/cleave/internal/measure"
	"github.com/cleavestore/cleave/internal/workload"
)

type sweepCommand struct {
	harness.TargetFlags
	SLO      conditions    `name:"slo" required:"" placeholder:"WHAT" help:"Bounds that are to hold, such as read.p99<1ms,update.p99.9<20ms. OPERATION is that of a workload, or all; percentiles are p50, p99, p99.9 and max of the response times."`
	Duration time.Duration `default:"10s" placeholder:"TIME" help:"How long to run at each rate; default ${default}."`
	loopFlags
	JSON harness.JSONOutput `name:"json" placeholder:"FILE" help:"Write the steps as JSON; - is standard output, in place of the table."`
}

// Help returns what follows the short help.
func (*sweepCommand) Help() string {
	return `
A closed loop finds the maximum. Open loops at shares of it, then between the greatest rate that met the bounds and the least that did not, until these are 5 % apart, find the greatest rate. One at which the rate was missed by over 1 % (OVERLOADED) or an operation failed does not meet them. SUSPECT marks a step whose response times may be those of pbench's clock: see pbench run --help.

Examples:

    pbench sweep --docs 1M --workload ycsb-a --durability buffered --slo 'read.p99<1ms'
    pbench sweep --db food --workload ycsb-b --slo 'read.p99<500us,update.p99.9<20ms' --duration 30s`
}

// sweepReport is what a sweep prints as JSON.
type sweepReport struct {
	V        int              `json:"v"`
	Workload string           `json:"workload"`
	SLO      []string         `json:"slo"`
	Maximum  float64          `json:"maximum_per_s"` // of a closed loop
	Best     float64          `json:"best_per_s"`    // the greatest rate that met the SLO; 0: none did
	Steps    []sweepStep      `json:"steps"`         // by rate
	Machine  *measure.Machine `json:"machine"`
	Run      *settings        `json:"run"`
}

// sweepStep is a rate that was tried.
type sweepStep struct {
	Rate   float64  `json:"rate_per_s"`
	Met    bool     `json:"met"`
	Broken []string `json:"broken,omitempty"`
	results
	Loop *loopFigures `json:"loop"`
}

// Run looks for the greatest rate.
func (s *sweepCommand) Run(ctx context.Context, env *harness.Environment) error {
	w, err := s.FindWorkload()
	if err != nil {
		return err
	}
	if err := s.check(w); err != nil {
		return err
	}
	if err := s.JSON.Open(s.DB); err != nil {
		return err
	}
	defer s.JSON.Discard()
	s.settle(false)
	return s.With(ctx, env, s.JSON.ReplacesText(), func(t *harness.Target) error {
		if rate := t.Container.Def().Throughput; rate > 0 {
			return harness.Usagef("container %q has %s RU/s provisioned, and calls that it does not admit are none that a rate was kept with: sweep a container without --throughput", t.Name, humanize.Count(int64(rate)))
		}
		b, err := newBenchmark(env, t, &s.loopFlags, w, s.Seed)
		if err != nil {
			return err
		}
		rep, err := s.sweep(ctx, b)
		if rep != nil && len(rep.Steps) > 0 {
			err = errors.Join(err, s.deliver(env, rep))
		}
		return err
	})
}

// check refuses wrong usage.
func (s *sweepCommand) check(w workload.Workload) error {
	if err := s.loopFlags.check(); err != nil {
		return err
	}
	if s.Duration <= 0 {
		return harness.Usagef("--duration: want a time above 0")
	}
	for _, c := range s.SLO {
		if c.above {
			return harness.Usagef("--slo %q: want an upper bound, with <", c.text)
		}
	}
	if err := s.SLO.check(w); err != nil {
		return err
	}
	return s.TargetFlags.Check()
}

// sweep tries rates. After an error, or when it is interrupted, what it knows by
// then is in the report.
func (s *sweepCommand) sweep(ctx context.Context, b *benchmark) (*sweepReport, error) {
	t := b.target
	host := measure.DescribeMachine(t.Dir)
	rep := &sweepReport{V: 1, Workload: b.workload.Name, Machine: &host, Run: &settings{
		Container: t.Name, Documents: t.Docs.Count(), Partitions: t.Container.Def().Partitions,
		Mix: b.workload.Mix.String(), Keys: b.workload.Keys.String(), Loop: openLoop, Workers: b.Workers,
		Seconds: s.Duration.Seconds(), Durability: s.Durability.String(), MemoryBudget: int64(s.MemoryBudget), ScanCache: int64(s.ScanCache), Seed: s.Seed,
	}}
	for _, c := range s.SLO {
		rep.SLO = append(rep.SLO, c.text)
	}
	maximum, err := b.maximum(ctx)
	if err != nil {
		return nil, err
	}
	rep.Maximum = harness.Round(maximum, 1)
	look := search{maximum: maximum}
	for rate := look.next(); rate > 0; rate = look.next() {
		// What one rate leaves to be flushed and compacted is not the next one's.
		if err := t.Store.Settle(ctx); err != nil && ctx.Err() == nil {
			return rep, err
		}
		b.warm = false
		b.seed++
		o, err := b.perform(ctx, harness.FormatRate(rate), rate, s.Duration, 0)
		if err != nil {
			return rep, err
		}
		if o.Interrupted {
			rep.Run.Interrupted = true
			return rep, harness.ErrInterrupted
		}
		step := newSweepStep(rate, o, s.SLO)
		if o.Err != nil && step.All.Ops == 0 { // it is not the rate
			return rep, fmt.Errorf("at %s %s failed, the first: %w", harness.FormatRate(rate), harness.Plural(step.All.Errors, "operation"), o.Err)
		}
		look.tried(rate, step.Met)
		rep.Best = look.low
		at, _ := slices.BinarySearchFunc(rep.Steps, rate, func(step sweepStep, rate float64) int { return cmp.Compare(step.Rate, rate) })
		rep.Steps = slices.Insert(rep.Steps, at, step)
	}
	return rep, nil
}

func newSweepStep(rate float64, o *measure.Outcome, slo conditions) sweepStep {
	step := sweepStep{Rate: rate, results: newResults(o), Loop: newLoopFigures([]*measure.Outcome{o}, 0)}
	for _, c := range slo.broken(&step.results) {
		step.Broken = append(step.Broken, c.text)
	}
	all := o.All()
	step.Met = len(step.Broken) == 0 && !step.Loop.is(overloaded) && all.Errors+all.Throttled == 0
	return step
}

// deliver prints the steps and writes what was asked for.
func (s *sweepCommand) deliver(env *harness.Environment, rep *sweepReport) error {
	if !s.JSON.ReplacesText() {
		env.PrintMachine(env.Stdout, *rep.Machine)
		rep.Run.print(env.Stdout, rep.Workload)
		fmt.Fprintln(env.Stdout)
		rep.print(env.Stdout, s.SLO)
	}
	return s.JSON.Write(env, rep)
}

// print writes the table, a chart for each bound, and what was found.
func (r *sweepReport) print(w io.Writer, slo conditions) {
	table := cli.NewTable("rate", "achieved", "<operation", "response p50", "p99", "p99.9", "max", "service p99", "lag p99", "<")
	for i := range r.Steps {
		step := &r.Steps[i]
		names := step.names()
		for k, name := range names {
			if len(names) == 2 && k == 1 {
				break // of one kind only, so it is all of them
			}
			f, _ := step.operation(name)
			row := []string{"", "", displayName(name), harness.FormatMicros(f.P50Micros), harness.FormatMicros(f.P99Micros), harness.FormatMicros(f.P999), harness.FormatMicros(f.MaxMicros), harness.FormatMicros(f.service.P99Micros), "", ""}
			if k == 0 {
				row[0], row[1], row[8], row[9] = harness.FormatRate(step.Rate), harness.FormatRate(step.Loop.Achieved), harness.FormatMicros(step.Loop.Lag.P99Micros), step.notes()
			}
			table.Row(row...)
		}
	}
	table.Print(w, "")
	fmt.Fprintln(w, "latencies are in µs; response: from when an operation was due; service: of the call; lag: how late the clock woke")
	for _, c := range slo {
		fmt.Fprintf(w, "\n%s %s by rate, on a logarithmic scale; | is %s\n", c.op, c.percentile, c.limit)
		var rows []chart.Row
		for i := range r.Steps {
			f, _ := r.Steps[i].operation(c.op)
			us := f.percentile(c.percentile)
			rows = append(rows, chart.Row{Label: harness.FormatRate(r.Steps[i].Rate), Value: us, Note: harness.FormatMillis(us) + " ms  " + r.Steps[i].Loop.notes()})
		}
		chart.PrintLog(w, rows, harness.Micros(c.limit))
	}
	fmt.Fprintln(w)
	if r.Best == 0 {
		fmt.Fprintf(w, "no rate that was tried meets %s; a closed loop does %s\n", slo, harness.FormatRate(r.Maximum))
		return
	}
	fmt.Fprintf(w, "%s is the greatest rate that was seen to meet %s: %.0f %% of the %s of a closed loop\n",
		harness.FormatRate(r.Best), slo, 100*r.Best/r.Maximum, harness.FormatRate(r.Maximum))
}

// notes says whether a step met the bounds, and its verdicts.
func (s *sweepStep) notes() string {
	text := "met"
	if !s.Met {
		text = "not met"
	}
	if s.All.Errors > 0 {
		text += "  " + humanize.Count(s.All.Errors) + " failed"
	}
	return strings.TrimSpace(text + "  " + s.Loop.notes())
}
