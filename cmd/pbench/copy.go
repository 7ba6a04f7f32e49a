package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/harness"
	"github.com/cleavestore/cleave/internal/humanize"
	"github.com/cleavestore/cleave/internal/jsondoc"
)

// copyCommand gives a container another partition key, by a copy that takes its
// place.
type copyCommand struct {
	DB           string        `name:"db" required:"" type:"directory" placeholder:"DIR" help:"Directory of the store."`
	Container    string        `placeholder:"NAME" help:"Container to copy; default: the only one."`
	To           string        `required:"" placeholder:"NAME" help:"Name of the copy."`
	PartitionKey []string      `required:"" sep:"none" placeholder:"/PATH" help:"Partition key of the copy, 1 to 3 paths with commas between them."`
	Partitions   harness.Count `placeholder:"N" help:"Physical partitions of the copy; default: as many as the source has."`
	NoUniqueKeys bool          `help:"The source has unique keys: make a copy without."`
	NoKeyLimits  bool          `help:"Logical partitions of the source have limits of their own: leave the limits of the copy as they are."`
	NoFinish     bool          `help:"Leave the copy unfinished, to be looked at: the source is written to as before, and the same command without this flag goes on."`
	Drop         bool          `help:"Drop the source when the copy has taken its place."`

	JSON harness.JSONOutput `name:"json" placeholder:"FILE" help:"Write what was done as JSON; - is standard output, in place of the text."`
}

// copyReport is what copy prints as JSON.
type copyReport struct {
	V         int     `json:"v"`
	Workload  string  `json:"workload"` // "copy"
	Container string  `json:"container"`
	To        string  `json:"to"`
	Documents int64   `json:"documents"` // written by this command
	Removed   int64   `json:"removed"`   // from the copy
	Seconds   float64 `json:"seconds"`
	Finished  bool    `json:"finished"` // the copy takes the writes
	Dropped   bool    `json:"dropped"`  // the source
}

// Help returns what follows the short help.
func (*copyCommand) Help() string {
	return `
The partition key of a container cannot be changed. This makes another container of its documents, with another key and else the same definition, which takes its place (docs/copying.md): the source takes no writes any more, the copy takes them. If the command is broken off, the same one goes on; what was copied is compared and not written again. Limits of single logical partitions go over if the copy has the partition key of the source. Under another one the copy is refused without --no-key-limits: a program sets limits of the copy after --no-finish. A program that has the store open itself calls Container.CopyTo instead, which goes on beside writes.

Examples:

    pbench copy --db shop --container orders --to orders-by-customer --partition-key /customer
    pbench copy --db shop --container orders --to orders-2 --partition-key /tenant,/customer --no-finish
    pbench copy --db names --to names-by-state --partition-key /state --drop`
}

// Run copies.
func (c *copyCommand) Run(ctx context.Context, env *harness.Environment) (err error) {
	if c.Drop && c.NoFinish {
		return harness.Usagef("--drop does not go with --no-finish")
	}
	if err = harness.CheckLoaded(c.DB); err != nil {
		return err
	}
	if err = c.JSON.Open(c.DB); err != nil {
		return err
	}
	defer c.JSON.Discard()
	db, err := engine.Open(ctx, c.DB, nil)
	if ctx.Err() != nil {
		err = errors.Join(harness.ErrInterrupted, err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err = harness.TakeBack(ctx, env, c.DB, harness.Opened(db)); err != nil { // before the definition is copied
		return err
	}
	if c.Container, err = harness.ContainerOf(db, c.Container, c.To); err != nil {
		return err
	}
	from, err := db.Container(c.Container)
	if err != nil {
		return err
	}
	def := from.Def()
	if len(def.UniqueKeys) > 0 && !c.NoUniqueKeys {
		return harness.Usagef("container %q has unique keys, which a copy cannot have: --no-unique-keys makes one without", c.Container)
	}
	paths := jsondoc.SplitPaths(c.PartitionKey...)
	limited := maps.Collect(from.LimitedKeys())
	if c.NoKeyLimits {
		limited = nil
	} else if len(limited) > 0 && (def.Synthetic != nil || !jsondoc.SamePaths(paths, def.PartitionKey)) {
		if !c.NoFinish {
			return harness.Usagef("%s of container %q, and keys by %s are others: --no-key-limits makes a copy without these limits, or with those that a program sets after --no-finish",
				humanize.Plural(len(limited), "logical partition has limits of its own", "logical partitions have limits of their own"), c.Container, jsondoc.JoinPaths(paths))
		}
		limited = nil
	}
	def.UniqueKeys, def.Synthetic, def.PartitionKey = nil, nil, paths
	def.MinPartitions = len(from.Partitions())
	if c.Partitions > 0 {
		def.MinPartitions = c.Partitions.Int()
	}
	start := time.Now()
	line := harness.NewProgress(env, "copy", start)
	var done engine.CopyProgress
	err = c.copy(ctx, db, from, def, limited, func(p engine.CopyProgress) {
		done = p
		share := -1.0
		if p.Pass <= 1 && p.Items > 0 {
			share = min(1, float64(p.Looked)/float64(p.Items))
		}
		line.Show(time.Now(), share, func() string {
			return fmt.Sprintf("pass %d, %s written, %s removed", p.Pass, harness.Plural(p.Copied, "document"), humanize.Count(p.Removed))
		})
	})
	line.End()
	switch {
	case ctx.Err() != nil:
		env.Notef("%s written; the same command goes on", harness.WasOrWere(done.Copied))
		return harness.ErrInterrupted
	case errors.Is(err, engine.ErrInvalid):
		return cli.Usage(err)
	case err != nil:
		return err
	}
	took := time.Since(start)
	if !c.JSON.ReplacesText() {
		c.print(env.Stdout, done, took)
	}
	return c.JSON.Write(env, &copyReport{
		V: 1, Workload: "copy", Container: c.Container, To: c.To, Documents: done.Copied, Removed: done.Removed,
		Seconds: harness.Round(took.Seconds(), 3), Finished: !c.NoFinish, Dropped: c.Drop,
	})
}

// copy does all of it. limited are the limits that single logical partitions take along.
func (c *copyCommand) copy(ctx context.Context, db *engine.DB, from *engine.Container, def engine.ContainerDef, limited map[engine.PartitionKey]engine.KeyLimits, progress func(engine.CopyProgress)) error {
	job, err := from.CopyTo(ctx, c.To, def)
	if errors.Is(err, engine.ErrCopied) { // perhaps by this command, which was broken off before it dropped the source
		return fmt.Errorf("%w, which takes its writes; pinspect drop removes this one", err)
	}
	if err != nil {
		return err
	}
	to, has := job.Container(), maps.Collect(job.Container().LimitedKeys())
	maps.DeleteFunc(limited, func(key engine.PartitionKey, l engine.KeyLimits) bool { return has[key] == l })
	if len(limited) > 0 { // the job would end at a logical partition that is full without its limit
		job.Cancel()
		for key, l := range limited {
			if l.Throughput == 0 && def.Limits.LogicalPartitionThroughput > 0 {
				l.Throughput = -1 // unlimited: 0 would be as the others
			}
			if err = to.SetKeyLimits(ctx, key, l); err != nil {
				return err
			}
		}
		if job, err = from.CopyTo(ctx, c.To, def); err != nil {
			return err
		}
	}
	defer job.Cancel() // nothing is left to cancel when Finish has returned nil
	if err = watch(ctx, job, progress); err != nil || c.NoFinish {
		return err
	}
	_, err = job.Finish(ctx)
	progress(job.Progress())
	if err != nil || !c.Drop {
		return err
	}
	return db.DropContainer(ctx, c.Container)
}

// watch waits for a job of the engine, and tells its progress ten times a second and at
// the end.
func watch[P any](ctx context.Context, job interface {
	Wait(context.Context) error
	Progress() P
}, tell func(P)) error {
	for {
		tick, stop := context.WithTimeout(ctx, 100*time.Millisecond)
		err := job.Wait(tick)
		stop()
		tell(job.Progress())
		if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
}

func (c *copyCommand) print(w io.Writer, done engine.CopyProgress, took time.Duration) {
	fmt.Fprintf(w, "copied   %s of %s to %s in %s s, %s; %s removed there\n", harness.Plural(done.Copied, "document"), c.Container, c.To,
		humanize.Number(took.Seconds()), harness.FormatRate(float64(done.Copied)/max(took.Seconds(), 1e-9)), humanize.Count(done.Removed))
	switch {
	case c.NoFinish:
		fmt.Fprintf(w, "         unfinished: %s takes writes as before, %s takes none\n", c.Container, c.To)
	case c.Drop:
		fmt.Fprintf(w, "         %s takes writes, %s is dropped\n", c.To, c.Container)
	default:
		fmt.Fprintf(w, "         %s takes writes, %s takes none any more and can be dropped\n", c.To, c.Container)
	}
}
