package main

import (
	"fmt"
	"io"
)

// step is a workload that each store goes through.
type step struct {
	name     string
	kind     taskKind
	workload string
	before   string // a workload that runs first, after which the store does not settle
	workers  int
	synced   bool
	fresh    bool // on a store of its own, else on the one that was loaded
	reads    bool // nothing but reading: left out for stores that are there for their writes
	about    string
}

// allSteps are the workloads in the order in which they are run: those that
// only read come first, on stores that have settled after the load; those that
// write see what the ones before them wrote, and let the store settle at their
// end.
var allSteps = []step{
	{name: "load", kind: loadTask, workers: 1, about: "a new store, loaded in batches, buffered; then settled and closed"},
	{name: "reopen", kind: reopenTask, workers: 1, reads: true, about: "after a clean close, until the first read is answered"},
	{name: "read-uniform", kind: runTask, workload: "read", workers: 1, reads: true, about: "uniform point reads"},
	{name: "read-uniform-2", kind: runTask, workload: "read", workers: 2, reads: true, about: "the same, two goroutines"},
	{name: "read-zipf", kind: runTask, workload: "ycsb-c", workers: 1, reads: true, about: "point reads, zipf 0.99"},
	{name: "read-absent", kind: runTask, workload: "absent", workers: 1, reads: true, about: "point reads of what does not exist"},
	{name: "scan-partition", kind: runTask, workload: "partition", workers: 1, reads: true, about: "whole logical partitions of about 1,000 documents"},
	{name: "scan-written", kind: runTask, workload: "partition", before: "ycsb-a", workers: 1, reads: true, about: "the same, just after a YCSB A: the store has not settled"},
	{name: "put", kind: fillTask, workload: "insert", workers: 1, fresh: true, about: "new documents one by one into a new store, buffered"},
	{name: "ycsb-b", kind: runTask, workload: "ycsb-b", workers: 2, about: "YCSB B: 95 % reads, 5 % updates, zipf; buffered"},
	{name: "ycsb-a", kind: runTask, workload: "ycsb-a", workers: 2, about: "YCSB A: 50 % reads, 50 % updates, zipf; buffered"},
	{name: "ycsb-f", kind: runTask, workload: "ycsb-f", workers: 2, about: "YCSB F: 50 % reads, 50 % read-modify-write, zipf; buffered"},
	{name: "ycsb-e", kind: runTask, workload: "ycsb-e", workers: 2, reads: true, about: "YCSB E: 95 % scans of up to 100 in a partition, 5 % inserts, zipf; buffered"},
	{name: "ycsb-e-written", kind: runTask, workload: "ycsb-e", before: "ycsb-a", workers: 2, reads: true, about: "the same, just after a YCSB A: the store has not settled"},
	{name: "ycsb-d", kind: runTask, workload: "ycsb-d", workers: 2, about: "YCSB D: 95 % reads of the latest, 5 % inserts; buffered"},
	{name: "sync-1", kind: runTask, workload: "put", workers: 1, synced: true, about: "overwrites, each durable when it returns"},
	{name: "sync-16", kind: runTask, workload: "put", workers: 16, synced: true, about: "the same, 16 goroutines"},
	{name: "sync-64", kind: runTask, workload: "put", workers: 64, synced: true, about: "the same, 64 goroutines"},
	{name: "kill", kind: killTask, workers: 1, fresh: true, about: "new documents one by one, buffered, then SIGKILL; reopened until the first read is answered"},
}

func printList(w io.Writer, all []candidate) {
	fmt.Fprintln(w, "stores")
	for _, c := range all {
		fmt.Fprintf(w, "  %-18s  %s; %s\n", c.name, c.about(), c.settings)
	}
	fmt.Fprintln(w, "workloads")
	for _, s := range allSteps {
		fmt.Fprintf(w, "  %-18s  %s\n", s.name, s.about)
	}
}
