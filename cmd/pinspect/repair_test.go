package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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
