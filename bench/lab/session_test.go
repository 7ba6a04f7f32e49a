package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/harness"
	"github.com/cleavestore/cleave/internal/measure"
	"github.com/cleavestore/cleave/internal/workload"
)

// session runs command lines and keeps what they print.
type session struct {
	env         harness.Environment
	out, errOut bytes.Buffer
}

func newSession(t *testing.T) *session {
	t.Helper()
	s := &session{}
	s.env = harness.Environment{
		Stdin: strings.NewReader(""), Stdout: &s.out, Stderr: &s.errOut, Open: harness.OpenStore,
		Trial: harness.TrialTimes{Calibration: 5 * time.Millisecond},
	}
	return s
}

// run runs a command line with fresh output and returns the exit status.
func (s *session) run(t *testing.T, args []string) int {
	t.Helper()
	return s.runContext(t.Context(), args)
}

func (s *session) runContext(ctx context.Context, args []string) int {
	s.out.Reset()
	s.errOut.Reset()
	return s.env.Execute(ctx, "lab", description, new(commands), args)
}

// do runs a command line and checks the exit status.
func (s *session) do(t *testing.T, want int, args ...string) {
	t.Helper()
	if got := s.run(t, args); got != want {
		t.Fatalf("lab %s: exit status %d, want %d\n%s%s", strings.Join(args, " "), got, want, &s.out, &s.errOut)
	}
}

// wants checks that a text holds others.
func wants(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("want %q in\n%s", part, text)
		}
	}
}

// loaded makes a store with 2,000 small documents, as pbench load does, and returns its
// directory.
func loaded(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	s := newSession(t)
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var buffered harness.Durability
	check(buffered.UnmarshalText([]byte("buffered")))
	g, err := workload.NewGenerator(workload.Params{Shape: "small", Seed: 1, LogicalPartitions: harness.DefaultLogicalPartitions})
	check(err)
	flags := harness.EngineFlags{MemoryBudget: 64 << 20, Durability: buffered}
	db, err := harness.OpenStore(t.Context(), dir, flags.Options(&s.env, nil))
	check(err)
	c, err := db.CreateContainer(t.Context(), "docs", (&harness.NewContainerFlags{}).Def([]string{g.KeyPath()}))
	check(err)
	_, err = harness.Load(t.Context(), &s.env, c, harness.GeneratedInput(g, 0, 2000), 0, 0, new(measure.Memory), nil)
	check(err)
	check(db.Close())
	return dir
}
