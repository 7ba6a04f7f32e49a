package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cleavestore/cleave/internal/chart"
	"github.com/cleavestore/cleave/internal/harness"
	"github.com/cleavestore/cleave/internal/humanize"
)

// splitRun is what the chart takes of a directory of pbench run --out.
type splitRun struct {
	Workload string `json:"workload"`
	All      struct {
		Errors int64 `json:"errors"`
	} `json:"all"`
	Engine struct {
		Loop struct {
			Offered float64 `json:"offered_per_s"`
		} `json:"loop"`
		Splits *harness.SplitSummary `json:"splits"`
	} `json:"engine"`
	seconds []splitSecond
}

// splitSecond is a line of the series.
type splitSecond struct {
	Repeat int     `json:"repeat"`
	AtS    float64 `json:"at_s"`
	All    struct {
		P50  float64 `json:"p50_us"`
		P99  float64 `json:"p99_us"`
		P999 float64 `json:"p999_us"`
	} `json:"all"`
}

// readSplitRun reads the first repetition of a run.
func readSplitRun(dir string) (*splitRun, error) {
	text, err := os.ReadFile(filepath.Join(dir, "run.json"))
	if err != nil {
		return nil, err
	}
	r := new(splitRun)
	if err = json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%s: run.json: %w", dir, err)
	}
	file, err := os.Open(filepath.Join(dir, "series.ndjson"))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var s splitSecond
		if err = json.Unmarshal(lines.Bytes(), &s); err != nil {
			return nil, fmt.Errorf("%s: series.ndjson: line %d: %w", dir, len(r.seconds)+1, err)
		}
		if s.Repeat <= 1 {
			r.seconds = append(r.seconds, s)
		}
	}
	if err = lines.Err(); err != nil {
		return nil, err
	}
	if len(r.seconds) == 0 || r.Engine.Splits == nil || r.Engine.Splits.Count == 0 {
		return nil, errors.New(dir + ": the run has no split: run pbench with --split-at")
	}
	return r, nil
}

// draw draws percentiles of each second, and the moments of the splits.
func (r *splitRun) draw(b *bytes.Buffer) error {
	p := chart.Plot{
		ID: "split", Title: "Response times across a split",
		X: chart.Axis{Title: "seconds", Step: chart.Seconds, Max: r.seconds[len(r.seconds)-1].AtS},
		Y: chart.Axis{Kind: chart.Log, Format: chart.FormatMicros},
	}
	pause := 0.0
	for _, f := range r.Engine.Splits.List {
		if f.Error != "" || f.Repeat > 1 || f.Kind != "split" {
			continue
		}
		pause = max(pause, f.Pause)
		p.Marks = append(p.Marks, chart.Mark{At: f.AtS, Name: "split", Colour: chart.Purple, Note: f.String()})
	}
	if len(p.Marks) == 0 {
		return errors.New("the first repetition has no split")
	}
	for _, l := range []struct {
		name   string
		colour int
		of     func(s *splitSecond) float64
	}{
		{"p99.9", chart.Orange, func(s *splitSecond) float64 { return s.All.P999 }},
		{"p99", chart.Blue, func(s *splitSecond) float64 { return s.All.P99 }},
		{"median", chart.Green, func(s *splitSecond) float64 { return s.All.P50 }},
	} {
		line := chart.Line{Name: l.name + " of each second", Colour: l.colour, Width: 2}
		for i := range r.seconds {
			line.Points = append(line.Points, chart.Point{X: r.seconds[i].AtS, Y: l.of(&r.seconds[i])})
		}
		p.Lines = append(p.Lines, line)
	}
	rate := "as fast as it goes"
	if r.Engine.Loop.Offered > 0 {
		rate = "at " + harness.FormatRate(r.Engine.Loop.Offered) + ", from when operations were due"
	}
	p.Caption = fmt.Sprintf("%s %s. %s: writes to the partition waited for at most %s, %s failed.", r.Workload, rate,
		humanize.Plural(len(p.Marks), "split", "splits"), chart.FormatMicros(pause), harness.Plural(r.All.Errors, "operation"))
	p.About = "Median, p99 and p99.9 of the response times of each second, with the moments of splits. " + p.Caption
	return p.Draw(b, chart.Size{Width: chartWidth, Height: 340, Alone: true})
}
