package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestUnfinishedRun: a run that is interrupted leaves the results of the last whole one as they are.
func TestUnfinishedRun(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	whole := filepath.Join(out, "quick.json")
	if err := os.WriteFile(whole, []byte("whole"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	r := run{scale: quickScale, candidates: candidates()[:1], dir: t.TempDir(), out: out}
	if _, err := r.measure(ctx, "quick", allSteps[:1]); !errors.Is(err, context.Canceled) {
		t.Errorf("measure: %v", err)
	}
	if text, err := os.ReadFile(whole); err != nil || string(text) != "whole" {
		t.Errorf("results of the last run: %q, %v", text, err)
	}
	if _, err := os.Stat(filepath.Join(out, "quick-unfinished.json")); err != nil {
		t.Error(err)
	}
}

// TestFlagsWithoutEffect: flags that would be ignored are refused.
func TestFlagsWithoutEffect(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	for _, args := range [][]string{{"-docs", "-5"}, {"-repeats", "-1"}, {"-duration", "-5s"}, {"-warmup", "-3s"}, {"-limit", "-1s"}, {"-page", "x.md", "-workloads", "load"}} {
		if status := execute(ctx, append(args, "-stores", "cleave", "-out", t.TempDir())); status != 2 {
			t.Errorf("%q: status %d", args, status)
		}
	}
}
