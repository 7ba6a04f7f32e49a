package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/cleavestore/cleave/cmd/pinspect/internal/layout"
	"github.com/cleavestore/cleave/internal/chart"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/humanize"
	"github.com/cleavestore/cleave/partmap"
)

type segmentsCommand struct {
	target
	layout.Filter
	Sections bool `help:"Show the sections of each file, not only their sum."`
}

// Help returns the long help text.
func (*segmentsCommand) Help() string {
	return `Shows one line for each segment file: where it belongs, its items, how well it compresses (stored/raw counts the items' bytes only, file/raw all of the file), the sequences in it and its compression dictionaries. Below it, what the bytes of the files are for.

Examples:
  pinspect segments DIR
  pinspect segments DIR --partition 3 --sections
  pinspect segments DIR --json | jq -r '[.file, .bytes, .raw_bytes] | @tsv'`
}

// segmentRow is a segment file.
type segmentRow struct {
	header
	Container    string          `json:"container"`
	Partition    uint32          `json:"partition"`
	Run          int             `json:"run"` // 1 is the newest
	File         string          `json:"file"`
	Bytes        int64           `json:"bytes"`
	Format       uint32          `json:"format,omitempty"`
	Items        uint64          `json:"items"`
	Keys         uint64          `json:"keys"`
	Live         uint64          `json:"live"`
	Tombstones   uint64          `json:"tombstones"`
	Groups       uint64          `json:"groups"`
	Logical      uint64          `json:"logical_partitions"`
	RawBytes     uint64          `json:"raw_bytes"`
	StoredBytes  uint64          `json:"stored_bytes"`
	MinSeq       uint64          `json:"min_seq"`
	MaxSeq       uint64          `json:"max_seq"`
	MinEPK       string          `json:"min_epk,omitempty"`
	MaxEPK       string          `json:"max_epk,omitempty"`
	Dictionaries []dictionaryRow `json:"dictionaries,omitempty"`
	Sections     []sectionRow    `json:"sections,omitempty"`
	Problem      *layout.Finding `json:"problem,omitempty"`

	min, max partmap.EPK
}

type dictionaryRow struct {
	Name  string `json:"name"` // first 8 bytes of the SHA-256 of the content
	Bytes int    `json:"bytes"`
}

type sectionRow struct {
	Name   string `json:"name"`
	Offset int64  `json:"offset"`
	Bytes  int64  `json:"bytes"`
}

// Run runs the command.
func (c *segmentsCommand) Run(ctx context.Context, out *output) error {
	return c.Within(ctx, c.Dir, func(f *layout.Files, pick layout.Picker) error { return c.show(ctx, f, pick, out) })
}

func (c *segmentsCommand) show(ctx context.Context, f *layout.Files, pick layout.Picker, out *output) error {
	l, err := f.ReadLayout(ctx, layout.Properties, pick)
	if err != nil {
		return err
	}
	var rows []segmentRow
	for _, view := range l.Containers {
		for _, p := range view.Partitions {
			for i, run := range p.Runs {
				for _, s := range run {
					rows = append(rows, describeSegment(view.Name, p.ID, i+1, s))
				}
			}
		}
	}
	if c.JSON {
		for i := range rows {
			if err := out.object(&rows[i]); err != nil {
				return err
			}
		}
	} else {
		c.print(out, rows)
	}
	return printFindings(out, l.Damage(), c.JSON)
}

func describeSegment(container string, partition uint32, run int, s *layout.Segment) segmentRow {
	row := segmentRow{
		header: newHeader("segment"), Container: container, Partition: partition, Run: run, File: s.Name, Bytes: s.Ref.Size, Problem: s.Problem,
	}
	p := s.Props
	if p == nil {
		return row
	}
	row.Format, row.Items, row.Keys, row.Live, row.Tombstones = p.FormatVersion, p.Items, p.Keys, p.Live, p.Tombstones
	row.Groups, row.Logical, row.RawBytes, row.StoredBytes = p.Groups, p.LogicalPartitions, p.RawBytes, p.StoredBytes
	row.MinSeq, row.MaxSeq = p.MinSeq, p.MaxSeq
	row.min, row.max = layout.EPKOf(&p.Min), layout.EPKOf(&p.Max)
	row.MinEPK, row.MaxEPK = row.min.String(), row.max.String()
	for _, d := range s.Dictionaries {
		row.Dictionaries = append(row.Dictionaries, dictionaryRow{fmt.Sprintf("%016x", d.Hash), d.Bytes})
	}
	for _, sec := range p.Sections {
		row.Sections = append(row.Sections, sectionRow{sec.Kind.String(), sec.Off, sec.Len})
	}
	return row
}

func (c *segmentsCommand) print(out *output, rows []segmentRow) {
	if len(rows) == 0 {
		out.printf("no segment files: what the store holds is in its log\n")
		return
	}
	var largest int64
	for i := range rows {
		largest = max(largest, rows[i].Bytes)
	}
	t := cli.NewTable("<container", "partition", "run", "<file", "bytes", "<", "items", "tombstones", "logical", "raw", "stored/raw", "file/raw", "<sequences", "<dictionary")
	for i := range rows {
		r := &rows[i]
		if r.Problem != nil {
			t.Row(printable(r.Container), humanize.Count(uint64(r.Partition)), humanize.Count(r.Run), r.File, humanize.Bytes(r.Bytes), "cannot be read: see below")
			continue
		}
		dictionary := "none"
		for i, d := range r.Dictionaries {
			if i == 0 {
				dictionary = d.Name[:8] + " " + humanize.Bytes(d.Bytes)
			} else if i == len(r.Dictionaries)-1 {
				dictionary += " +" + humanize.Count(i)
			}
		}
		t.Row(printable(r.Container), humanize.Count(uint64(r.Partition)), humanize.Count(r.Run), r.File, humanize.Bytes(r.Bytes), chart.Bar(r.Bytes, largest, 10),
			humanize.Count(r.Items), humanize.Count(r.Tombstones), humanize.Count(r.Logical), humanize.Bytes(r.RawBytes),
			formatRatio(r.StoredBytes, r.RawBytes), formatRatio(uint64(r.Bytes), r.RawBytes), formatSpan(r.MinSeq, r.MaxSeq), dictionary)
		if c.Sections {
			for _, s := range r.Sections {
				t.Row("", "", "", "  "+s.Name, humanize.Bytes(s.Bytes), chart.Bar(s.Bytes, r.Bytes, 10), fmt.Sprintf("at %s", humanize.Count(s.Offset)))
			}
		}
	}
	t.Print(out.w, "")
	printSections(out, rows)
}

// printSections shows what the bytes of all files are for.
func printSections(out *output, rows []segmentRow) {
	var order []string
	sum := make(map[string]int64)
	var total, known int64
	for i := range rows {
		r := &rows[i]
		if r.Problem != nil {
			continue
		}
		total += r.Bytes
		for _, s := range r.Sections {
			if !slices.Contains(order, s.Name) {
				order = append(order, s.Name)
			}
			sum[s.Name] += s.Bytes
			known += s.Bytes
		}
	}
	const rest = "header, footer, padding"
	order, sum[rest] = append(order, rest), total-known
	t := cli.NewTable("<section", "bytes", "share", "<")
	for _, name := range order {
		share := 0.0
		if total > 0 {
			share = float64(sum[name]) / float64(total)
		}
		t.Row(name, humanize.Bytes(sum[name]), formatPercent(share), chart.Bar(sum[name], total, 30))
	}
	t.Row("all", humanize.Bytes(total), formatPercent(1))
	out.printf("\n")
	t.Print(out.w, "")
}
