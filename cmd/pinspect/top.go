package main

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/cleavestore/cleave/cmd/pinspect/internal/layout"
	"github.com/cleavestore/cleave/cmd/pinspect/internal/survey"
	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/chart"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/humanize"
)

type topCommand struct {
	target
	layout.Filter
	Top      int  `default:"10" placeholder:"N" help:"List the N largest (${default})."`
	Each     bool `help:"The N largest of each physical partition, not of each container."`
	ShowKeys bool `help:"Show partition keys as they are, not only their hash."`
}

// Help returns the long help text.
func (*topCommand) Help() string {
	return `Lists the largest logical partitions of each container, with their share of the physical partition that they lie in and of its limit (20 GiB unless the container or the logical partition has another). A logical partition is never divided: one that has more than half of its physical partition makes splits useless, one that nears the limit will refuse writes.

The sizes come from the tables of the files and from the log; no document is read. A number after ≤ is an upper bound: overwritten and deleted versions count until a compaction drops them (pinspect partitions --top counts documents exactly, by reading them all). Logical partitions are named by the first digits of the hash of their key (EPK), so that the output can be posted; --show-keys adds the keys.

Examples:
  pinspect top DIR
  pinspect top DIR --container cities --top 20 --show-keys
  pinspect top DIR --partition 3
  pinspect top DIR --each --top 3
  pinspect top DIR --json | jq 'select(.limit_share > 0.5)'`
}

// topRow is a logical partition.
type topRow struct {
	header
	Container string             `json:"container"`
	Partition engine.PartitionID `json:"partition"`
	EPK       string             `json:"epk"`
	Key       string             `json:"key,omitempty"`
	Documents int64              `json:"documents"`
	RawBytes  int64              `json:"raw_bytes"`
	Exact     bool               `json:"exact"`           // documents and raw bytes; else upper bounds
	Share     float64            `json:"partition_share"` // of the raw bytes of its physical partition
	Limit     float64            `json:"limit_share"`     // of what the logical partition may hold
	Bytes     int64              `json:"logical_partition_limit_bytes"`
	Units     float64            `json:"logical_partition_throughput_ru_per_s,omitempty"`
	Own       bool               `json:"own_limits,omitempty"` // not those of the container
}

// Run runs the command.
func (c *topCommand) Run(ctx context.Context, env *environment, out *output) error {
	if c.Top < 1 || c.Top > maxTop {
		return cli.Usagef("--top %d: between 1 and %d", c.Top, maxTop)
	}
	return c.Within(ctx, c.Dir, func(f *layout.Files, pick layout.Picker) error { return c.show(ctx, env, f, pick, out) })
}

func (c *topCommand) show(ctx context.Context, env *environment, f *layout.Files, pick layout.Picker, out *output) error {
	shown := 0
	err := eachContainer(ctx, c.Dir, &c.Filter, f, pick, c.JSON, out, func(db *engine.DB, cs *engine.ContainerStats) error {
		rows, found, err := c.container(ctx, env, db, cs)
		if err != nil {
			return err
		}
		if c.JSON {
			for i := range rows {
				if err := out.object(&rows[i]); err != nil {
					return err
				}
			}
			return nil
		}
		if shown++; shown > 1 {
			out.printf("\n")
		}
		c.print(out, cs, rows, found)
		return nil
	})
	if err == nil && shown == 0 && !c.JSON {
		out.printf("no containers\n")
	}
	return err
}

// eachContainer opens a store and calls show for the containers that a filter
// wants; a store that is damaged so that it cannot be opened is shown as by
// tree.
func eachContainer(ctx context.Context, dir string, only *layout.Filter, f *layout.Files, pick layout.Picker, json bool, out *output, show func(*engine.DB, *engine.ContainerStats) error) error {
	db, err := openStore(ctx, dir)
	if errors.Is(err, errDamaged) {
		return showDamaged(ctx, f, pick, json, out, err)
	}
	if err != nil {
		return err
	}
	defer db.Close()
	for _, cs := range db.Stats().Containers {
		if only.Container != "" && cs.Name != only.Container {
			continue
		}
		if only.Partition != 0 && !slices.ContainsFunc(cs.Partitions, func(p engine.PartitionStats) bool { return uint32(p.ID) == only.Partition }) {
			continue
		}
		if err := show(db, &cs); err != nil {
			return err
		}
	}
	return nil
}

// container collects the rows of a container.
func (c *topCommand) container(ctx context.Context, env *environment, db *engine.DB, cs *engine.ContainerStats) ([]topRow, *survey.Tables, error) {
	line := env.newLine()
	defer line.Clear()
	found, err := survey.ReadTables(ctx, db, cs, survey.Options{Top: c.Top, Each: c.Each, Only: c.Partition}, line)
	if err != nil {
		return nil, nil, readFailure(err)
	}
	of, err := openContainer(db, cs.Name)
	if err != nil {
		return nil, nil, err
	}
	own := maps.Collect(of.LimitedKeys())
	var rows []topRow
	for _, l := range found.Top {
		epk := l.Key.EPK()
		limits, limited := own[l.Key]
		if !limited {
			limits = engine.KeyLimits{Throughput: cs.Def.Limits.LogicalPartitionThroughput, Bytes: cs.Def.Limits.LogicalPartitionBytes}
		}
		row := topRow{
			header: newHeader("logical_partition"), Container: cs.Name, Partition: l.Partition, EPK: epk.String(),
			Documents: l.Documents, RawBytes: l.Bytes, Exact: found.Exact[l.Partition],
			Limit: float64(l.Bytes) / float64(limits.Bytes), Bytes: limits.Bytes, Units: limits.Throughput, Own: limited,
		}
		if whole := found.Partitions[l.Partition].Bytes; whole > 0 {
			row.Share = float64(l.Bytes) / float64(whole)
		}
		if c.ShowKeys {
			row.Key = l.Key.String()
		}
		rows = append(rows, row)
	}
	return rows, found, nil
}

func (c *topCommand) print(out *output, cs *engine.ContainerStats, rows []topRow, found *survey.Tables) {
	limit := humanize.Bytes(cs.Def.Limits.LogicalPartitionBytes)
	if units := cs.Def.Limits.LogicalPartitionThroughput; units > 0 {
		limit += " and " + humanize.Count(int64(units)) + " RU/s"
	}
	where := humanize.Plural(len(cs.Partitions), "physical partition", "physical partitions")
	if c.Partition != 0 {
		where = "physical partition " + humanize.Count(c.Partition)
	}
	out.printf("container %s: %s in %s; at most %s each\n", printable(cs.Name),
		humanize.Plural(found.Total.Logical, "logical partition", "logical partitions"), where, limit)
	if len(rows) == 0 {
		return
	}
	head := []string{"<EPK", "partition", "documents", "raw", "<share of its partition", "<of the limit"}
	if c.ShowKeys {
		head = append(head, "<key")
	}
	anyOwn := slices.ContainsFunc(rows, func(r topRow) bool { return r.Own })
	if anyOwn {
		head = append(head, "<own limits")
	}
	t := cli.NewTable(head...)
	for _, r := range rows {
		bound := ""
		if !r.Exact {
			bound = "≤ "
		}
		cells := []string{r.EPK[:min(len(r.EPK), 12)], humanize.Count(uint64(r.Partition)), bound + humanize.Count(r.Documents), bound + humanize.Bytes(r.RawBytes),
			formatPercent(r.Share) + " " + chart.Bar(int64(r.Share*1000), 1000, 12), formatPercent(r.Limit) + " " + chart.Bar(int64(r.Limit*1000), 1000, 12)}
		if c.ShowKeys {
			cells = append(cells, r.Key)
		}
		if anyOwn {
			cells = append(cells, r.ownLimits())
		}
		t.Row(cells...)
	}
	t.Print(out.w, "  ")
	if warning := c.warning(rows, found); warning != "" {
		out.printf("  %s\n", warning)
	}
}

// ownLimits says which limits the logical partition has that are not those of the container.
func (r *topRow) ownLimits() string {
	switch {
	case !r.Own:
		return ""
	case r.Units == 0:
		return humanize.Bytes(r.Bytes)
	}
	return humanize.Bytes(r.Bytes) + ", " + humanize.Count(int64(r.Units)) + " RU/s"
}

// warning says what a newcomer may not see in the table.
func (c *topCommand) warning(rows []topRow, found *survey.Tables) string {
	for _, r := range rows {
		switch {
		case r.Limit > 0.8:
			return "A logical partition is near its limit: at it, writes other than deletes are refused."
		case r.Share > 0.5 && found.Partitions[r.Partition].Logical > 1 && r.RawBytes > 1<<30:
			return "A logical partition has more than half of its physical partition: no split can divide it."
		}
	}
	return ""
}
