package main

import (
	"context"
	"errors"

	"github.com/cleavestore/cleave/cmd/pinspect/internal/layout"
	"github.com/cleavestore/cleave/cmd/pinspect/internal/survey"
	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/chart"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/humanize"
	"github.com/cleavestore/cleave/partmap"
)

type partitionsCommand struct {
	target
	layout.Filter
	Top      int  `default:"-1" placeholder:"N" help:"List the N largest logical partitions of each container, which reads its documents. Without it 5, but only if they are fewer than 256 MiB."`
	ShowKeys bool `help:"Show partition keys as they are, not only their hash."`
}

// Help returns the long help text.
func (*partitionsCommand) Help() string {
	return `Shows the physical partitions of each container: the range of the key space with its share drawn, items, bytes, runs and files. A number after ≤ is an upper bound: overwritten and deleted versions count until a compaction drops them. After a split both halves have the files of the whole, until these are written anew: "in files" estimates what belongs to a partition, "own" are the bytes of files that it alone has, "shared" of those that others have too, each in full. The line below the table counts each file once.

The largest logical partitions are named by the first digits of the hash of their key (EPK), so that the output can be posted; --show-keys adds the keys. Where documents cannot be read the bounds are printed, and then the error; a store that is damaged so that it cannot be opened is shown as by pinspect tree.

Examples:
  pinspect partitions DIR
  pinspect partitions DIR --container cities --top 20 --show-keys
  pinspect partitions DIR --json | jq 'select(.type=="partition") | .file_bytes'`
}

// partitionRow is a physical partition.
type partitionRow struct {
	header
	Container string             `json:"container"`
	ID        engine.PartitionID `json:"id"`
	Min       string             `json:"min"` // EPK in hexadecimal digits, inclusive
	Max       string             `json:"max"` // exclusive
	Share     float64            `json:"key_space_share"`
	Documents int64              `json:"documents"`
	Logical   *int64             `json:"logical_partitions,omitempty"` // if the documents were read
	Exact     bool               `json:"exact"`
	RawBytes  int64              `json:"raw_bytes"`
	FileBytes int64              `json:"file_bytes"`
	Own       int64              `json:"own_bytes"`    // of files that no other partition has
	Shared    int64              `json:"shared_bytes"` // of files that others have too, whole
	Unflushed int64              `json:"unflushed_bytes"`
	Runs      int                `json:"runs"`
	Files     int                `json:"files"`
	Flushed   uint64             `json:"flushed_seq"`
	LastSeq   uint64             `json:"last_seq"`
	Limit     float64            `json:"throughput_ru_per_s,omitempty"` // that it may consume; of a container with provisioned throughput

	rng partmap.Range
}

// logicalRow is one of the largest logical partitions.
type logicalRow struct {
	header
	Container string             `json:"container"`
	Partition engine.PartitionID `json:"partition"`
	EPK       string             `json:"epk"`
	Key       string             `json:"key,omitempty"`
	Documents int64              `json:"documents"`
	RawBytes  int64              `json:"raw_bytes"`
	Share     float64            `json:"partition_share"` // of the raw bytes of its physical partition
}

const (
	defaultTop = 5
	maxTop     = 10_000
	stripCells = 32
)

// Run runs the command.
func (c *partitionsCommand) Run(ctx context.Context, env *environment, out *output) error {
	if c.Top < -1 || c.Top > maxTop {
		return cli.Usagef("--top %d: between 0 and %d", c.Top, maxTop)
	}
	return c.Within(ctx, c.Dir, func(f *layout.Files, pick layout.Picker) error { return c.show(ctx, env, f, pick, out) })
}

func (c *partitionsCommand) show(ctx context.Context, env *environment, f *layout.Files, pick layout.Picker, out *output) error {
	db, err := openStore(ctx, c.Dir)
	if errors.Is(err, errDamaged) {
		return showDamaged(ctx, f, pick, c.JSON, out, err)
	}
	if err != nil {
		return err
	}
	defer db.Close()
	shares, err := f.ReadSharing(ctx)
	if err != nil {
		return err
	}
	line := env.newLine()
	defer line.Clear()
	shown := 0
	var damage error // why documents could not be counted
	for _, cs := range db.Stats().Containers {
		if c.Container != "" && cs.Name != c.Container {
			continue
		}
		rows, top, err := c.container(ctx, db, &cs, line)
		if errors.As(err, new(findingError)) {
			damage = errors.Join(damage, err)
		} else if err != nil {
			return err
		}
		if len(rows) == 0 {
			continue
		}
		for i := range rows {
			rows[i].Own, rows[i].Shared, rows[i].Limit = shares.Own[rows[i].ID], shares.Shared[rows[i].ID], shares.Rates[rows[i].ID]
		}
		if c.JSON {
			err = printRows(out, rows, top)
		} else {
			if shown > 0 {
				out.printf("\n")
			}
			c.print(out, &cs, rows, top, shares)
		}
		if err != nil {
			return err
		}
		shown++
	}
	if shown == 0 && !c.JSON {
		out.printf("no containers\n")
	}
	return damage
}

// container collects the rows of a container. With a findingError they hold
// bounds.
func (c *partitionsCommand) container(ctx context.Context, db *engine.DB, cs *engine.ContainerStats, line *cli.Line) ([]partitionRow, []logicalRow, error) {
	var raw int64
	for _, p := range cs.Partitions {
		raw += p.RawBytes
	}
	var counted *survey.Census
	var damage error
	if c.Top > 0 || c.Top < 0 && raw < survey.CheapBytes {
		limit := c.Top
		if limit < 0 {
			limit = defaultTop
		}
		counted, damage = survey.TakeCensus(ctx, db, cs, limit, c.Partition, line)
		if damage = readFailure(damage); damage != nil && !errors.As(damage, new(findingError)) {
			return nil, nil, damage
		}
	}
	var rows []partitionRow
	rawOf := make(map[engine.PartitionID]int64)
	for i, p := range cs.Partitions {
		if c.Partition != 0 && uint32(p.ID) != c.Partition {
			continue
		}
		lo, err := partmap.ParseEPK(p.Min)
		if err != nil {
			return nil, nil, err
		}
		hi, err := partmap.ParseEPK(p.Max)
		if err != nil {
			return nil, nil, err
		}
		row := partitionRow{
			header: newHeader("partition"), Container: cs.Name, ID: p.ID, Min: p.Min, Max: p.Max,
			Share:     survey.Position(&hi) - survey.Position(&lo),
			Documents: p.Items, Exact: p.Exact, RawBytes: p.RawBytes, FileBytes: p.FileBytes, Unflushed: p.MemtableBytes,
			Runs: p.Runs, Files: p.Files, Flushed: p.Flushed, LastSeq: p.Visible,
			rng: partmap.Range{Min: lo, Max: hi},
		}
		if counted != nil {
			t := counted.Partitions[i]
			row.Documents, row.Logical, row.RawBytes, row.Exact = t.Documents, &t.Logical, t.Bytes, true
		}
		rawOf[p.ID] = row.RawBytes
		rows = append(rows, row)
	}
	if counted == nil {
		return rows, nil, damage
	}
	var top []logicalRow
	for _, l := range counted.Top {
		whole, ok := rawOf[l.Partition]
		if !ok {
			continue
		}
		epk := l.Key.EPK()
		row := logicalRow{
			header: newHeader("logical_partition"), Container: cs.Name, Partition: l.Partition, EPK: epk.String(),
			Documents: l.Documents, RawBytes: l.Bytes,
		}
		if whole > 0 {
			row.Share = float64(l.Bytes) / float64(whole)
		}
		if c.ShowKeys {
			row.Key = l.Key.String()
		}
		top = append(top, row)
	}
	return rows, top, nil
}

func printRows(out *output, rows []partitionRow, top []logicalRow) error {
	for i := range rows {
		if err := out.object(&rows[i]); err != nil {
			return err
		}
	}
	for i := range top {
		if err := out.object(&top[i]); err != nil {
			return err
		}
	}
	return nil
}

func (c *partitionsCommand) print(out *output, cs *engine.ContainerStats, rows []partitionRow, top []logicalRow, shares *layout.Sharing) {
	out.printf("container %s: %s\n", printable(cs.Name), humanize.Plural(len(cs.Partitions), "physical partition", "physical partitions"))
	t := cli.NewTable("id", "<from", "<to", "<key space", "documents", "logical", "raw", "in files", "own", "shared", "runs", "files", "not flushed", "<bytes")
	var largest int64
	shown := make(map[engine.PartitionID]bool)
	for i := range rows {
		shown[rows[i].ID] = true
		largest = max(largest, rows[i].FileBytes+rows[i].Unflushed)
	}
	for i := range rows {
		r := &rows[i]
		logical := "-"
		if r.Logical != nil {
			logical = humanize.Count(*r.Logical)
		}
		t.Row(humanize.Count(uint64(r.ID)), shortEPK(&r.rng.Min), shortEPK(&r.rng.Max), strip(r.rng, stripCells),
			formatBound(r.Documents, r.Exact), logical, humanize.Bytes(r.RawBytes), humanize.Bytes(r.FileBytes),
			humanize.Bytes(r.Own), humanize.Bytes(r.Shared), humanize.Count(r.Runs), humanize.Count(r.Files), humanize.Bytes(r.Unflushed), chart.Bar(r.FileBytes+r.Unflushed, largest, 12))
	}
	t.Print(out.w, "  ")
	out.printf("  %s\n", shares.Total(shown))
	if cs.Def.Throughput > 0 {
		out.printf("  %s RU/s provisioned, %s\n", humanize.Count(int64(cs.Def.Throughput)), shares.RateText(cs.Partitions))
	}
	if len(top) == 0 {
		return
	}
	out.printf("  largest logical partitions\n")
	head := []string{"<EPK", "partition", "documents", "raw", "<share of its partition"}
	if c.ShowKeys {
		head = append(head, "<key")
	}
	lt := cli.NewTable(head...)
	for _, l := range top {
		cells := []string{l.EPK[:min(len(l.EPK), 12)], humanize.Count(uint64(l.Partition)), humanize.Count(l.Documents), humanize.Bytes(l.RawBytes),
			formatPercent(l.Share) + " " + chart.Bar(int64(l.Share*1000), 1000, 12)}
		if c.ShowKeys {
			cells = append(cells, l.Key)
		}
		lt.Row(cells...)
	}
	lt.Print(out.w, "  ")
}
