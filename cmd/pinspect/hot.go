package main

import (
	"context"
	"fmt"

	"github.com/cleavestore/cleave/cmd/pinspect/internal/layout"
	"github.com/cleavestore/cleave/cmd/pinspect/internal/survey"
	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/chart"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/humanize"
)

type hotCommand struct {
	target
	layout.Filter
	survey.Recency
	Top      int  `default:"10" placeholder:"N" help:"List the N hottest (${default})."`
	Each     bool `help:"The N hottest of each physical partition, not of each container."`
	ShowKeys bool `help:"Show partition keys as they are, not only their hash."`
}

// Help returns the long help text.
func (*hotCommand) Help() string {
	return `Lists the logical partitions in which the most documents were written lately: those whose last write is among the newest of the store. It reads all documents.

A store keeps no record of its load. Reads leave no trace on disk, deletes none that counts here, and a document that is written again and again counts once: this shows where writes went, not how many. Ask the running program for its load.

Logical partitions are named by the first digits of the hash of their key (EPK), so that the output can be posted; --show-keys adds the keys.

Examples:
  pinspect hot DIR
  pinspect hot DIR --container cities --recent 10000 --show-keys
  pinspect hot DIR --json | jq 'select(.recent_share > 0.1)'`
}

// hotRow is a logical partition.
type hotRow struct {
	header
	Container string             `json:"container"`
	Partition engine.PartitionID `json:"partition"`
	EPK       string             `json:"epk"`
	Key       string             `json:"key,omitempty"`
	Recent    int64              `json:"recent_documents"`
	Documents int64              `json:"documents"`
	Share     float64            `json:"recent_share"` // of the recent documents of the container
}

// Run runs the command.
func (c *hotCommand) Run(ctx context.Context, env *environment, out *output) error {
	if c.Top < 1 || c.Top > maxTop {
		return cli.Usagef("--top %d: between 1 and %d", c.Top, maxTop)
	}
	shown := 0
	err := c.Within(ctx, c.Dir, func(f *layout.Files, pick layout.Picker) error {
		return eachContainer(ctx, c.Dir, &c.Filter, f, pick, c.JSON, out, func(db *engine.DB, cs *engine.ContainerStats) error {
			if !c.JSON && shown > 0 {
				out.printf("\n")
			}
			shown++
			return c.show(ctx, env, db, cs, out)
		})
	})
	if err == nil && shown == 0 && !c.JSON {
		out.printf("no containers\n")
	}
	return err
}

func (c *hotCommand) show(ctx context.Context, env *environment, db *engine.DB, cs *engine.ContainerStats, out *output) error {
	line := env.newLine()
	defer line.Clear()
	after, writes, err := c.Find(ctx, db, line)
	if err != nil {
		return readFailure(err)
	}
	h, err := survey.TakeHeat(ctx, db, cs, survey.HeatOptions{After: after, Options: survey.Options{Top: c.Top, Each: c.Each, Only: c.Partition}}, line)
	if err != nil {
		return readFailure(err)
	}
	var rows []hotRow
	for _, l := range h.Hottest {
		epk := l.Key.EPK()
		row := hotRow{
			header: newHeader("hot_partition"), Container: cs.Name, Partition: l.Partition, EPK: epk.String(),
			Recent: l.Recent, Documents: l.Documents, Share: float64(l.Recent) / float64(h.Documents),
		}
		if c.ShowKeys {
			row.Key = l.Key.String()
		}
		rows = append(rows, row)
	}
	if c.JSON {
		for i := range rows {
			if err := out.object(&rows[i]); err != nil {
				return err
			}
		}
		return nil
	}
	c.print(out, cs, h, rows, writes)
	return nil
}

func (c *hotCommand) print(out *output, cs *engine.ContainerStats, h *survey.Heat, rows []hotRow, writes uint64) {
	where := ""
	if c.Partition != 0 {
		where = fmt.Sprintf(" in physical partition %d", c.Partition)
	}
	out.printf("container %s: the last write of %s%s is among the newest %s of the store%s\n", printable(cs.Name),
		humanize.Plural(h.Documents, "document", "documents"), where, humanize.Plural(writes, "write", "writes"), h.Span())
	if len(rows) == 0 {
		return
	}
	head := []string{"<EPK", "partition", "written lately", "documents", "<share of what was written lately"}
	if c.ShowKeys {
		head = append(head, "<key")
	}
	t := cli.NewTable(head...)
	for _, r := range rows {
		cells := []string{r.EPK[:min(len(r.EPK), 12)], humanize.Count(uint64(r.Partition)), humanize.Count(r.Recent), humanize.Count(r.Documents),
			formatPercent(r.Share) + " " + chart.Bar(r.Recent, h.Documents, 12)}
		if c.ShowKeys {
			cells = append(cells, r.Key)
		}
		t.Row(cells...)
	}
	t.Print(out.w, "  ")
}
