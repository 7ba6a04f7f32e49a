package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/harness"
	"github.com/cleavestore/cleave/internal/measure"
)

type reopenCommand struct {
	DB        string `name:"db" required:"" type:"directory" placeholder:"DIR" help:"Directory of a store that was loaded before."`
	Container string `placeholder:"NAME" help:"Container to read from; default the only one of the store."`
	Count     int    `default:"5" placeholder:"N" help:"How often to open it; default ${default}."`
	harness.EngineFlags
	JSON harness.JSONOutput `name:"json" placeholder:"FILE" help:"Write the figures as JSON; - is standard output, in place of the table."`
}

// Help returns what follows the short help.
func (*reopenCommand) Help() string {
	return `
The store is opened once before, so that its files are in the page cache and what a killed process left is recovered; that first time is shown apart.

Examples:

    pbench reopen --db food
    pbench reopen --db food --count 20 --json -`
}

// reopenReport is what reopen prints as JSON.
type reopenReport struct {
	V        int             `json:"v"`
	Workload string          `json:"workload"` // "reopen"
	First    float64         `json:"first_open_us"`
	Open     durations       `json:"open"`
	Read     durations       `json:"first_read"` // of a document
	Close    durations       `json:"close"`
	Machine  measure.Machine `json:"machine"`
}

// Run opens a store again and again.
func (c *reopenCommand) Run(ctx context.Context, env *harness.Environment) error {
	if c.Count < 1 || c.Count > 10_000 {
		return harness.Usagef("--count %d: want 1 to 10,000", c.Count)
	}
	if err := harness.CheckLoaded(c.DB); err != nil {
		return err
	}
	if err := c.JSON.Open(c.DB); err != nil {
		return err
	}
	defer c.JSON.Discard()
	rep := reopenReport{V: 1, Workload: "reopen", Machine: measure.DescribeMachine(c.DB)}
	target := harness.TargetFlags{DB: c.DB, Container: c.Container, EngineFlags: c.EngineFlags}
	begun := time.Now()
	err := target.WithLoaded(ctx, env, func(t *harness.Target) error {
		rep.First = harness.Round(harness.Micros(t.Opened.Sub(begun)), 1)
		key, id := t.Docs.Key(0), string(t.Docs.AppendID(nil, 0))
		if err := t.Shut(); err != nil {
			return err
		}
		var open, read, closed []time.Duration
		for range c.Count {
			if ctx.Err() != nil {
				return harness.ErrInterrupted
			}
			start := time.Now()
			s, err := env.Open(ctx, c.DB, c.Options(env, nil))
			if err != nil {
				return err
			}
			opened := time.Now()
			container, err := s.Container(t.Name)
			if err == nil {
				_, err = container.Read(ctx, key, id, nil)
			}
			done := time.Now()
			if err = errors.Join(err, s.Close()); err != nil {
				return err
			}
			open, read, closed = append(open, opened.Sub(start)), append(read, done.Sub(opened)), append(closed, time.Since(done))
		}
		rep.Open, rep.Read, rep.Close = newDurations(open), newDurations(read), newDurations(closed)
		return nil
	})
	if err != nil {
		return err
	}
	if !c.JSON.ReplacesText() {
		env.PrintMachine(env.Stdout, rep.Machine)
		rep.print(env.Stdout)
	}
	return c.JSON.Write(env, &rep)
}

// print writes the figures as a table.
func (r *reopenReport) print(w io.Writer) {
	t := cli.NewTable("<", "p50 ms", "max ms", "<")
	row := func(name string, d durations) {
		t.Row(name, harness.FormatMillis(d.P50), harness.FormatMillis(d.Max), harness.Plural(len(d.Each), "time"))
	}
	t.Row("open, the first time", "", harness.FormatMillis(r.First), "with the recovery, if the store was not closed")
	row("open", r.Open)
	row("read a document", r.Read)
	row("close", r.Close)
	t.Print(w, "")
	fmt.Fprintln(w, "the files are in the page cache; a read is the first after the opening")
}
