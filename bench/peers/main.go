// Command peers measures Cleave and the embedded stores that a Go program
// could use in its place: Pebble, Badger, bbolt, SQLite, and, if they are built
// in, LMDB (-tags lmdb), RocksDB (-tags rocksdb) and WiredTiger, the engine of MongoDB
// (-tags wiredtiger).
//
//	go run . --quick     a small set, in less than ten minutes on two cores
//	go run .             the full set: a million documents, more than an hour
//	go run . --page ../../docs/benchmarks.md    the results on that page made anew, with the picture
//
// All stores get the same documents, operations, durability and measuring
// code: that of pbench, in internal/measure. Each store is configured as its
// documentation advises; the settings that differ from its defaults are printed. The
// workloads on a store run in processes of its own, which are this program started
// again: the buffered ones that follow each other in one, each other one alone. Before a
// process starts, the files of the store are read once, so that they are in the page cache.
// Before its first workload that reads, all documents are scanned four times through the store, so
// that its own cache is filled and its mapping is known to the processor. Stores take turns,
// and each turn is repeated. The tables have the median of the repeats and their spread.
//
// A rate is the number of goroutines divided by the mean time of a call, so it does not
// include the time in which the loop makes the next document. A load
// is timed by the clock, the making of documents included.
//
// The tables go to standard output as Markdown, the same and all samples as
// JSON to files in --out. Exit status: 0 success, 1 something failed, 2 wrong
// usage.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/harness"
	"github.com/cleavestore/cleave/internal/measure"
	"github.com/cleavestore/cleave/internal/workload"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	if isChild() {
		os.Exit(child(ctx, os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(execute(ctx, os.Args[1:]))
}

// scale is how much is done.
type scale struct {
	Documents     int64         `json:"documents"`
	KillDocuments int64         `json:"kill_documents"` // written before the kill
	Repeats       int           `json:"repeats"`
	Warmup        time.Duration `json:"warmup_ns"`
	Duration      time.Duration `json:"duration_ns"` // of each workload
	Seed          uint64        `json:"seed"`
	Shape         shape         `json:"shape"`
	Memory        int64         `json:"memory_bytes,omitempty"` // that a process may have; 0: that of the machine
	// Limit is the time after which no further repeat begins: a workload that
	// has one measurement then keeps that one.
	Limit time.Duration `json:"limit_ns,omitempty"`
}

var (
	fullScale  = scale{Documents: 1_000_000, KillDocuments: 200_000, Repeats: 3, Warmup: 3 * time.Second, Duration: 4 * time.Second, Seed: 1, Shape: defaultShape}
	quickScale = scale{Documents: 100_000, KillDocuments: 50_000, Repeats: 3, Warmup: 200 * time.Millisecond, Duration: 600 * time.Millisecond, Seed: 1, Shape: defaultShape, Limit: 7 * time.Minute}
)

// execute runs one command line and returns the exit status.
func execute(ctx context.Context, args []string) int {
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	quick := flags.Bool("quick", false, "the small set")
	documents := flags.Int64("docs", 0, "number of documents, in logical partitions of 1,000")
	repeats := flags.Int("repeats", 0, "how often each workload is measured")
	duration := flags.Duration("duration", 0, "how long each workload is measured")
	warmup := flags.Duration("warmup", -1, "how long each workload runs before that")
	seed := flags.Uint64("seed", 1, "seed of documents and operations")
	generator := flags.String("generator", defaultShape.Name, "documents: one of the generators of pbench")
	sizes := flags.String("doc-size", "", "sizes of the documents, such as 100, 16k or lognormal:200..20k; implies the generator "+workload.SizedShape)
	compressible := flags.Float64("compressible", 0, "with -doc-size: part of each document that is the same in all, from 0 to 1")
	stores := flags.String("stores", "", "comma-separated stores; default: all of this build")
	steps := flags.String("workloads", "", "comma-separated workloads, after the load that all need; default: all")
	dir := flags.String("dir", "", "directory for the stores; default: a temporary one")
	out := flags.String("out", "runs", "directory for the tables and the JSON file")
	var memory cli.Size
	flags.Func("memory", "memory that each process may have, page cache included, such as 1536MiB; block caches have a third of it, and files are not in memory before a workload; needs Linux and root",
		func(text string) error { return memory.UnmarshalText([]byte(text)) })
	limit := flags.Duration("limit", 0, "time after which no further repeat begins")
	page := flags.String("page", "", "page whose results to bring up to date, such as ../../docs/benchmarks.md: runs all workloads, and some with documents of other sizes")
	list := flags.Bool("list", false, "list stores and workloads")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	name, s := "full", fullScale
	if *quick {
		name, s = "quick", quickScale
	}
	if *documents > 0 {
		s.KillDocuments = max(s.KillDocuments**documents/s.Documents, 1)
		s.Documents = *documents
	}
	if *repeats > 0 {
		s.Repeats = *repeats
	}
	if *duration > 0 {
		s.Duration = *duration
	}
	if *warmup >= 0 {
		s.Warmup = *warmup
	}
	if *limit > 0 {
		s.Limit = *limit
	}
	s.Memory = int64(memory)
	s.Seed = *seed
	s.Shape = shape{Name: *generator, Sizes: *sizes, Compressible: *compressible}
	if s.Shape.Sizes != "" && s.Shape.Name == defaultShape.Name {
		s.Shape.Name = workload.SizedShape
	}
	all := candidates()
	if *list {
		printList(os.Stdout, all)
		return 0
	}
	chosen, err := choose(all, *stores, func(c candidate) string { return c.name })
	if err == nil {
		err = checkFlags(flags)
	}
	if err == nil && *page != "" && *steps != "" {
		err = errors.New("-page runs all workloads: -workloads does not go with it")
	}
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if err == nil {
		_, err = s.Shape.generator(s.Seed, s.Documents)
	}
	var plan []step
	if err == nil {
		plan, err = choose(allSteps, *steps, func(s step) string { return s.name })
	}
	if err == nil {
		err = errors.Join(harness.OutsideStores("--out", *out), harness.OutsideStores("--dir", *dir), harness.OutsideStores("--page", *page))
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "peers: %v\n", err)
		return 2
	}
	r := run{
		command: strings.TrimSpace("go run " + tagsOfBuild() + ". " + strings.Join(args, " ")), scale: s, candidates: chosen, dir: *dir, out: *out,
	}
	if *page != "" {
		err = publish(ctx, *page, r)
	} else {
		_, err = r.measure(ctx, name, plan)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "peers: %v\n", err)
		return 1
	}
	return 0
}

// checkFlags refuses numbers and times below 0.
func checkFlags(flags *flag.FlagSet) (err error) {
	flags.Visit(func(f *flag.Flag) {
		g, ok := f.Value.(flag.Getter)
		if !ok {
			return
		}
		negative := false
		switch x := g.Get().(type) {
		case int:
			negative = x < 0
		case int64:
			negative = x < 0
		case time.Duration:
			negative = x < 0
		}
		if negative {
			err = fmt.Errorf("-%s cannot be negative", f.Name)
		}
	})
	return err
}

// choose returns those of all that a list names, in the order of all.
func choose[T any](all []T, list string, name func(T) string) ([]T, error) {
	if list == "" {
		return all, nil
	}
	names := strings.Split(list, ",")
	var chosen []T
	var known []string
	for _, x := range all {
		known = append(known, name(x))
		if slices.Contains(names, name(x)) {
			chosen = append(chosen, x)
		}
	}
	for _, n := range names {
		if !slices.Contains(known, n) {
			return nil, fmt.Errorf("unknown %q: there are %s", n, strings.Join(known, ", "))
		}
	}
	return chosen, nil
}

// run is what a command line asks for.
type run struct {
	command    string
	scale      scale
	candidates []candidate
	dir, out   string
}

// measure does the steps, prints the tables, and writes them and the samples to files of a
// name. Those of a run that was interrupted or failed have the name of an unfinished one, so that the results
// of the last whole run stay.
func (c run) measure(ctx context.Context, name string, plan []step) (r *report, err error) {
	if err := os.MkdirAll(c.out, 0o755); err != nil {
		return nil, err
	}
	if c.dir != "" {
		if err := os.MkdirAll(c.dir, 0o755); err != nil {
			return nil, err
		}
	}
	dir, err := os.MkdirTemp(c.dir, "peers-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	d := &runner{scale: c.scale, candidates: c.candidates, dir: dir, log: os.Stderr}
	failed := d.run(ctx, plan)
	if failed != nil {
		name += "-unfinished"
	}
	machine := measure.DescribeMachine(dir)
	machine.Revision = revision()
	r = newReport(c.command, machine, c.scale, c.candidates, d.samples)
	text, err := os.Create(filepath.Join(c.out, name+".md"))
	if err != nil {
		return nil, errors.Join(failed, err)
	}
	r.print(text)
	r.print(os.Stdout)
	if err := text.Close(); err != nil {
		return nil, errors.Join(failed, err)
	}
	encoded, err := json.MarshalIndent(r, "", " ")
	if err == nil {
		err = os.WriteFile(filepath.Join(c.out, name+".json"), append(encoded, '\n'), 0o644)
	}
	return r, errors.Join(failed, err)
}
