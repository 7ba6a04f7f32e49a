package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/cleavestore/cleave/internal/measure"
)

// runner runs steps for each store in processes of their own.
type runner struct {
	scale
	candidates []candidate
	dir        string
	log        io.Writer

	start   time.Time
	exist   map[string]int64 // documents in the loaded store
	samples []sample
}

// sample is one measurement of one store.
type sample struct {
	Step    string  `json:"step"`
	Store   string  `json:"store"`
	Repeat  int     `json:"repeat"`
	Seconds float64 `json:"seconds"` // until the process had the result, from its start or the result before
	result
}

// longestPart is what a process may take for each of its parts before it is given up.
const longestPart = 20 * time.Minute

// run runs the steps, and the load that all others need. The error tells which
// tasks failed; the others are in samples.
func (d *runner) run(ctx context.Context, plan []step) error {
	d.start, d.exist = time.Now(), make(map[string]int64)
	var failed []error
	loaded := false
	for _, s := range plan {
		loaded = loaded || s.kind == loadTask
	}
	if !loaded {
		load := d.repeat(1)
		failed = append(failed, load.steps(ctx, allSteps[:1]))
		d.exist = load.exist
	}
	for _, steps := range d.together(plan) {
		failed = append(failed, d.steps(ctx, steps))
	}
	return errors.Join(failed...)
}

// repeat returns a runner for steps that are not measured.
func (d *runner) repeat(times int) *runner {
	other := *d
	other.Repeats = times
	return &other
}

// together groups the steps that a process does one after the other: those beside each other
// that run on the loaded store and are not synced. So the caches of a store are filled
// once for all of them. Where memory is bounded, each step begins without files in memory, so alone.
func (d *runner) together(plan []step) (groups [][]step) {
	joins := func(s step) bool { return d.Memory == 0 && s.kind == runTask && !s.fresh && !s.synced }
	for i, s := range plan {
		if i > 0 && joins(s) && joins(plan[i-1]) {
			groups[len(groups)-1] = append(groups[len(groups)-1], s)
		} else {
			groups = append(groups, []step{s})
		}
	}
	return groups
}

// steps runs the steps of a process, with the stores taking turns in an order that changes.
func (d *runner) steps(ctx context.Context, group []step) error {
	var failed []error
	for repeat := range d.Repeats {
		if repeat > 0 && d.Limit > 0 && time.Since(d.start) > d.Limit {
			fmt.Fprintf(d.log, "%-16s no more repeats: the limit of %v is over\n", group[0].name, d.Limit)
			break
		}
		for turn := range d.candidates {
			c := d.candidates[(turn+repeat)%len(d.candidates)]
			steps := slices.DeleteFunc(slices.Clone(group), func(s step) bool { return !c.takesPart(s) })
			if len(steps) == 0 {
				continue
			}
			if err := ctx.Err(); err != nil {
				return errors.Join(append(failed, err)...)
			}
			failed = append(failed, d.turn(ctx, steps, c, repeat))
		}
	}
	return errors.Join(failed...)
}

// turn runs steps on one store, and notes a sample for each.
func (d *runner) turn(ctx context.Context, steps []step, c candidate, repeat int) error {
	start, done := time.Now(), 0
	note := func(r result) {
		now, name := time.Now(), steps[done].name
		d.samples = append(d.samples, sample{Step: name, Store: c.name, Repeat: repeat, Seconds: now.Sub(start).Seconds(), result: r})
		fmt.Fprintf(d.log, "%s %-16s %-20s %d/%d  %s\n", clock(now.Sub(d.start)), name, c.name, repeat+1, d.Repeats, summary(r))
		start = now
		done++
	}
	err := d.measure(ctx, steps, c, note)
	if err == nil && done < len(steps) {
		err = errors.New("the process ended without a result")
	}
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%s on %s: %w", steps[min(done, len(steps)-1)].name, c.name, err)
	fmt.Fprintln(d.log, err)
	for done < len(steps) {
		note(result{Error: err.Error()})
	}
	return err
}

// measure runs steps on one store in a process, and calls note with the result of each. There
// is more than one only where together says so.
func (d *runner) measure(ctx context.Context, steps []step, c candidate, note func(result)) (err error) {
	s := steps[0]
	t := task{
		Store: c.name, Kind: s.kind, Mode: mode{Synced: s.synced, Memory: d.Memory}, Seed: d.Seed, Shape: d.Shape,
		Loaded: d.Documents, Documents: d.Documents, Warmup: d.Warmup, Duration: d.Duration,
		Dir: filepath.Join(d.dir, c.name),
	}
	for _, s := range steps {
		t.Mode.Workers = max(t.Mode.Workers, s.workers)
		t.Parts = append(t.Parts, part{Workload: s.workload, Before: s.before, Workers: s.workers})
	}
	if s.fresh {
		t.Dir += "-" + s.name
		defer func() { err = errors.Join(err, os.RemoveAll(t.Dir)) }()
	}
	if s.fresh || s.kind == loadTask || c.probe {
		if err := errors.Join(os.RemoveAll(t.Dir), os.MkdirAll(t.Dir, 0o755)); err != nil {
			return err
		}
	}
	if d.Memory > 0 {
		var group *measure.MemoryGroup
		if group, err = measure.NewMemoryGroup(d.Memory); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, group.Remove()) }()
		t.Group = group.Dir()
	}
	switch s.kind {
	case fillTask:
		t.Warmup = 0
	case runTask:
		if n, ok := d.exist[c.name]; ok {
			t.Documents = n
		}
		if err := d.prepareFiles(t.Dir); err != nil {
			return err
		}
	case reopenTask:
		t.Documents = 1
		if err := d.prepareFiles(t.Dir); err != nil {
			return err
		}
	case killTask:
		t.Documents = d.KillDocuments
		if err := perTask(ctx, t, func(result) {}); err != nil {
			return err
		}
		t.Kind = reopenTask
	}
	return perTask(ctx, t, func(r result) {
		if s.kind == loadTask || s.kind == runTask {
			d.exist[c.name] = r.Documents
		}
		note(r)
	})
}

// prepareFiles makes all stores begin alike: their files are in the page cache, or, if
// memory is bounded, not there.
func (d *runner) prepareFiles(dir string) error {
	if d.Memory > 0 {
		return measure.DropCached(dir)
	}
	return cacheFiles(dir)
}

// cacheFiles reads the files under dir, so that what is measured next finds
// them in the page cache: the stores are interleaved, and all of them together
// do not fit there.
func cacheFiles(dir string) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, f)
		return errors.Join(err, f.Close())
	})
}

// childVariable, in the environment, makes this program do one task.
const childVariable = "PEERS_CHILD"

func isChild() bool { return os.Getenv(childVariable) != "" }

// perTask does a task in a process of its own, and calls note with each result when it is there.
func perTask(ctx context.Context, t task, note func(result)) error {
	ctx, cancel := context.WithTimeout(ctx, longestPart*time.Duration(len(t.Parts)))
	defer cancel()
	program, err := os.Executable()
	if err != nil {
		return err
	}
	input, err := json.Marshal(t)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), childVariable+"=1")
	cmd.Stdin, cmd.Stderr = bytes.NewReader(input), os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	results := 0
	failed := readResults(out, func(r result) {
		results++
		note(r)
	})
	ended := cmd.Wait()
	switch {
	case failed != nil:
		return failed
	case t.Kind != killTask:
		return ended
	case ended == nil || results == 0:
		return fmt.Errorf("the process was not killed after its %d documents: %w", t.Documents, cmp.Or(ended, errors.New("it ended")))
	}
	return ctx.Err()
}

// readResults calls note with the results that a process reports. The error is the one that it reports.
func readResults(from io.Reader, note func(result)) error {
	for results := json.NewDecoder(from); ; {
		var r result
		switch err := results.Decode(&r); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("a result: %w", err)
		case r.Error != "":
			return errors.New(r.Error)
		}
		note(r)
	}
}

// child does the task that it reads, and writes the results.
func child(ctx context.Context, in io.Reader, out, errOut io.Writer) int {
	report := func(r result) {
		if err := json.NewEncoder(out).Encode(r); err != nil {
			fmt.Fprintln(errOut, err)
		}
	}
	var t task
	err := json.NewDecoder(in).Decode(&t)
	if err == nil {
		err = perform(ctx, t, report)
	}
	if err != nil {
		report(result{Error: err.Error()})
		return 1
	}
	return 0
}

// clock returns minutes and seconds.
func clock(d time.Duration) string {
	s := int(d / time.Second)
	return fmt.Sprintf("%02d:%02d", s/60, s%60)
}

// summary returns the figure that says most about a result.
func summary(r result) string {
	for _, f := range []struct{ figure, unit string }{
		{figureRate, "/s"}, {figureWall, "/s"}, {figureOpen, " ms"},
	} {
		if x, ok := r.Figures[f.figure]; ok {
			return number(x) + f.unit
		}
	}
	return "failed"
}
