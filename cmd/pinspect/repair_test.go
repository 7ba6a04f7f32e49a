package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/cli"
)

// TestRepairCommand repairs a store without damage, and one that has lost a file.
func TestRepairCommand(t *testing.T) {
	s := newSample(t)
	whole := filepath.Join(t.TempDir(), "whole")
	if r := pinspect(t, "repair", s.dir, whole); r.status != 0 {
		t.Fatalf("status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	if a, b := clean(t, "export", s.dir, "cities"), clean(t, "export", whole, "cities"); a != b {
		t.Error("the documents differ")
	}
	segment := storeFiles(t, s.dir, "p/*/*.seg")[0]
	check(t, os.Remove(filepath.Join(s.dir, segment)))
	r := pinspect(t, "repair", s.dir, filepath.Join(t.TempDir(), "rest"))
	if r.status != exitFindings || !strings.Contains(r.stdout, filepath.Join(s.dir, segment)) {
		t.Errorf("status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	v := objects(t, pinspect(t, "repair", s.dir, filepath.Join(t.TempDir(), "again"), "--json").stdout)
	if len(v) != 1 || len(v[0]["lost"].([]any)) != 1 {
		t.Errorf("--json: %v", v)
	}
	if r := pinspect(t, "repair", s.dir, whole); r.status != 2 {
		t.Errorf("into a store with containers: status %d\n%s", r.status, r.stderr)
	}
}

// untilMade is a context that ends when there is something in a directory.
type untilMade struct {
	context.Context
	dir string
}

// Err implements context.Context.
func (c untilMade) Err() error {
	if holdsFiles(c.dir) {
		return context.Canceled
	}
	return nil
}

// TestRepairInterrupted: a repair that is interrupted says what to do with the store that it
// has begun to write. Nothing is said of a directory that was there before, or was not made.
func TestRepairInterrupted(t *testing.T) {
	s := newSample(t)
	run := func(dst, src string) (int, string) {
		var out, errs bytes.Buffer
		status := execute(untilMade{t.Context(), dst}, []string{"repair", src, dst}, &environment{stdout: &out, stderr: &errs})
		return status, errs.String()
	}
	dst := filepath.Join(t.TempDir(), "repaired")
	status, says := run(dst, s.dir)
	if status != cli.ExitInterrupted || !strings.HasPrefix(says, "pinspect: interrupted\n") || !strings.Contains(says, dst+" has only a part of the documents: remove it") {
		t.Fatalf("status %d: %s", status, says)
	}
	if status, says = run(dst, s.dir); status == 0 || strings.Contains(says, "remove it") {
		t.Errorf("into what is there: status %d: %s", status, says)
	}
	if status, says = run(filepath.Join(t.TempDir(), "none"), t.TempDir()); status != cli.ExitUsage || strings.Contains(says, "remove it") {
		t.Errorf("of no store: status %d: %s", status, says)
	}
	check(t, os.RemoveAll(dst))
	clean(t, "repair", s.dir, dst)
}

// TestBackupReadable backs up what is left of a store that has lost a file, and restores
// it: the same documents as of a repaired copy.
func TestBackupReadable(t *testing.T) {
	s := newSample(t)
	segment := storeFiles(t, s.dir, "p/*/*.seg")[0]
	check(t, os.Remove(filepath.Join(s.dir, segment)))
	file := filepath.Join(t.TempDir(), "rest.backup")
	if r := pinspect(t, "backup", s.dir, "-o", file); r.status == 0 || !strings.Contains(r.stderr, "--readable") {
		t.Errorf("without --readable: status %d\n%s", r.status, r.stderr)
	}
	r := pinspect(t, "backup", s.dir, "-o", file, "--readable", "--json")
	v := objects(t, r.stdout)
	if r.status != exitFindings || len(v) != 1 || len(v[0]["left_out"].(map[string]any)["lost"].([]any)) != 1 {
		t.Fatalf("status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	rest := filepath.Join(t.TempDir(), "rest")
	clean(t, "restore", rest, file)
	repaired := filepath.Join(t.TempDir(), "repaired")
	pinspect(t, "repair", s.dir, repaired)
	if a, b := clean(t, "export", repaired, "cities"), clean(t, "export", rest, "cities"); a != b || a == "" {
		t.Error("the documents differ from those of a repaired copy")
	}
	if left, err := os.ReadDir(filepath.Dir(file)); err != nil || len(left) != 1 {
		t.Errorf("beside the backup: %v, %v", left, err)
	}
	if r := pinspect(t, "backup", s.dir, "-o", file+"2", "--readable", "--since", file); r.status != 2 {
		t.Errorf("with --since: status %d\n%s", r.status, r.stderr)
	}
}
