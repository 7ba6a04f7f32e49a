package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/cleavestore/cleave/internal/measure"
)

// runner runs steps, each for each store in a process of its own.
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
	Seconds float64 `json:"seconds"` // that the process took
	result
}

// longestTask is what a process may take before it is given up.
const longestTask = 20 * time.Minute

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
		failed = append(failed, load.step(ctx, allSteps[0]))
		d.exist = load.exist
	}
	for _, s := range plan {
		failed = append(failed, d.step(ctx, s))
	}
	return errors.Join(failed...)
}

// repeat returns a runner for steps that are not measured.
func (d *runner) repeat(times int) *runner {
	other := *d
	other.Repeats = times
	return &other
}

// step runs one step, with the stores taking turns in an order that changes.
func (d *runner) step(ctx context.Context, s step) error {
	var failed []error
	for repeat := range d.Repeats {
		if repeat > 0 && d.Limit > 0 && time.Since(d.start) > d.Limit {
			fmt.Fprintf(d.log, "%-16s no more repeats: the limit of %v is over\n", s.name, d.Limit)
			break
		}
		for turn := range d.candidates {
			c := d.candidates[(turn+repeat)%len(d.candidates)]
			if !c.takesPart(s) {
				continue
			}
			if err := ctx.Err(); err != nil {
				return errors.Join(append(failed, err)...)
			}
			start := time.Now()
			r, err := d.measure(ctx, s, c)
			if err != nil {
				err = fmt.Errorf("%s on %s: %w", s.name, c.name, err)
				failed = append(failed, err)
				fmt.Fprintln(d.log, err)
				r.Error = err.Error()
			}
			d.samples = append(d.samples, sample{Step: s.name, Store: c.name, Repeat: repeat, Seconds: time.Since(start).Seconds(), result: r})
			fmt.Fprintf(d.log, "%s %-16s %-20s %d/%d  %s\n", clock(time.Since(d.start)), s.name, c.name, repeat+1, d.Repeats, summary(r))
		}
	}
	return errors.Join(failed...)
}

// measure runs one step on one store.
func (d *runner) measure(ctx context.Context, s step, c candidate) (r result, err error) {
	t := task{
		Store: c.name, Kind: s.kind, Mode: mode{Synced: s.synced, Workers: s.workers, Memory: d.Memory}, Seed: d.Seed, Shape: d.Shape,
		Loaded: d.Documents, Documents: d.Documents, Workload: s.workload, Before: s.before, Warmup: d.Warmup, Duration: d.Duration,
		Dir: filepath.Join(d.dir, c.name),
	}
	if s.fresh {
		t.Dir += "-" + s.name
		defer func() { err = errors.Join(err, os.RemoveAll(t.Dir)) }()
	}
	if s.fresh || s.kind == loadTask || c.probe {
		if err := errors.Join(os.RemoveAll(t.Dir), os.MkdirAll(t.Dir, 0o755)); err != nil {
			return r, err
		}
	}
	if d.Memory > 0 {
		var group *measure.MemoryGroup
		if group, err = measure.NewMemoryGroup(d.Memory); err != nil {
			return r, err
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
			return r, err
		}
	case reopenTask:
		t.Documents = 1
		if err := d.prepareFiles(t.Dir); err != nil {
			return r, err
		}
	case killTask:
		t.Documents = d.KillDocuments
		if r, err = perTask(ctx, t); err != nil {
			return r, err
		}
		t.Kind = reopenTask
	}
	if r, err = perTask(ctx, t); err != nil {
		return r, err
	}
	if s.kind == loadTask || s.kind == runTask {
		d.exist[c.name] = r.Documents
	}
	return r, nil
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

// perTask does a task in a process of its own.
func perTask(ctx context.Context, t task) (r result, err error) {
	ctx, cancel := context.WithTimeout(ctx, longestTask)
	defer cancel()
	program, err := os.Executable()
	if err != nil {
		return r, err
	}
	input, err := json.Marshal(t)
	if err != nil {
		return r, err
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), childVariable+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), &out, os.Stderr
	runErr := cmd.Run()
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		return r, errors.Join(runErr, fmt.Errorf("no result: %w", err))
	}
	if r.Error != "" {
		return r, errors.New(r.Error)
	}
	if t.Kind == killTask {
		if runErr == nil {
			return r, errors.New("the process was not killed")
		}
		return r, ctx.Err()
	}
	return r, runErr
}

// child does the task that it reads, and writes the result.
func child(ctx context.Context, in io.Reader, out, errOut io.Writer) int {
	report := func(r result) {
		if err := json.NewEncoder(out).Encode(r); err != nil {
			fmt.Fprintln(errOut, err)
		}
	}
	var t task
	err := json.NewDecoder(in).Decode(&t)
	var r result
	if err == nil {
		r, err = perform(ctx, t, report)
	}
	if err != nil {
		r.Error = err.Error()
	}
	report(r)
	if err != nil {
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
