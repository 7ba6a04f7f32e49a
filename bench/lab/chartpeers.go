package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/cleavestore/cleave/internal/chart"
	"github.com/cleavestore/cleave/internal/measure"
)

// peersReport is what the chart takes of the JSON file of bench/peers.
type peersReport struct {
	V       int             `json:"v"`
	Command string          `json:"command"`
	Machine measure.Machine `json:"machine"`
	Scale   struct {
		Documents int64 `json:"documents"`
		Repeats   int   `json:"repeats"`
	} `json:"scale"`
	Stores []struct {
		Name  string `json:"name"`
		Ours  bool   `json:"ours"`
		Probe bool   `json:"probe"`
	} `json:"stores"`
	Rows []peersRow `json:"rows"`
}

// peersRow is a row of the table.
type peersRow struct {
	Name   string `json:"name"`
	Unit   string `json:"unit"`
	Lower  bool   `json:"lower_is_better"`
	Best   string `json:"best_peer"`
	Values map[string]struct {
		Median float64 `json:"median"`
	} `json:"values"`
	Ratios map[string]float64 `json:"ratios"`
}

// ours is the store of the chart: Cleave as it is by default.
const ours = "cleave"

func readPeers(name string) (*peersReport, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	r := new(peersReport)
	if err := json.Unmarshal(text, r); err != nil || r.V != 1 || len(r.Rows) == 0 {
		return nil, fmt.Errorf("%s: no result of bench/peers in version 1", name)
	}
	return r, nil
}

// draw draws a row for each ratio that the report has.
func (r *peersReport) draw(b *bytes.Buffer) error {
	rates := chart.RatioGroup{Name: "Operations a second"}
	costs := chart.RatioGroup{Name: "Time, space and memory (less is better)"}
	c := chart.Ratios{
		ID: "peers", Title: "Cleave beside other embedded stores",
		Ahead: "Cleave ahead of the best of them", Behind: "Cleave behind the best of them",
		Caption: fmt.Sprintf("%s documents of 1.4 KB, two cores, the same durability for all. A bar ends at the ratio to the best store, a mark at the ratio to that store.",
			chart.FormatCount(float64(r.Scale.Documents))),
	}
	for _, s := range r.Stores {
		if !s.Ours && !s.Probe {
			c.Others = append(c.Others, s.Name)
		}
	}
	lost := 0
	for _, row := range r.Rows {
		ratio, ok := row.Ratios[ours]
		if !ok {
			continue
		}
		if ratio < 1 {
			lost++
		}
		own := row.Values[ours].Median
		line := chart.RatioRow{Label: row.Name, Ratio: ratio, Best: row.Best, Value: peersValue(own, row.Unit), Others: make(map[string]float64)}
		for _, name := range c.Others {
			if v, ok := row.Values[name]; ok && v.Median > 0 && own > 0 {
				line.Others[name] = own / v.Median
				if row.Lower {
					line.Others[name] = v.Median / own
				}
			}
		}
		if row.Unit == "/s" {
			rates.Rows = append(rates.Rows, line)
		} else {
			costs.Rows = append(costs.Rows, line)
		}
	}
	for _, g := range []chart.RatioGroup{rates, costs} {
		if len(g.Rows) > 0 {
			c.Groups = append(c.Groups, g)
		}
	}
	if len(c.Groups) == 0 {
		return fmt.Errorf("the report compares %s with no other store", ours)
	}
	c.About = fmt.Sprintf("Ratios of Cleave to the best of %s in %d rows; Cleave is behind in %d.", strings.Join(c.Others, ", "), len(rates.Rows)+len(costs.Rows), lost)
	return c.Draw(b, chart.Size{Width: chartWidth, Alone: true})
}

// peersValue writes a median with its unit.
func peersValue(v float64, unit string) string {
	switch unit {
	case "/s":
		return chart.FormatCount(v) + "/s"
	case "×":
		return chart.FormatCount(v) + " of raw"
	case "µs":
		return chart.FormatMicros(v)
	case "ms":
		return chart.FormatMicros(v * 1e3)
	}
	return chart.FormatCount(v) + " " + unit
}
