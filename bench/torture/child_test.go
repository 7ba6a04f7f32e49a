package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cleavestore/cleave/engine"
)

// plantEnv names the fault that a child of a test has.
const plantEnv = "CLEAVE_TORTURE_PLANT"

// upserts puts an answer in the place of all upserts of documents.
func upserts(answer func() error) func(*victim) {
	return func(v *victim) {
		v.documents = &liar{container: v.documents, upsert: func([]byte, *engine.WriteOptions) (engine.Meta, error) { return engine.Meta{}, answer() }}
	}
}

// plants are the faults that plantEnv names.
var plants = map[string]func(*victim){
	"a violation":   upserts(func() error { return violation("planted") }),
	"a failure":     upserts(func() error { return engine.ErrFailed }),
	"a wrong error": upserts(func() error { return engine.ErrNotFound }),
	"a full disk":   upserts(func() error { return &engine.IOError{Op: "write", File: "planted", Err: syscall.ENOSPC} }),
	"a panic":       upserts(func() error { panic("planted") }),
	"damage": func(v *victim) {
		v.beside = []disturbance{{"snapshot", func(context.Context, *rand.Rand) error {
			return &engine.CorruptionError{File: "planted", Err: errors.New("bad")}
		}}}
	},
}

// roomy is a medium whose disk is said to be full.
type roomy struct{ plain }

func (r *roomy) full() (string, error) {
	name := r.root + "/ballast"
	return name, os.WriteFile(name, nil, 0o600)
}

// TestPlantedInChild asks that a cycle reports what a child has met, whatever would end the
// child.
func TestPlantedInChild(t *testing.T) {
	for _, c := range []struct {
		plant string
		end   end
		want  string // in the violation; "": there is none
	}{
		{"a violation", kill, "planted"},
		{"a violation", thin, "planted"},
		{"a failure", kill, "store failed"},
		{"a failure", thin, ""},
		{"a failure", full, ""},
		{"a wrong error", kill, "item not found"},
		{"a wrong error", thin, "item not found"},
		{"a full disk", kill, "planted"},
		{"a full disk", full, ""},
		{"a panic", kill, "panic: planted"},
		{"a panic", thin, "panic: planted"},
		{"damage", kill, "snapshot: planted"},
		{"damage", full, "snapshot: planted"},
		{"damage", thin, ""},
	} {
		t.Run(c.plant+", "+c.end.String(), func(t *testing.T) {
			t.Setenv(plantEnv, c.plant)
			s := newSeries(&roomy{plain{t.TempDir()}}, c.end, settings[0], 1)
			s.kept = 3 // no copies
			if c.want != "" {
				s.longest = 20 * time.Second // the child finds it long before
			}
			if err := s.cycle(context.Background()); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(s.violations, "\n"); c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("violations %q, want one with %q", got, c.want)
			}
		})
	}
}

// TestTakesWrites: a store that takes no writes though there is space again breaks its promise, and
// one that does goes on with its models.
func TestTakesWrites(t *testing.T) {
	w := newWorld(t)
	at := w.is.at()
	if err := w.takeWrites(w.ctx, w.is); err != nil {
		t.Fatal(err)
	}
	for i, l := range w.is {
		if l.n != at[i]+1 {
			t.Errorf("lane %d: operation %d after %d", i, l.n, at[i])
		}
	}
	if err := w.check(); err != nil {
		t.Error(err)
	}
	w.until(0, put)
	w.documents = &liar{container: w.documents, upsert: func([]byte, *engine.WriteOptions) (engine.Meta, error) { return engine.Meta{}, engine.ErrDiskFull }}
	if err := w.takeWrites(w.ctx, w.is); !isViolation(err) {
		t.Errorf("a store that is full for ever: %v", err)
	}
}

// TestJudge: how a child ended says what it has found, also if it was killed after it said so.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		code         int
		text         string
		bad, excused bool // a violation; with a medium that explains errors
	}{
		{-1, "", false, false},
		{0, "", false, false},
		{exitError, "disk full", true, false},
		{-1, "disk full", true, false},
		{exitViolation, "", true, true},
		{-1, "violation: lane 1", true, true},
		{-1, "disk full\nviolation: lane 1", true, true},
		{exitPanic, "", true, true},
		{-1, "panic: it\n\ngoroutine 1", true, true},
		{-1, "unexpected fault address\nfatal error: fault", true, true},
		{66, "WARNING: DATA RACE", true, false},
	} {
		if err := judge(c.code, c.text, false); isViolation(err) != c.bad {
			t.Errorf("%d, %q: %v", c.code, c.text, err)
		}
		if err := judge(c.code, c.text, true); isViolation(err) != c.excused {
			t.Errorf("%d, %q with an excuse: %v", c.code, c.text, err)
		}
	}
}

// TestExplained: a medium explains errors of its own kind, and never an answer.
func TestExplained(t *testing.T) {
	io := func(errno syscall.Errno) error { return &engine.IOError{Op: "write", File: "f", Err: errno} }
	for _, c := range []struct {
		err                     error
		ballast, failing, power bool // explain it
	}{
		{engine.ErrFailed, true, true, true},
		{engine.ErrOutcomeUnknown, true, true, true},
		{engine.ErrBusy, true, true, true},
		{io(syscall.ENOSPC), true, true, true},
		{&os.PathError{Op: "write", Path: "backup", Err: syscall.ENOSPC}, true, true, true},
		{io(syscall.EIO), false, true, true},
		{&os.PathError{Op: "write", Path: "backup", Err: syscall.EROFS}, false, true, true},
		{&engine.CorruptionError{Err: errors.New("bad")}, false, true, false},
		{engine.ErrNotFound, false, false, false},
		{engine.ErrPositionExpired, false, false, false},
		{violation("%w", io(syscall.EIO)), false, false, false},
	} {
		for _, m := range []struct {
			task
			want bool
		}{{task{}, false}, {task{Ballast: "b"}, c.ballast}, {task{Failing: true}, c.failing}, {task{Cut: true}, c.power}} {
			v := &victim{task: m.task}
			if got := v.explained(c.err); got != m.want {
				t.Errorf("%v, %+v: %t", c.err, m.task, got)
			}
		}
	}
}
