package main

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/cleavestore/cleave/internal/humanize"
)

// print writes the report as Markdown.
func (r *report) print(w io.Writer) {
	r.printSettings(w)
	r.printRatios(w)
	r.printLosses(w)
	r.printFigures(w)
}

// printRun writes what was run, and all figures.
func (r *report) printRun(w io.Writer) {
	r.printSettings(w)
	r.printFigures(w)
}

// printSettings writes what was run, and with which settings.
func (r *report) printSettings(w io.Writer) {
	fmt.Fprintf(w, "`%s` on %v\n\n", r.Command, r.Machine)
	fmt.Fprintf(w, "%s %v in logical partitions of %s; each workload %v after a warm-up of %v, at most %d times; seed %d.\n\n",
		number(float64(r.Scale.Documents)), r.Scale.Shape, number(partitionItems), r.Scale.Duration, r.Scale.Warmup, r.Scale.Repeats, r.Scale.Seed)
	if r.Scale.Memory > 0 {
		fmt.Fprintf(w, "Each process has at most %s of memory, the page cache included; block caches have a third of that. The files of a store "+
			"are not in memory when a workload begins.\n\n", humanize.Bytes(r.Scale.Memory))
	}
	for _, s := range r.Stores {
		fmt.Fprintf(w, "- **%s** (%s): %s.\n", s.Name, s.Version, s.Settings)
	}
}

// printFigures writes all medians and latencies.
func (r *report) printFigures(w io.Writer) {
	r.printValues(w)
	r.printLatencies(w)
	fmt.Fprintf(w, "\nRates are goroutines by the mean time of a call: medians of the repeats, ± half the distance of the extremes. "+
		"Loads are by the clock and include the making of documents, %s µs each.\n", number(r.making()))
}

// making is what it takes to make a document, in microseconds.
func (r *report) making() float64 {
	least := math.Inf(1)
	for _, s := range r.Samples {
		if x, ok := s.Figures[figureMaking]; ok {
			least = min(least, x)
		}
	}
	if math.IsInf(least, 1) {
		return 0
	}
	return least
}

// printRatios writes what Cleave reaches in comparison with the best peer.
func (r *report) printRatios(w io.Writer) {
	if t := r.ratioTable(r.Rows); len(t.rows) > 1 {
		fmt.Fprint(w, "\nCleave by the best peer; above 1 Cleave is ahead, whether more or less is better.\n\n")
		t.print(w)
	}
}

// ratioTable has a line for each row with a ratio.
func (r *report) ratioTable(rows []rowValues) *table {
	head := []string{"", "best peer", ""}
	var ours []string
	for _, s := range r.Stores {
		if s.Ours {
			ours = append(ours, s.Name)
			head = append(head, s.Name)
		}
	}
	t := &table{rows: [][]string{head}}
	for _, v := range rows {
		if v.Best == "" || len(v.Ratios) == 0 {
			continue
		}
		line := []string{v.Name, v.Best, measured(v.Values[v.Best], v.Unit)}
		for _, name := range ours {
			cell := ""
			if ratio, ok := v.Ratios[name]; ok {
				cell = number(ratio)
			}
			line = append(line, cell)
		}
		t.rows = append(t.rows, line)
	}
	return t
}

// printLosses names the rows in which a peer is ahead, with the ratios.
func (r *report) printLosses(w io.Writer) {
	var lines []string
	for _, v := range r.Rows {
		var behind []string
		for _, s := range r.Stores {
			if ratio, ok := v.Ratios[s.Name]; ok && ratio < 1 {
				behind = append(behind, s.Name+" "+number(ratio))
			}
		}
		if len(behind) > 0 {
			lines = append(lines, fmt.Sprintf("- %s: %s %s; %s\n", v.Name, v.Best, measured(v.Values[v.Best], v.Unit), strings.Join(behind, ", ")))
		}
	}
	if len(lines) > 0 {
		fmt.Fprint(w, "\nWhere a peer is ahead:\n\n", strings.Join(lines, ""))
	}
}

// printValues writes all medians with their spreads.
func (r *report) printValues(w io.Writer) {
	head := []string{"", ""}
	for _, s := range r.Stores {
		head = append(head, s.Name)
	}
	t := table{rows: [][]string{head}}
	for _, v := range r.Rows {
		line := []string{v.Name, v.Unit}
		for _, s := range r.Stores {
			cell := ""
			if x, ok := v.Values[s.Name]; ok {
				cell = number(x.Median)
				if x.N > 1 {
					cell += fmt.Sprintf(" ±%.0f %%", 100*x.spread())
				}
			}
			line = append(line, cell)
		}
		t.rows = append(t.rows, line)
	}
	fmt.Fprint(w, "\nMedians and spreads.\n\n")
	t.print(w)
}

// printLatencies writes percentiles of the workloads.
func (r *report) printLatencies(w io.Writer) {
	head := []string{"µs", ""}
	for _, s := range r.Stores {
		head = append(head, s.Name)
	}
	t := table{rows: [][]string{head}}
	for _, s := range allSteps {
		for _, p := range []struct{ name, figure string }{{"p50", figureP50}, {"p99", figureP99}, {"p99.99", figureP9999}} {
			line := []string{s.name, p.name}
			found := false
			for _, store := range r.Stores {
				x, ok := r.value(store.Name, s.name, p.figure)
				cell := ""
				if ok {
					cell, found = number(x.Median), true
				}
				line = append(line, cell)
			}
			if found {
				t.rows = append(t.rows, line)
			}
		}
	}
	if len(t.rows) > 1 {
		fmt.Fprint(w, "\nLatencies of calls, medians of the repeats.\n\n")
		t.print(w)
	}
}

// table prints columns as Markdown, aligned in plain text too: the first to
// the left, the others to the right.
type table struct{ rows [][]string }

func (t *table) print(w io.Writer) {
	widths := make([]int, len(t.rows[0]))
	for _, line := range t.rows {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell), 3)
		}
	}
	for at, line := range t.rows {
		var b strings.Builder
		for i, cell := range line {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				b.WriteString("| " + cell + pad + " |")
			} else {
				b.WriteString(" " + pad + cell + " |")
			}
		}
		fmt.Fprintln(w, b.String())
		if at == 0 {
			b.Reset()
			for i, width := range widths {
				if i == 0 {
					b.WriteString("|" + strings.Repeat("-", width+2) + "|")
				} else {
					b.WriteString(strings.Repeat("-", width+1) + ":|")
				}
			}
			fmt.Fprintln(w, b.String())
		}
	}
}

// measured returns a median with its unit.
func measured(v value, unit string) string {
	switch unit {
	case "", "/s", "×":
		return number(v.Median) + unit
	}
	return number(v.Median) + " " + unit
}

// number returns two digits at least, with separators.
func number(x float64) string {
	switch abs := math.Abs(x); {
	case x == 0:
		return "0"
	case abs < 0.00995:
		return strconv.FormatFloat(x, 'f', 4, 64)
	case abs < 0.0995:
		return strconv.FormatFloat(x, 'f', 3, 64)
	case abs < 9.995:
		return strconv.FormatFloat(x, 'f', 2, 64)
	case abs < 99.95:
		return strconv.FormatFloat(x, 'f', 1, 64)
	}
	digits := strconv.FormatFloat(x, 'f', 0, 64)
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && d != '-' && (len(digits)-i)%3 == 0 && digits[i-1] != '-' {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}
