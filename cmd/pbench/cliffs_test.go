package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/workload"
)

// TestRunQueryCliffs: every shape is measured, and its pages have all of its results.
func TestRunQueryCliffs(t *testing.T) {
	s := newEngineSession(t)
	s.do(t, cli.ExitOK, "run", "--docs", "1000", "--workload", "query-cliffs", "--json", "-")
	var rep cliffReport
	if err := json.Unmarshal(s.out.Bytes(), &rep); err != nil {
		t.Fatal(err)
	}
	shapes := workload.Cliffs(1000)
	if rep.Documents != 1000 || len(rep.Shapes) != len(shapes) || rep.Scan <= 0 {
		t.Fatalf("%+v", rep)
	}
	for i, row := range rep.Shapes {
		if row.Name != shapes[i].Name || row.Results == 0 != (row.Name == "offset" || row.Name == "value-absent") {
			t.Errorf("%+v", row)
		}
		if pages := shapes[i].Page; pages > 0 && (row.Pages < row.Results/pages || row.Pages > row.Results/pages+1) {
			t.Errorf("%s: %d results in %d pages", row.Name, row.Results, row.Pages)
		}
	}
	s.do(t, cli.ExitOK, "run", "--docs", "1000", "--workload", "query-cliffs")
	wants(t, s.out.String(), "order-contains-pages", "paged/whole")
	for _, wrong := range [][]string{{"--docs", "10"}, {"--generator", "food"}, {"--mix", "read=1"}} {
		s.do(t, cli.ExitUsage, append([]string{"run", "--workload", "query-cliffs"}, wrong...)...)
		wants(t, s.errOut.String(), "query-cliffs")
	}
}

// TestOwnStoresTakeFewFlags: a workload that makes its own stores refuses each flag that it would ignore.
func TestOwnStoresTakeFewFlags(t *testing.T) {
	s := newSession(t)
	for _, name := range []string{workload.QueryCliffs, workload.Stalls} {
		for _, flag := range []string{"--fail-if=all.p50>1ns", "--rate=5k", "--count=3", "--split-at=1s", "--throughput=400", "--ttl=5s", "--profile=cpu", "--durability=buffered",
			"--closed", "--spin", "--seed=2", "--warmup=1s", "--memory-budget=64MiB", "--index", "--out=x", "--report=x.html"} {
			s.do(t, cli.ExitUsage, "run", "--docs", "10", "--workload", name, flag)
			given, _, _ := strings.Cut(flag, "=")
			wants(t, s.errOut.String(), name+" makes its own stores", "not "+given)
		}
	}
}
