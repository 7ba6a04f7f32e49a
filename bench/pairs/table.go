package main

import (
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"text/tabwriter"
)

var figure = regexp.MustCompile(`(?m)^Benchmark(\S+?)(?:-\d+)?\s+\d+\s+(\d+(?:\.\d+)?) ns/op`)

// parseFigures returns the ns/op of each benchmark that printed some.
func parseFigures(out string) (map[string]float64, error) {
	figures := make(map[string]float64)
	for _, m := range figure.FindAllStringSubmatch(out, -1) {
		ns, err := strconv.ParseFloat(m[2], 64)
		if err != nil || ns <= 0 {
			return nil, fmt.Errorf("%q is no figure", m[0])
		}
		figures[m[1]] = ns
	}
	return figures, nil
}

// A table has a row for each benchmark.
type table struct {
	limit float64
	order []string
	rows  map[string]*row
	alone map[string]bool // benchmarks that only one build has
}

type row struct{ old, new, ratios []float64 }

func newTable(limit float64) *table {
	return &table{limit: limit, rows: make(map[string]*row), alone: make(map[string]bool)}
}

// add takes the figures of one round, in ns.
func (t *table) add(pkg string, before, after map[string]float64) {
	names := make(map[string]bool)
	for _, figures := range []map[string]float64{before, after} {
		for name := range figures {
			names[name] = true
		}
	}
	for _, name := range sortedKeys(names) {
		full := pkg[len("./"):] + " " + name
		if before[name] == 0 || after[name] == 0 {
			t.alone[full] = true
			continue
		}
		r := t.rows[full]
		if r == nil {
			r = new(row)
			t.rows[full] = r
			t.order = append(t.order, full)
		}
		r.old = append(r.old, before[name])
		r.new = append(r.new, after[name])
		r.ratios = append(r.ratios, before[name]/after[name])
	}
}

// print writes the table and returns how many rows are slower.
func (t *table) print(to io.Writer) (slower int) {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "benchmark\told\tnew\tratio\tinterval\tverdict\t")
	for _, name := range t.order {
		r := t.rows[name]
		ratio := median(r.ratios)
		low, high, ok := interval(r.ratios)
		between := "-"
		if ok {
			between = fmt.Sprintf("%.3f to %.3f", low, high)
		}
		verdict := t.verdict(ratio, low, high, ok)
		if verdict == "slower" {
			slower++
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%.3f\t%s\t%s\t\n", name, nanoseconds(median(r.old)), nanoseconds(median(r.new)), ratio, between, verdict)
	}
	w.Flush()
	for _, name := range sortedKeys(t.alone) {
		fmt.Fprintf(to, "only one of the builds has %s\n", name)
	}
	return slower
}

func (t *table) verdict(ratio, low, high float64, ok bool) string {
	switch {
	case ratio < t.limit && (high < 1 || !ok):
		return "slower"
	case ok && low < t.limit:
		return "unclear"
	}
	return ""
}

func median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// interval returns bounds between which the median of the distribution lies that
// values were drawn from, with a probability of at least 95 %. The source is Thompson,
// "On confidence ranges for the median", Annals of Mathematical Statistics 7 (1936).
func interval(values []float64) (low, high float64, ok bool) {
	s := slices.Sorted(slices.Values(values))
	n := len(s)
	// The median is below s[k] with the probability that at most k of n fair coins
	// show heads.
	tail, k := 0.0, -1
	for choose := 1.0; k+1 < n; k++ {
		p := choose * math.Exp2(-float64(n))
		if 2*(tail+p) > 0.05 {
			break
		}
		tail += p
		choose *= float64(n-k-1) / float64(k+2)
	}
	if k < 0 {
		return 0, 0, false
	}
	return s[k], s[n-1-k], true
}

func nanoseconds(ns float64) string {
	switch {
	case ns < 1e3:
		return fmt.Sprintf("%.1f ns", ns)
	case ns < 1e6:
		return fmt.Sprintf("%.2f µs", ns/1e3)
	case ns < 1e9:
		return fmt.Sprintf("%.2f ms", ns/1e6)
	}
	return fmt.Sprintf("%.2f s", ns/1e9)
}

func sortedKeys(m map[string]bool) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
