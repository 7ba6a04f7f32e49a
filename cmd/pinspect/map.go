package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/cleavestore/cleave/cmd/pinspect/internal/layout"
	"github.com/cleavestore/cleave/cmd/pinspect/internal/survey"
	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/chart"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/humanize"
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/outputfile"
	"github.com/cleavestore/cleave/partmap"
)

type mapCommand struct {
	target
	layout.Filter
	survey.Recency
	Heat     *bool  `negatable:"" help:"Read the documents and show where those lie that were written lately. Unasked only if they are fewer than 256 MiB."`
	SVG      string `name:"svg" placeholder:"FILE" help:"Write a picture for browsers into FILE (-: to standard output)."`
	From     string `placeholder:"EPK" help:"Begin at this place of the key space, the first hexadecimal digits of an EPK."`
	To       string `placeholder:"EPK" help:"End there."`
	Top      int    `default:"3" placeholder:"N" help:"Name the N largest logical partitions of each container (${default})."`
	ShowKeys bool   `help:"Name them by their keys, not only their hash."`
	Rows     int    `default:"32" placeholder:"N" help:"List at most N physical partitions of each container; the bar shows all (${default})."`
}

// Help returns the long help text.
func (*mapCommand) Help() string {
	return `Draws the key space of each container as one bar: where its physical partitions begin and end, how much is in each, and how the bytes lie along the key space. Hashing spreads logical partitions evenly, so many small ones make a flat line, and a peak is a large one (with a hierarchical key also a large value of its first level). That shows at a glance whether a split can help: it cuts between peaks, never through one.

The sizes come from the tables of the files and from the log. A number after ≤ is an upper bound: overwritten and deleted versions count until a compaction drops them. --from and --to look closer at a part of the key space, which runs from 00 to 3F.

Heat is the share of the documents whose last write is among the newest of the store (--recent). That is where writes went lately, as far as the disk tells: reads leave no trace there, and a document that is written again and again counts once. For heat the documents are read.

Examples:
  pinspect map DIR
  pinspect map DIR --container cities --svg map.svg
  pinspect map DIR --from 2A --to 2C
  pinspect map DIR --json | jq '.partitions[] | .raw_bytes'`
}

// mapReport is the map of a container.
type mapReport struct {
	header
	Container  string         `json:"container"`
	Key        []string       `json:"partition_key"`
	Logical    int64          `json:"logical_partitions"` // of the partitions that are listed
	RawBytes   int64          `json:"raw_bytes"`
	Partitions []mapPartition `json:"partitions"` // in key-space order
	Largest    []mapLogical   `json:"largest"`
	Density    []int64        `json:"raw_bytes_by_place"` // even parts of the key space, or of --from to --to
	Heat       *mapHeat       `json:"heat,omitempty"`     // if the documents were read

	window survey.Window
	raw    int64 // of all of the container
}

// mapHeat tells where the documents of a map lie that were written lately.
type mapHeat struct {
	Writes    uint64  `json:"writes"`           // newest ones of the store that count as recent
	Documents int64   `json:"recent_documents"` // whose last write is one of them
	ByPlace   []int64 `json:"recent_documents_by_place"`

	span string
}

// mapPartition is a physical partition on a map.
type mapPartition struct {
	ID        engine.PartitionID `json:"id"`
	Min       string             `json:"min"`
	Max       string             `json:"max"`
	Share     float64            `json:"key_space_share"`
	Logical   int64              `json:"logical_partitions"`
	Documents int64              `json:"documents"`
	Exact     bool               `json:"exact"`
	RawBytes  int64              `json:"raw_bytes"`
	FileBytes int64              `json:"file_bytes"`
	Recent    *int64             `json:"recent_documents,omitempty"` // if the documents were read

	rng partmap.Range
}

// mapLogical is one of the largest logical partitions.
type mapLogical struct {
	EPK       string             `json:"epk"`
	Key       string             `json:"key,omitempty"`
	Partition engine.PartitionID `json:"partition"`
	RawBytes  int64              `json:"raw_bytes"`
	Place     float64            `json:"place"` // in the key space, between 0 and 1
}

const (
	mapCells = 96  // of the bar in text
	mapBins  = 480 // of the density in JSON and pictures; a multiple of mapCells
)

// Run runs the command.
func (c *mapCommand) Run(ctx context.Context, env *environment, out *output) error {
	if c.Top < 0 || c.Top > maxTop {
		return cli.Usagef("--top %d: between 0 and %d", c.Top, maxTop)
	}
	if c.Rows < 0 {
		return cli.Usagef("--rows %d: must not be negative", c.Rows)
	}
	if c.SVG != "" && c.JSON {
		return cli.Usagef("--svg and --json: choose one")
	}
	w, err := c.window()
	if err != nil {
		return err
	}
	var maps []*mapReport
	err = c.Within(ctx, c.Dir, func(f *layout.Files, pick layout.Picker) error {
		return eachContainer(ctx, c.Dir, &c.Filter, f, pick, c.JSON, out, func(db *engine.DB, cs *engine.ContainerStats) error {
			m, mapErr := c.container(ctx, env, db, cs, w)
			if mapErr == nil {
				maps = append(maps, m)
			}
			return mapErr
		})
	})
	if err != nil {
		return err
	}
	switch {
	case c.JSON:
		for _, m := range maps {
			if err := out.object(m); err != nil {
				return err
			}
		}
	case c.SVG == "-":
		drawSVG(out.w, maps)
	case c.SVG != "":
		return c.writeSVG(env, maps)
	default:
		for i, m := range maps {
			if i > 0 {
				out.printf("\n")
			}
			m.print(out, c.Rows)
		}
		if len(maps) == 0 {
			out.printf("no containers\n")
		}
	}
	return nil
}

func (c *mapCommand) writeSVG(env *environment, maps []*mapReport) error {
	if err := outputfile.OutsideStores(c.SVG); err != nil {
		return err
	}
	var b strings.Builder
	drawSVG(&b, maps)
	if err := os.WriteFile(c.SVG, []byte(b.String()), 0o666); err != nil {
		return outputError{fmt.Errorf("--svg: %w", err)}
	}
	env.wrote(c.SVG, humanize.Plural(len(maps), "container", "containers"))
	return nil
}

// window reads --from and --to.
func (c *mapCommand) window() (w survey.Window, err error) {
	w.Hi = 1
	for _, end := range []struct {
		name, text string
		to         *float64
	}{{"--from", c.From, &w.Lo}, {"--to", c.To, &w.Hi}} {
		if end.text == "" {
			continue
		}
		digits := end.text
		if len(digits)%2 == 1 {
			digits += "0"
		}
		epk, err := partmap.ParseEPK(digits)
		if err != nil {
			return w, cli.Usagef("%s %s: %w", end.name, end.text, err)
		}
		*end.to = survey.Position(&epk)
	}
	if w.Lo >= w.Hi {
		return w, cli.Usagef("--from %s lies behind the end of what is shown", c.From)
	}
	return w, nil
}

// container collects the map of a container.
func (c *mapCommand) container(ctx context.Context, env *environment, db *engine.DB, cs *engine.ContainerStats, w survey.Window) (*mapReport, error) {
	line := env.newLine()
	defer line.Clear()
	found, err := survey.ReadTables(ctx, db, cs, survey.Options{Top: c.Top, Only: c.Partition, Bins: mapBins, Window: w}, line)
	if err != nil {
		return nil, readFailure(err)
	}
	m := &mapReport{
		header: newHeader("map"), Container: cs.Name, Key: keyPaths(&cs.Def),
		Partitions: []mapPartition{}, Largest: []mapLogical{}, Density: found.Bins, window: w,
	}
	recent, err := c.addHeat(ctx, db, cs, m, line)
	if err != nil {
		return nil, err
	}
	for _, p := range cs.Partitions {
		if c.Partition != 0 && uint32(p.ID) != c.Partition {
			continue
		}
		lo, err := partmap.ParseEPK(p.Min)
		if err != nil {
			return nil, err
		}
		hi, err := partmap.ParseEPK(p.Max)
		if err != nil {
			return nil, err
		}
		if w.Part(survey.Position(&lo)) >= 1 || w.Part(survey.Position(&hi)) <= 0 {
			continue
		}
		t := found.Partitions[p.ID]
		m.Logical += t.Logical
		m.RawBytes += t.Bytes
		row := mapPartition{
			ID: p.ID, Min: p.Min, Max: p.Max, Share: survey.Position(&hi) - survey.Position(&lo), Logical: t.Logical, Documents: t.Documents,
			Exact: p.Exact, RawBytes: t.Bytes, FileBytes: p.FileBytes, rng: partmap.Range{Min: lo, Max: hi},
		}
		if recent != nil {
			n := recent[p.ID]
			row.Recent = &n
		}
		m.Partitions = append(m.Partitions, row)
	}
	for _, l := range found.Top {
		epk := l.Key.EPK()
		at := survey.Position(&epk)
		if part := w.Part(at); part < 0 || part >= 1 {
			continue
		}
		row := mapLogical{EPK: epk.String(), Partition: l.Partition, RawBytes: l.Bytes, Place: at}
		if c.ShowKeys {
			row.Key = l.Key.String()
		}
		m.Largest = append(m.Largest, row)
	}
	return m, nil
}

// addHeat finds where the recent documents lie, if that is wanted, and returns
// how many there are in each partition.
func (c *mapCommand) addHeat(ctx context.Context, db *engine.DB, cs *engine.ContainerStats, m *mapReport, line *cli.Line) (map[engine.PartitionID]int64, error) {
	for _, p := range cs.Partitions {
		m.raw += p.RawBytes
	}
	if c.Heat != nil && !*c.Heat || c.Heat == nil && m.raw >= survey.CheapBytes {
		return nil, nil
	}
	after, writes, err := c.Find(ctx, db, line)
	if err != nil {
		return nil, readFailure(err)
	}
	h, err := survey.TakeHeat(ctx, db, cs, survey.HeatOptions{After: after, Options: survey.Options{Only: c.Partition, Bins: mapBins, Window: m.window}}, line)
	if err != nil {
		return nil, readFailure(err)
	}
	m.Heat = &mapHeat{Writes: writes, Documents: h.Documents, ByPlace: h.Bins, span: h.Span()}
	return h.Partitions, nil
}

// heat is the share of the recent documents that a partition has.
func (m *mapReport) heat(p *mapPartition) float64 {
	if p.Recent == nil || m.Heat.Documents == 0 {
		return 0
	}
	return float64(*p.Recent) / float64(m.Heat.Documents)
}

// heatCaption explains the heat.
func (m *mapReport) heatCaption() string {
	if m.Heat == nil {
		return fmt.Sprintf("heat is not shown: --heat reads %s of documents for it", humanize.Bytes(m.raw))
	}
	if m.Heat.Documents == 0 {
		return fmt.Sprintf("heat: no document's last write is among the newest %s of the store", humanize.Plural(m.Heat.Writes, "write", "writes"))
	}
	return fmt.Sprintf("heat: where %s whose last write is among the newest %s of the store%s",
		humanize.Plural(m.Heat.Documents, "document lies", "documents lie"), humanize.Plural(m.Heat.Writes, "write", "writes"), m.Heat.span)
}

// name is how a logical partition is called on a map.
func (l *mapLogical) name() string {
	if l.Key != "" {
		return l.Key
	}
	return l.EPK[:min(len(l.EPK), 8)]
}

// caption describes a container in a line.
func (m *mapReport) caption() string {
	return fmt.Sprintf("%s, %s, %s of documents", humanize.Plural(len(m.Partitions), "physical partition", "physical partitions"),
		humanize.Plural(m.Logical, "logical partition", "logical partitions"), humanize.Bytes(m.RawBytes))
}

// print draws the map with characters.
func (m *mapReport) print(out *output, rows int) {
	out.printf("container %s, partition key %s: %s\n\n", printable(m.Container), printable(jsondoc.JoinPaths(m.Key)), m.caption())
	out.printf("  %s  bytes along the key space\n", densityLine(m.Density))
	if m.Heat != nil {
		out.printf("  %s  heat\n", densityLine(m.Heat.ByPlace))
	}
	out.printf("  %s  physical partitions\n", m.barLine())
	out.printf("  %s\n", m.scaleLine())
	var most int64
	for i := range m.Partitions {
		most = max(most, m.Partitions[i].RawBytes)
	}
	out.printf("\n")
	t := cli.NewTable("id", "<from", "key space", "logical", "documents", "raw", "in files", "<bytes", "<heat")
	for i := range m.Partitions {
		if i == rows {
			break
		}
		p := &m.Partitions[i]
		bound := ""
		if !p.Exact && p.Documents > 0 {
			bound = "≤ "
		}
		share := ""
		if m.RawBytes > 0 {
			share = formatPercent(float64(p.RawBytes)/float64(m.RawBytes)) + " " + chart.Bar(p.RawBytes, most, 24)
		}
		t.Row(humanize.Count(uint64(p.ID)), shortEPK(&p.rng.Min), formatPercent(p.Share), humanize.Count(p.Logical), bound+humanize.Count(p.Documents),
			bound+humanize.Bytes(p.RawBytes), humanize.Bytes(p.FileBytes), share, m.heatCell(p))
	}
	t.Print(out.w, "  ")
	if more := len(m.Partitions) - rows; more > 0 {
		out.printf("  and %s more: --rows\n", humanize.Count(more))
	}
	out.printf("\n  %s\n", m.heatCaption())
	var largest []string
	for i := range m.Largest {
		l := &m.Largest[i]
		largest = append(largest, fmt.Sprintf("%s with %s in %d", l.name(), humanize.Bytes(l.RawBytes), l.Partition))
	}
	if len(largest) > 0 {
		out.printf("  largest logical partitions: %s\n", strings.Join(largest, ", "))
	}
}

// heatCell draws the heat of a partition.
func (m *mapReport) heatCell(p *mapPartition) string {
	if m.Heat == nil {
		return "-"
	}
	return formatPercent(m.heat(p)) + " " + chart.Bar(*p.Recent, m.Heat.Documents, 12)
}

// densityLine draws how something lies along the key space.
func densityLine(density []int64) string {
	cells := make([]int64, mapCells)
	var most int64
	for i, n := range density {
		c := i * mapCells / len(density)
		cells[c] += n
		most = max(most, cells[c])
	}
	blocks := []rune("▁▂▃▄▅▆▇█")
	text := make([]rune, mapCells)
	for i, n := range cells {
		text[i] = ' '
		if n > 0 {
			text[i] = blocks[min(int(float64(n)/float64(most)*8), 7)]
		}
	}
	return string(text)
}

// barLine draws the partitions with their ids, the boundary of each at its
// place. Of those that share a cell the last shows.
func (m *mapReport) barLine() string {
	text := []rune(strings.Repeat("─", mapCells))
	starts := make([]int, len(m.Partitions)+1)
	starts[len(m.Partitions)] = mapCells
	for i := range m.Partitions {
		starts[i] = min(int(m.window.Clip(&m.Partitions[i].rng.Min)*mapCells), mapCells-1)
		text[starts[i]] = '├'
	}
	for i := range m.Partitions {
		label := []rune(fmt.Sprint(m.Partitions[i].ID))
		if starts[i]+1+len(label) <= starts[i+1] {
			copy(text[starts[i]+1:], label)
		}
	}
	return string(text)
}

// scaleLine names places of the key space below the bar.
func (m *mapReport) scaleLine() string {
	text := []rune(strings.Repeat(" ", mapCells+4))
	for i := range 5 {
		copy(text[i*mapCells/4:], []rune(m.placeName(float64(i)/4)))
	}
	return strings.TrimRight(string(text), " ")
}

// placeName returns the first digits of the EPK at a part of the window.
func (m *mapReport) placeName(part float64) string {
	at := m.window.Lo + part*(m.window.Hi-m.window.Lo)
	if m.window.Hi-m.window.Lo > 0.1 {
		return fmt.Sprintf("%02X", int(at*64))
	}
	return fmt.Sprintf("%04X", int(at*(1<<14)))
}
