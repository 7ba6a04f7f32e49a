package main

import (
	"cmp"
	"slices"

	"github.com/cleavestore/cleave/internal/measure"
)

// row is a line of the tables.
type row struct {
	name   string
	step   string
	figure string
	over   string // a step whose same figure this one is divided by
	unit   string
	lower  bool // less is better
	plain  bool // no ratio: it tells something about the stores, or is 0 at best
}

var tableRows = []row{
	{name: "point read, uniform", step: "read-uniform", figure: figureRate, unit: "/s"},
	{name: "point read, uniform, p99", step: "read-uniform", figure: figureP99, unit: "µs", lower: true},
	{name: "point read, zipf 0.99", step: "read-zipf", figure: figureRate, unit: "/s"},
	{name: "point read, absent", step: "read-absent", figure: figureRate, unit: "/s"},
	{name: "point read, uniform, 2 goroutines", step: "read-uniform-2", figure: figureRate, unit: "/s"},
	{name: "2 goroutines by 1", step: "read-uniform-2", figure: figureRate, over: "read-uniform", unit: "×", plain: true},
	{name: "single puts, buffered", step: "put", figure: figureRate, unit: "/s"},
	{name: "bulk load, buffered", step: "load", figure: figureWall, unit: "/s"},
	{name: "bulk load, slowest second", step: "load", figure: figureSlowest, unit: "/s"},
	{name: "settle after the load", step: "load", figure: figureSettle, unit: "s", lower: true},
	{name: "synced puts, 1 goroutine", step: "sync-1", figure: figureRate, unit: "/s"},
	{name: "synced puts, 16 goroutines", step: "sync-16", figure: figureRate, unit: "/s"},
	{name: "synced puts, 64 goroutines", step: "sync-64", figure: figureRate, unit: "/s"},
	{name: "YCSB A", step: "ycsb-a", figure: figureRate, unit: "/s"},
	{name: "YCSB B", step: "ycsb-b", figure: figureRate, unit: "/s"},
	{name: "YCSB D", step: "ycsb-d", figure: figureRate, unit: "/s"},
	{name: "YCSB F", step: "ycsb-f", figure: figureRate, unit: "/s"},
	{name: "YCSB E", step: "ycsb-e", figure: figureRate, unit: "/s"},
	{name: "YCSB E, just after YCSB A", step: "ycsb-e-written", figure: figureRate, unit: "/s"},
	{name: "scan of a partition of 1,000", step: "scan-partition", figure: figureRate, unit: "/s"},
	{name: "the same, just after YCSB A", step: "scan-written", figure: figureRate, unit: "/s"},
	{name: "longest call, YCSB A", step: "ycsb-a", figure: figureMax, unit: "µs", lower: true},
	{name: "longest call, single puts", step: "put", figure: figureMax, unit: "µs", lower: true},
	{name: "longest call, synced puts, 64 goroutines", step: "sync-64", figure: figureMax, unit: "µs", lower: true},
	{name: "disk after close, by raw", step: "load", figure: figureDisk, unit: "×", lower: true},
	{name: "written by raw, settled", step: "load", figure: figureWritten, unit: "×", lower: true},
	{name: "reopen, clean", step: "reopen", figure: figureOpen, unit: "ms", lower: true},
	{name: "reopen after a kill", step: "kill", figure: figureOpen, unit: "ms", lower: true},
	{name: "documents lost in the kill", step: "kill", figure: figureLost, lower: true, plain: true},
	{name: "peak anonymous memory, load", step: "load", figure: figureAnonymous, unit: "MB", lower: true},
	{name: "peak resident memory, load", step: "load", figure: figureResident, unit: "MB", lower: true},
	{name: "anonymous memory, reads", step: "read-uniform", figure: figureAnonymous, unit: "MB", lower: true},
}

// report is what is printed and written as JSON.
type report struct {
	V       int             `json:"v"`
	Command string          `json:"command"`
	Machine measure.Machine `json:"machine"`
	Scale   scale           `json:"scale"`
	Stores  []storeInfo     `json:"stores"`
	Rows    []rowValues     `json:"rows"`
	Samples []sample        `json:"samples"`
}

type storeInfo struct {
	Name     string `json:"name"`
	Version  string `json:"version"`
	Settings string `json:"settings"`
	Ours     bool   `json:"ours,omitempty"`
	Probe    bool   `json:"probe,omitempty"`
	// ScansOnly: it is loaded for its scans, and its load is no figure.
	ScansOnly bool `json:"scans_only,omitempty"`
}

// rowValues are the values of a row. Ratios are above 1 where Cleave is ahead
// of the best peer.
type rowValues struct {
	Name   string             `json:"name"`
	Unit   string             `json:"unit"`
	Lower  bool               `json:"lower_is_better,omitempty"`
	Best   string             `json:"best_peer,omitempty"`
	Values map[string]value   `json:"values"` // by store
	Ratios map[string]float64 `json:"ratios,omitempty"`
}

// value is what the repeats gave.
type value struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	N      int     `json:"n"`
}

// spread is half the distance of the extremes, as a share of the median.
func (v value) spread() float64 {
	if v.Median == 0 {
		return 0
	}
	return (v.Max - v.Min) / 2 / v.Median
}

func newReport(command string, machine measure.Machine, s scale, chosen []candidate, samples []sample) *report {
	r := &report{V: 1, Command: command, Machine: machine, Scale: s, Samples: samples}
	for _, c := range chosen {
		r.Stores = append(r.Stores, storeInfo{Name: c.name, Version: c.about(), Settings: c.settings, Ours: c.ours, Probe: c.probe, ScansOnly: c.scansOnly})
	}
	for _, line := range tableRows {
		if values := r.values(line); len(values.Values) > 0 {
			r.Rows = append(r.Rows, values)
		}
	}
	return r
}

// values gathers a row.
func (r *report) values(line row) rowValues {
	v := rowValues{Name: line.name, Unit: line.unit, Lower: line.lower, Values: make(map[string]value)}
	for _, s := range r.Stores {
		x, ok := r.value(s.Name, line.step, line.figure)
		if !ok || s.ScansOnly && line.step == "load" {
			continue
		}
		if line.over != "" {
			by, ok := r.value(s.Name, line.over, line.figure)
			if !ok {
				continue
			}
			// The extremes of a quotient are those of its parts, crossed.
			x = value{Median: x.Median / by.Median, Min: x.Min / by.Max, Max: x.Max / by.Min, N: min(x.N, by.N)}
		}
		v.Values[s.Name] = x
	}
	if line.plain {
		return v
	}
	for _, s := range r.Stores {
		x, ok := v.Values[s.Name]
		if !ok || s.Ours || s.Probe {
			continue
		}
		if best, ok := v.Values[v.Best]; !ok || better(line.lower, x.Median, best.Median) {
			v.Best = s.Name
		}
	}
	best, ok := v.Values[v.Best]
	if !ok {
		return v
	}
	v.Ratios = make(map[string]float64)
	for _, s := range r.Stores {
		x, ok := v.Values[s.Name]
		if !ok || !s.Ours {
			continue
		}
		ours, theirs := x.Median, best.Median
		if line.lower {
			ours, theirs = theirs, ours
		}
		if theirs > 0 {
			v.Ratios[s.Name] = ours / theirs
		}
	}
	return v
}

func better(lower bool, a, b float64) bool {
	if lower {
		return a < b
	}
	return a > b
}

// value returns what the repeats of a step gave for a store.
func (r *report) value(store, step, figure string) (v value, ok bool) {
	var all []float64
	for _, s := range r.Samples {
		if x, ok := s.Figures[figure]; ok && s.Store == store && s.Step == step && s.Error == "" {
			all = append(all, x)
		}
	}
	if len(all) == 0 {
		return v, false
	}
	slices.SortFunc(all, cmp.Compare)
	middle := len(all) / 2
	v = value{Median: all[middle], Min: all[0], Max: all[len(all)-1], N: len(all)}
	if len(all)%2 == 0 {
		v.Median = (all[middle-1] + all[middle]) / 2
	}
	return v, true
}
