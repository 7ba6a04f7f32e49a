package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/cli"
)

// TestShell answers lines that are not typed.
func TestShell(t *testing.T) {
	s := newSample(t)
	status, stdout, stderr := runInput(t, `
use cities
SELECT VALUE COUNT(1) FROM c WHERE c.country = 'C1';
EXPLAIN SELECT c.id FROM c WHERE c.id = 'city-0601'
get cities "C6" city-0601
help
quit
top
`, "shell", s.dir)
	if status != 0 {
		t.Fatalf("status %d: %s%s", status, stdout, stderr)
	}
	for _, want := range []string{"city-0601", s.cities["city-0601"], "EXPLAIN"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is not in\n%s", want, stdout)
		}
	}
	for input, want := range map[string]string{
		"use none\nSELECT * FROM c": "none",
		"frobnicate":                "unknown command",
		"get cities 'x":             "not closed",
	} {
		if status, _, stderr := runInput(t, input, "shell", s.dir); status == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%q: status %d, %q lacks %q", input, status, stderr, want)
		}
	}
}

// interrupting is an output that interrupts the program when something is written to it.
type interrupting func()

func (interrupt interrupting) Write(p []byte) (int, error) {
	interrupt()
	return len(p), nil
}

// TestShellStatus: a shell that a line has ended has the status of that line, which says once what was wrong.
func TestShellStatus(t *testing.T) {
	s := newSample(t)
	for _, tc := range []struct {
		input, says string
		status      int
	}{
		{"frobnicate", "unknown command", cli.ExitUsage},
		{"get cities 'x", "not closed", cli.ExitUsage},
		{"top --container none", "no such container", cli.ExitUsage},
		{`get cities '"C6"' none`, "has no document", exitFindings},
		{"help\ninfo\n", "interrupted", cli.ExitInterrupted}, // help writes at once, other commands at their end
	} {
		ctx, cancel := context.WithCancel(t.Context())
		var errs bytes.Buffer
		status := execute(ctx, []string{"shell", s.dir}, &environment{stdin: strings.NewReader(tc.input), stdout: interrupting(cancel), stderr: &errs})
		if cancel(); status != tc.status || strings.Count(errs.String(), tc.says) != 1 {
			t.Errorf("%q: status %d, %s", tc.input, status, &errs)
		}
	}
}

// TestShellPut: where the input of a shell is no terminal, put without a document takes the lines behind its own.
func TestShellPut(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	clean(t, "create", dir, "c", "--partition-key", "/k")
	status, stdout, stderr := runInput(t, "info\nput c\n"+`{"id":"a","k":1}`+"\n"+`{"id":"b","k":2}`, "shell", dir)
	if status != 0 || !strings.Contains(stdout, "2 documents written") {
		t.Errorf("status %d: %s%s", status, stdout, stderr)
	}
	if got := clean(t, "export", dir, "c"); strings.Count(got, "\n") != 2 {
		t.Errorf("the container has %s", got)
	}
	if status, _, stderr := runInput(t, strings.Repeat("x", maxShellLine+1), "shell", dir); status != cli.ExitUsage || !strings.Contains(stderr, "longer than 1.00 MiB") {
		t.Errorf("a long line: status %d: %.200s", status, stderr)
	}
}

// TestShellQuotes: a document with quotes in a text is put as it was typed.
func TestShellQuotes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	clean(t, "create", dir, "c", "--partition-key", "/k")
	const doc = `{"id":"a","k":"x","t":"say \"'it'\" now"}`
	if status, stdout, stderr := runInput(t, "put c "+doc, "shell", dir); status != 0 {
		t.Fatalf("status %d: %s%s", status, stdout, stderr)
	}
	if got := clean(t, "get", dir, "c", `"x"`, "a"); got != doc+"\n" {
		t.Errorf("%s, typed was %s", got, doc)
	}
}

// TestShellDashes: a store and a container whose names look like flags have a shell too.
func TestShellDashes(t *testing.T) {
	t.Chdir(t.TempDir())
	clean(t, "create", "--partition-key", "/k", "--", "-store", "-c")
	clean(t, "put", "--", "-store", "-c", `{"id":"a","k":1}`)
	const lines = "info\nuse -c\nSELECT VALUE COUNT(1) FROM c\nEXPLAIN SELECT VALUE c.id FROM c\n"
	status, stdout, stderr := runInput(t, lines, "shell", "--", "-store")
	if status != 0 || !strings.Contains(stdout, "\n1\n") || !strings.Contains(stdout, `"a"`) {
		t.Errorf("status %d: %s%s", status, stdout, stderr)
	}
}
