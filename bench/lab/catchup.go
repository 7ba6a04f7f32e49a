package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/harness"
	"github.com/cleavestore/cleave/internal/humanize"
	"github.com/cleavestore/cleave/internal/measure"
)

// catchUpCommand measures how fast a reader of the change feed that is far behind
// catches up.
type catchUpCommand struct {
	DB          string             `name:"db" required:"" type:"directory" placeholder:"DIR" help:"Directory of the store; it is not written to."`
	Container   string             `placeholder:"NAME" help:"Container to read; default: the only one."`
	From        string             `default:"start" placeholder:"POSITION" help:"Where to begin: start, time: and a time by RFC 3339, or the text of a position; default ${default}."`
	AllVersions bool               `help:"Read all versions that the container keeps, not the latest ones."`
	Cold        bool               `help:"Ask the system first to drop what it has of the files in memory; on Linux only."`
	JSON        harness.JSONOutput `name:"json" placeholder:"FILE" help:"Write the figures as JSON; - is standard output, in place of the table."`
}

// Help returns what follows the short help.
func (*catchUpCommand) Help() string {
	return `
Reads all changes from a position to the end, in one goroutine, and throws them away.

Memory of its own is what the process takes but for mapped files, which the system takes back when it needs room; that of an opened store at rest is told beside the greatest.

Examples:

    pbench load --db small --generator small --docs 2M
    lab catchup --db small --cold
    lab catchup --db small --from time:2026-03-01T12:00:00Z`
}

// catchUpReport is what lab catchup found.
type catchUpReport struct {
	V         int             `json:"v"`
	Workload  string          `json:"workload"` // "feed-catch-up"
	Machine   measure.Machine `json:"machine"`
	Container string          `json:"container"`
	From      string          `json:"from"`
	Cold      bool            `json:"cold"`
	FileBytes int64           `json:"file_bytes"` // of the container
	Changes   int64           `json:"changes"`
	Bytes     int64           `json:"bytes"` // of their documents
	Seconds   float64         `json:"seconds"`
	First     float64         `json:"first_ms"`             // until the first change
	AtRest    int64           `json:"anonymous_bytes"`      // of the opened store
	Peak      int64           `json:"peak_anonymous_bytes"` // while it was read
	Position  string          `json:"position"`             // behind all
}

// Run reads.
func (c *catchUpCommand) Run(ctx context.Context, env *harness.Environment) error {
	from, err := engine.ParsePosition(c.From)
	if err != nil {
		return cli.Usage(err)
	}
	if err = harness.CheckLoaded(c.DB); err != nil {
		return err
	}
	if err = c.JSON.Open(c.DB); err != nil {
		return err
	}
	defer c.JSON.Discard()
	if c.Cold {
		if err = measure.DropCached(c.DB); err != nil {
			return fmt.Errorf("--cold: %w", err)
		}
	}
	r, err := c.measure(ctx, env, from)
	switch {
	case ctx.Err() != nil:
		return harness.ErrInterrupted
	case errors.Is(err, engine.ErrInvalid), errors.Is(err, engine.ErrNoContainer):
		return cli.Usage(err)
	case err != nil:
		return err
	}
	if !c.JSON.ReplacesText() {
		env.PrintMachine(env.Stdout, r.Machine)
		r.print(env.Stdout)
	}
	return c.JSON.Write(env, r)
}

// memoryEvery is how many changes lie between two looks at the memory.
const memoryEvery = 4096

func (c *catchUpCommand) measure(ctx context.Context, env *harness.Environment, from engine.ChangePosition) (_ *catchUpReport, err error) {
	r := &catchUpReport{V: 1, Workload: "feed-catch-up", Machine: measure.DescribeMachine(c.DB), From: c.From, Cold: c.Cold}
	db, err := engine.Open(ctx, c.DB, &engine.Options{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if r.Container, err = harness.ContainerOf(db, c.Container, ""); err != nil {
		return nil, err
	}
	of, err := db.Container(r.Container)
	if err != nil {
		return nil, err
	}
	for _, p := range of.Partitions() {
		r.FileBytes += p.FileBytes
	}
	var memory measure.Memory
	memory.Sample()
	r.AtRest = memory.Anonymous
	o := &engine.ChangeOptions{AllVersions: c.AllVersions, Progress: func(at engine.ChangePosition) { r.Position = at.String() }}
	start := time.Now()
	line := harness.NewProgress(env, "catch up", start)
	defer line.End()
	for ch, err := range of.Changes(ctx, engine.AllPartitions(), from, o) {
		if err != nil {
			return nil, err
		}
		if r.Changes == 0 {
			r.First = time.Since(start).Seconds() * 1e3
		}
		r.Changes++
		r.Bytes += int64(len(ch.Body))
		if r.Changes%memoryEvery == 0 {
			memory.Sample()
			line.Show(time.Now(), -1, func() string { return humanize.Count(r.Changes) + " changes" })
		}
	}
	r.Seconds = time.Since(start).Seconds()
	memory.Sample()
	r.Peak = memory.PeakAnonymous
	return r, nil
}

func (r *catchUpReport) print(w io.Writer) {
	fmt.Fprintf(w, "changes  %s of %s, %s, from %s, in %.2f s; the first after %.1f ms\n", humanize.Count(r.Changes), r.Container,
		humanize.Bytes(r.Bytes), r.From, r.Seconds, r.First)
	if r.Seconds > 0 {
		fmt.Fprintf(w, "rate     %s/s, %s/s; files of %s\n", humanize.Number(float64(r.Changes)/r.Seconds),
			humanize.Bytes(float64(r.Bytes)/r.Seconds), humanize.Bytes(r.FileBytes))
	}
	if r.Peak > 0 {
		fmt.Fprintf(w, "memory   of its own %s at most, %s before\n", humanize.Bytes(r.Peak), humanize.Bytes(r.AtRest))
	}
}
