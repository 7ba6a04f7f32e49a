package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/cleavestore/cleave/internal/chart"
	"github.com/cleavestore/cleave/internal/harness"
	"github.com/cleavestore/cleave/internal/humanize"
)

// The page: one file, whose style and script are in it. It asks nothing of the network, and
// all of it but tooltips, zoom and hiding of lines works without the script.
var (
	//go:embed report.html
	reportHTML string
	//go:embed report.css
	reportCSS string
	//go:embed report.js
	reportJS string
)

var reportTemplate = template.Must(template.New("report").Parse(reportHTML))

// Widths of pictures: of a telephone, of half a page and of a whole one.
const (
	narrowWidth = 360
	halfWidth   = 760
	wholeWidth  = 1500
)

// maxTableRows is how many rows a table of numbers has at most; the files have all.
const maxTableRows = 1000

// reportPage is what the template shows.
type reportPage struct {
	Title    string
	CSS      template.CSS
	JS       template.JS
	Runs     []pageRun
	Figures  []pageFigure
	Notes    []string
	Splits   pageTable
	Compare  pageTable
	Rows     pageTable // settings and machine
	Compared string
}

// pageRun is the head of a run.
type pageRun struct {
	Name, Text string
	Verdict    string
	Explained  string
	Cards      []pageCard
	Commands   []string
}

// pageCard is a figure that is shown large.
type pageCard struct{ Name, Value, Unit string }

// pageFigure is a picture in its widths, with its numbers.
type pageFigure struct {
	ID, Title string
	Full      bool
	Pictures  []pagePicture
	Data      template.JS
	Tables    []pageTable
}

// pagePicture is a figure in one width.
type pagePicture struct {
	Class string
	SVG   template.HTML
}

// pageTable is a table.
type pageTable struct {
	Caption string
	Head    []string
	Rows    [][]string
	More    int // rows that are left out
}

// drawReport writes the page about one run, or two.
func drawReport(w io.Writer, runs []*recorded) error {
	page := reportPage{CSS: template.CSS(chart.Style("") + reportCSS), JS: template.JS(reportJS)}
	var names []string
	for _, r := range runs {
		page.Runs = append(page.Runs, r.head())
		names = append(names, r.report.Workload)
	}
	page.Title = "pbench: " + strings.Join(names, " and ")
	figures, notes := figuresOf(runs)
	page.Notes = notes
	for i := range figures {
		f, err := newPageFigure(&figures[i])
		if err != nil {
			return err
		}
		page.Figures = append(page.Figures, f)
	}
	page.Splits = splitTable(runs)
	page.Rows = settingsTable(runs)
	if len(runs) == 2 {
		if err := page.compare(runs[0], runs[1]); err != nil {
			return err
		}
	}
	return reportTemplate.Execute(w, &page)
}

// head makes the head of a run.
func (r *recorded) head() pageRun {
	rep := r.report
	e := rep.Engine
	h := pageRun{Name: r.name, Verdict: "OK", Explained: "the rate was kept, and the lag is small beside the response times"}
	h.Text = fmt.Sprintf("%s (%s) with %s keys on %s in %s; %s, %s loop, %s, %s s", rep.Workload, e.Run.Mix, e.Run.Keys, harness.Plural(e.Run.Documents, "document"),
		harness.Plural(e.Run.Partitions, "physical partition"), harness.Plural(e.Run.Workers, "worker"), e.Run.Loop, e.Run.Durability, humanize.Number(e.Run.Seconds))
	if e.Loop != nil && e.Loop.Kind == closedLoop {
		h.Verdict, h.Explained = "CLOSED", "a closed loop finds the maximum; its latencies leave out who would have waited"
	}
	if e.Loop != nil && len(e.Loop.Verdicts) > 0 {
		h.Verdict = e.Loop.notes()
		var parts []string
		for _, v := range e.Loop.Verdicts {
			_, text, _ := strings.Cut(strings.Join(strings.Fields(explain(v)), " "), ": ")
			parts = append(parts, text)
		}
		h.Explained = strings.Join(parts, "; ")
	}
	card := func(name, value, unit string) { h.Cards = append(h.Cards, pageCard{name, value, unit}) }
	micros := func(us float64) (string, string) {
		text := chart.FormatMicros(us)
		value, unit, _ := strings.Cut(text, " ")
		return value, unit
	}
	card("achieved", humanize.Count(int64(rep.All.OpsPerS+0.5)), "/s")
	if e.Loop != nil && e.Loop.Offered > 0 {
		card("offered", humanize.Count(int64(e.Loop.Offered+0.5)), "/s")
	}
	for _, p := range percentiles {
		value, unit := micros(rep.All.percentile(p))
		card(p, value, unit)
	}
	card("errors", humanize.Count(rep.All.Errors), "")
	if e.Throughput != nil {
		card("throttled", humanize.Count(e.Throughput.Throttled), "")
	}
	if e.Splits != nil && e.Splits.Count > 0 {
		card("splits", humanize.Count(e.Splits.Count), "")
		value, unit := micros(e.Splits.PauseMax)
		card("longest pause", value, unit)
	}
	if e.Writes > 0 {
		card("written by the engine", humanize.Number(e.WriteAmplification), "× the caller's")
	}
	card("on disk", humanize.Number(e.SpaceAmplification), "× the documents")
	if e.Run.Command != "" {
		h.Commands = append(h.Commands, e.Run.Command)
	}
	if r.dir != "" {
		h.Commands = append(h.Commands, "pbench report "+harness.Quoted(r.dir))
	}
	return h
}

// newPageFigure draws a figure.
func newPageFigure(f *reportFigure) (p pageFigure, err error) {
	p = pageFigure{ID: f.ID, Title: f.Title, Full: f.Full}
	widths := []struct {
		class string
		width int
	}{{"narrow", narrowWidth}, {"half", halfWidth}}
	if f.Full {
		widths = append(widths, struct {
			class string
			width int
		}{"whole", wholeWidth})
	}
	for _, w := range widths {
		svg, drawErr := f.draw(w.width)
		if drawErr != nil {
			return p, drawErr
		}
		p.Pictures = append(p.Pictures, pagePicture{w.class, template.HTML(svg)})
	}
	data, tables := f.numbers()
	text, err := json.Marshal(data)
	if err != nil {
		return p, err
	}
	p.Data, p.Tables = template.JS(text), tables
	return p, nil
}

// figureData is what the script knows of a figure.
type figureData struct {
	Unit  string       `json:"unit"`
	X     string       `json:"x"` // "s" or "%"
	Lines []lineData   `json:"lines,omitempty"`
	Heat  []columnData `json:"heat,omitempty"`
}

type lineData struct {
	Name string     `json:"name"`
	X    []float64  `json:"x"`
	Y    []*float64 `json:"y"` // null: a gap
}

type columnData struct {
	From   float64   `json:"from"`
	To     float64   `json:"to"`
	Values []float64 `json:"values"`
}

// numbers returns what the figure shows, for the script and as tables.
func (f *reportFigure) numbers() (d figureData, tables []pageTable) {
	d = figureData{Unit: f.Unit, X: "s"}
	if f.heat != nil {
		t := pageTable{Caption: "operations a second by the first byte of the hash", Head: []string{"from s", "to s"}}
		for place := range f.heat.Places {
			t.Head = append(t.Head, fmt.Sprintf("%02X", place))
		}
		for _, c := range f.heat.Columns {
			d.Heat = append(d.Heat, columnData(c))
			row := []string{number(c.From), number(c.To)}
			for _, v := range c.Values {
				row = append(row, number(v))
			}
			t.add(row)
		}
		return d, []pageTable{t}
	}
	unit := map[string]string{unitMicros: "µs", unitBytes: "bytes", unitCount: ""}[f.Unit]
	x := "s"
	if f.plot.X.Kind == chart.Tail {
		d.X, x = "%", "percentile"
	}
	// Lines with the same places share a table.
	at := make(map[string]int)
	for _, l := range f.plot.Lines {
		line := lineData{Name: l.Name}
		var places strings.Builder
		for _, p := range l.Points {
			line.X = append(line.X, p.X)
			if math.IsNaN(p.Y) {
				line.Y = append(line.Y, nil)
			} else {
				line.Y = append(line.Y, &p.Y)
			}
			places.WriteString(number(p.X) + " ")
		}
		d.Lines = append(d.Lines, line)
		i, ok := at[places.String()]
		if !ok {
			i = len(tables)
			at[places.String()] = i
			t := pageTable{Head: []string{x}}
			for _, p := range l.Points {
				t.add([]string{number(p.X)})
			}
			tables = append(tables, t)
		}
		t := &tables[i]
		t.Head = append(t.Head, strings.TrimSpace(l.Name+" "+unit))
		for k := range t.Rows {
			t.Rows[k] = append(t.Rows[k], number(l.Points[k].Y))
		}
	}
	return d, tables
}

// add adds a row unless there are too many.
func (t *pageTable) add(row []string) {
	if len(t.Rows) == maxTableRows {
		t.More++
		return
	}
	t.Rows = append(t.Rows, row)
}

// number writes a number as it is, "" for none.
func number(x float64) string {
	if math.IsNaN(x) {
		return ""
	}
	return strconv.FormatFloat(math.Round(x*1e6)/1e6, 'f', -1, 64)
}

// splitTable lists the splits.
func splitTable(runs []*recorded) pageTable {
	t := pageTable{Head: []string{"at s", "what", "prepare µs", "commit µs", "pause µs", "inherit µs", "copied", "p99.9 before", "in its second", "after", "failed"}}
	for _, r := range runs {
		if r.report.Engine.Splits == nil {
			continue
		}
		for _, f := range r.report.Engine.Splits.List {
			what := fmt.Sprintf("%s of %s into %s", f.Kind, harness.Joined(f.Parents), harness.Joined(f.Children))
			if f.Error != "" {
				t.add([]string{"", r.label(f.Kind + " of " + harness.Joined(f.Parents) + ": " + f.Error), "", "", "", "", "", "", "", "", ""})
				continue
			}
			tail := func(w *harness.WindowFigures) string {
				if w == nil {
					return ""
				}
				return chart.FormatMicros(w.P999)
			}
			failed := int64(0)
			for _, w := range []*harness.WindowFigures{f.Around, f.After} {
				if w != nil {
					failed += w.Errors
				}
			}
			t.add([]string{humanize.Number(f.AtS), r.label(what), harness.FormatMicros(f.Prepare), harness.FormatMicros(f.Commit), harness.FormatMicros(f.Pause),
				harness.FormatMicros(f.Inherit), humanize.Bytes(f.CopiedBytes), tail(f.Before), tail(f.Around), tail(f.After), humanize.Count(failed)})
		}
	}
	return t
}

// settingsTable lists what the runs depend on.
func settingsTable(runs []*recorded) pageTable {
	t := pageTable{Head: []string{"setting"}}
	for _, r := range runs {
		name := r.name
		if name == "" {
			name = "value"
		}
		t.Head = append(t.Head, name)
	}
	for _, name := range []string{"documents", "document size", "partitions", "mix", "keys", "loop", "rate", "workers", "durability", "memory budget", "scan cache", "ttl", "revision", "Go", "platform", "CPU", "cores", "GOMAXPROCS", "file system"} {
		row, some := []string{name}, false
		for _, r := range runs {
			value := r.report.depends()[name]
			some = some || value != ""
			row = append(row, value)
		}
		if some {
			t.add(row)
		}
	}
	row := []string{"seed"}
	for _, r := range runs {
		row = append(row, strconv.FormatUint(r.report.Engine.Run.Seed, 10))
	}
	t.add(row)
	return t
}

// compare adds the comparison of two runs.
func (p *reportPage) compare(a, b *recorded) error {
	c, err := compare(&runSet{name: a.dir, reports: []*report{a.report}}, &runSet{name: b.dir, reports: []*report{b.report}})
	if err != nil {
		// Two workloads are drawn beside each other, and not compared.
		p.Compared = err.Error()
		return nil
	}
	p.Compare.Head = []string{"operation", "figure", "A", "±", "B", "±", "runs", "change"}
	for _, r := range c.Rows {
		note, _ := r.note()
		p.Compare.add([]string{displayName(r.Operation), r.Figure, formatFigure(r.Old.Median), formatSpread(r.Old), formatFigure(r.New.Median), formatSpread(r.New),
			fmt.Sprintf("%d, %d", r.Old.N, r.New.N), note})
	}
	p.Compared = c.summary()
	return nil
}
