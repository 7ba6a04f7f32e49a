package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/measure"
	"github.com/cleavestore/cleave/internal/workload"
)

// breaks, in the environment, makes the process of a task end at once.
const breaks = "PEERS_TEST_BREAKS"

// The test binary is the program that is started for a task.
func TestMain(m *testing.M) {
	if isChild() {
		if os.Getenv(breaks) != "" {
			os.Exit(3)
		}
		os.Exit(child(context.Background(), os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// A tiny run of everything, without an error, gives a value for each row that
// a store takes part in.
func TestRun(t *testing.T) {
	t.Parallel()
	all := candidates()
	d := &runner{
		scale:      scale{Documents: 1000, KillDocuments: 50, Repeats: 1, Warmup: time.Millisecond, Duration: 5 * time.Millisecond, Seed: 1, Shape: shape{Name: workload.SizedShape, Sizes: "100..2k", Compressible: 0.5}},
		candidates: all, dir: t.TempDir(), log: io.Discard,
	}
	if err := d.run(t.Context(), allSteps); err != nil {
		t.Fatal(err)
	}
	r := newReport("go run .", measure.DescribeMachine(d.dir), d.scale, all, d.samples)
	rows := make(map[string]rowValues)
	for _, v := range r.Rows {
		rows[v.Name] = v
	}
	steps := make(map[string]step)
	for _, s := range allSteps {
		steps[s.name] = s
	}
	for _, line := range tableRows {
		if line.figure == figureSlowest || line.figure == figureWritten || line.figure == figureAnonymous || line.figure == figureResident {
			continue // depends on the system, or on how long it took
		}
		for _, c := range all {
			v, ok := rows[line.name].Values[c.name]
			loaded := c.scansOnly && line.step == "load" // for its scans alone
			if ok != (c.takesPart(steps[line.step]) && !loaded) {
				t.Errorf("%s of %s: %+v", line.name, c.name, v)
			}
			if ok && line.figure != figureLost && v.Median <= 0 {
				t.Errorf("%s of %s is %v", line.name, c.name, v.Median)
			}
			if _, ratio := rows[line.name].Ratios[c.name]; ratio != (ok && c.ours && !line.plain) {
				t.Errorf("%s of %s: ratio %v", line.name, c.name, ratio)
			}
			if ok && line.figure == figureLost && c.ours && v.Median != 0 {
				t.Errorf("%s lost %v documents that it had acknowledged", c.name, v.Median)
			}
		}
	}
	encoded, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back report
	if err := json.Unmarshal(encoded, &back); err != nil || len(back.Samples) != len(r.Samples) {
		t.Errorf("%v: %d samples of %d", err, len(back.Samples), len(r.Samples))
	}
	var text bytes.Buffer
	r.print(&text)
	for _, c := range all {
		if !strings.Contains(text.String(), "**"+c.name+"** ("+c.about()+")") {
			t.Errorf("no settings of %s", c.name)
		}
	}
}

// A task that fails says why, and does not end the run.
func TestRunFails(t *testing.T) {
	c := candidates()[0]
	c.name = "none"
	var log bytes.Buffer
	d := &runner{scale: scale{Documents: 10, Repeats: 1}, candidates: []candidate{c}, dir: t.TempDir(), log: &log}
	err := d.run(t.Context(), allSteps[:2])
	if err == nil || !strings.Contains(err.Error(), `load on none: unknown store "none"`) || !strings.Contains(err.Error(), "reopen on none") {
		t.Errorf("the error is %v", err)
	}
	if len(d.samples) != 2 || d.samples[0].Error == "" || !strings.Contains(log.String(), "unknown store") {
		t.Errorf("%+v, logged %s", d.samples, &log)
	}
}

func TestChoose(t *testing.T) {
	same := func(s string) string { return s }
	got, err := choose([]string{"a", "b", "c"}, "c,a", same)
	if err != nil || strings.Join(got, "") != "ac" {
		t.Errorf("%q: %v", got, err)
	}
	if _, err := choose([]string{"a"}, "a,z", same); err == nil {
		t.Error("an unknown name is taken")
	}
}

// Steps that only run on the loaded store share a process; what begins anew or needs another
// mode does not, and nothing does where memory is bounded.
func TestTogether(t *testing.T) {
	names := func(groups [][]step) string {
		var b strings.Builder
		for _, g := range groups {
			for _, s := range g {
				b.WriteString(s.name + " ")
			}
			b.WriteString("| ")
		}
		return b.String()
	}
	want := "load | reopen | read-uniform read-uniform-2 read-zipf read-absent scan-partition scan-written | put | " +
		"ycsb-b ycsb-a ycsb-f ycsb-e ycsb-e-written ycsb-d | sync-1 | sync-16 | sync-64 | kill | "
	if got := names((&runner{}).together(allSteps)); got != want {
		t.Errorf("%s\nnot %s", got, want)
	}
	bounded := &runner{scale: scale{Memory: 1 << 30}}
	if got := bounded.together(allSteps); len(got) != len(allSteps) {
		t.Errorf("with bounded memory: %s", names(got))
	}
}

// A process that fails between two steps leaves the results before, and says which step has none.
func TestStepFails(t *testing.T) {
	c := candidates()[0]
	read, bad := allSteps[2], allSteps[2]
	bad.name, bad.workload = "bad", "no such workload"
	var log bytes.Buffer
	d := &runner{
		scale:      scale{Documents: 1000, Repeats: 1, Duration: time.Millisecond, Seed: 1, Shape: defaultShape},
		candidates: []candidate{c}, dir: t.TempDir(), log: &log,
	}
	err := d.run(t.Context(), []step{allSteps[0], read, bad, read})
	if err == nil || !strings.Contains(err.Error(), "bad on "+c.name) {
		t.Errorf("the error is %v", err)
	}
	if len(d.samples) != 4 {
		t.Fatalf("%d samples: %+v", len(d.samples), d.samples)
	}
	for i, s := range d.samples {
		if failed := s.Error != ""; failed != (i >= 2) || failed == (s.Figures[figureRate]+s.Figures[figureWall] > 0) {
			t.Errorf("sample %d of %s: error %q, figures %v", i, s.Step, s.Error, s.Figures)
		}
	}
}

// A process that ends before it has written what a kill needs was not killed.
func TestKillFails(t *testing.T) {
	t.Setenv(breaks, "1")
	err := perTask(t.Context(), task{Kind: killTask, Parts: make([]part, 1)}, func(result) { t.Error("a result") })
	if err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("the error is %v", err)
	}
}
