package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/perf/benchmath"

	"github.com/cleavestore/cleave/internal/harness"
	"github.com/cleavestore/cleave/internal/humanize"
)

// runSet are the results of runs that are alike.
type runSet struct {
	name    string
	reports []*report
}

// readRuns reads the result of a run, or those in a directory: its run.json,
// else every run.json below it, else the JSON files in it.
func readRuns(name string) (*runSet, error) {
	set := &runSet{name: name}
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	files := []string{name}
	if info.IsDir() {
		if files, err = findRuns(name); err != nil {
			return nil, err
		}
	}
	for _, file := range files {
		rep, err := readReport(file)
		if err != nil {
			return nil, err
		}
		set.reports = append(set.reports, rep)
	}
	return set, nil
}

func findRuns(dir string) (files []string, err error) {
	own := filepath.Join(dir, runFile)
	if _, err = os.Stat(own); err == nil {
		return []string{own}, nil
	}
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Name() == runFile && entry.Type().IsRegular() {
			files = append(files, path)
		}
		return err
	})
	if err == nil && len(files) == 0 {
		files, err = filepath.Glob(filepath.Join(dir, "*.json"))
	}
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s: no results of pbench run in it", dir)
	}
	return files, err
}

// readReport reads what a run wrote as JSON.
func readReport(name string) (*report, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	r := new(report)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if r.V != 1 || r.Workload == "" || r.Engine == nil || r.Engine.Run == nil {
		return nil, fmt.Errorf("%s: no result of pbench run in version 1", name)
	}
	return r, nil
}

// repeats returns the repetitions of a report, itself if there is only one.
func (r *report) repeats() []repeat {
	if len(r.Engine.Repeats) > 0 {
		return r.Engine.Repeats
	}
	return []repeat{{r.results, r.Engine.Loop}}
}

// workloads lists the workloads of a set in alphabetical order.
func (s *runSet) workloads() (names []string) {
	for _, r := range s.reports {
		names = append(names, r.Workload)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// interrupted returns how many runs with a workload were interrupted.
func (s *runSet) interrupted(workload string) (n int) {
	for _, r := range s.reports {
		if r.Workload == workload && r.Engine.Run.Interrupted {
			n++
		}
	}
	return n
}

// repeats returns all repetitions with a workload.
func (s *runSet) repeats(workload string) (all []repeat) {
	for _, r := range s.reports {
		if r.Workload == workload {
			all = append(all, r.repeats()...)
		}
	}
	return all
}

// settings returns what the runs with a workload depend on, by name; what
// differs among them is "various".
func (s *runSet) settings(workload string) map[string]string {
	all := make(map[string]string)
	for _, r := range s.reports {
		if r.Workload != workload {
			continue
		}
		for name, value := range r.depends() {
			if old, ok := all[name]; ok && old != value {
				value = "various"
			}
			all[name] = value
		}
	}
	return all
}

// depends returns what a run depends on, by name.
func (r *report) depends() map[string]string {
	s := r.Engine.Run
	d := map[string]string{
		"documents": humanize.Count(s.Documents), "partitions": fmt.Sprint(s.Partitions), "mix": s.Mix, "keys": s.Keys,
		"loop": s.Loop, "workers": fmt.Sprint(s.Workers), "durability": s.Durability,
	}
	if s.MemoryBudget > 0 { // results of older builds have it under another name
		d["memory budget"] = humanize.Bytes(s.MemoryBudget)
	}
	if s.ScanCache > 0 {
		d["scan cache"] = humanize.Bytes(s.ScanCache)
	}
	if s.Sizes != "" {
		d["document size"] = s.Sizes
	}
	if e := r.Engine.Expiry; e != nil {
		d["ttl"] = humanize.Number(e.TTL) + " s"
	}
	if s.Rate > 0 {
		d["rate"] = harness.FormatRate(s.Rate)
	}
	if m := r.Engine.From; m != nil {
		d["revision"], d["Go"], d["platform"], d["CPU"], d["cores"], d["file system"] = m.Revision, m.Go, m.Platform, m.CPU, fmt.Sprint(m.Cores), m.FileSystem
		d["GOMAXPROCS"] = fmt.Sprint(cmp.Or(m.Procs, m.Cores))
	}
	return d
}

// spread is what repetitions gave for a figure.
type spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	N      int     `json:"n"`
}

// newSpread returns the spread of values, of which there is one at least.
func newSpread(values []float64) spread {
	return spread{Median: harness.Median(slices.Clone(values)), Min: slices.Min(values), Max: slices.Max(values), N: len(values)}
}

// half is half the distance of the extremes, as a share of the median.
func (s spread) half() float64 {
	if s.Median == 0 {
		return 0
	}
	return (s.Max - s.Min) / 2 / s.Median
}

// apart reports whether no value of one lies among those of the other: -1 if
// those of s are all lower, 1 if all higher, 0 if they overlap.
func (s spread) apart(other spread) int {
	if s.Max < other.Min || s.Min > other.Max {
		return cmp.Compare(s.Median, other.Median)
	}
	return 0
}

// chance is how likely it is that two sets of values from the same source differ as much as
// these: the p-value of the Mann-Whitney U-test, which takes nothing for granted about how
// values are distributed.
func chance(a, b []float64) float64 {
	return benchmath.AssumeNothing.Compare(
		benchmath.NewSample(a, &benchmath.DefaultThresholds), benchmath.NewSample(b, &benchmath.DefaultThresholds)).P
}
