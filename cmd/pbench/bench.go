package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strings"
)

// writeBench writes the figures of a run in the format of Go benchmarks: a line
// for each repetition and kind of operation, for benchstat to compare.
func writeBench(w io.Writer, rep *report) error {
	var b bytes.Buffer
	m := rep.Engine.From
	os, arch, _ := strings.Cut(m.Platform, "/")
	fmt.Fprintf(&b, "goos: %s\ngoarch: %s\npkg: github.com/cleavestore/cleave/cmd/pbench\n", os, arch)
	if m.CPU != "" {
		fmt.Fprintf(&b, "cpu: %s\n", m.CPU)
	}
	if m.Revision != "" {
		fmt.Fprintf(&b, "revision: %s\n", m.Revision)
	}
	fmt.Fprintf(&b, "durability: %s\n", rep.Engine.Run.Durability)
	fmt.Fprintln(&b, "Unit ops/s better=higher")
	for _, unit := range []string{"p50-ns", "p99-ns", "p99.9-ns", "max-ns"} {
		fmt.Fprintf(&b, "Unit %s better=lower\n", unit)
	}
	repeats := rep.repeats()
	for i := range repeats {
		r := &repeats[i]
		for _, name := range r.names() {
			f, _ := r.operation(name)
			fmt.Fprintf(&b, "BenchmarkRun/workload=%s/loop=%s/op=%s-%d\t%d\t%.1f ns/op\t%.1f ops/s", rep.Workload, r.Loop.Kind, name, cmp.Or(m.Procs, m.Cores), f.Ops, 1e3*f.mean, f.OpsPerS)
			for _, p := range percentiles {
				fmt.Fprintf(&b, "\t%.0f %s-ns", 1e3*f.percentile(p), p)
			}
			fmt.Fprintln(&b)
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}
