package main

import (
	"bytes"
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/cli"
)

// TestInterruptedAtOnce: a command that is interrupted before it has begun says
// so with its status.
func TestInterruptedAtOnce(t *testing.T) {
	s := newSample(t)
	backup := filepath.Join(t.TempDir(), "backup")
	clean(t, "backup", s.dir, "-o", backup)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, args := range [][]string{
		{"info", s.dir},
		{"tree", s.dir},
		{"partitions", s.dir},
		{"top", s.dir},
		{"hot", s.dir},
		{"map", s.dir},
		{"history", s.dir},
		{"segments", s.dir},
		{"index", s.dir},
		{"wal", s.dir},
		{"get", s.dir, "cities", `"C6"`, "city-0601"},
		{"export", s.dir, "cities"},
		{"export", s.dir, "cities", "-o", filepath.Join(t.TempDir(), "export")},
		{"query", s.dir, "cities", "SELECT * FROM c"},
		{"advise", s.dir, "--container", "cities"},
		{"backup", s.dir, "-o", backup + "2"},
		{"restore", filepath.Join(t.TempDir(), "restored"), backup},
		{"restore", "--check", s.dir, backup},
		{"repair", s.dir, filepath.Join(t.TempDir(), "repaired")},
		{"verify", s.dir},
	} {
		var out, errs bytes.Buffer
		status := execute(ctx, args, &environment{stdin: strings.NewReader(""), stdout: &out, stderr: &errs})
		if status != cli.ExitInterrupted || !strings.Contains(errs.String(), "interrupted") {
			t.Errorf("pinspect %s: status %d, %s", strings.Join(args, " "), status, &errs)
		}
	}
}

// waitingInput interrupts the program when it waits for input that does not come.
type waitingInput struct {
	interrupt func()
	done      chan struct{}
}

func (w waitingInput) Read([]byte) (int, error) {
	w.interrupt()
	<-w.done
	return 0, io.EOF
}

// TestInterruptedInput: a command that waits for its input ends when it is interrupted.
func TestInterruptedInput(t *testing.T) {
	s := newSample(t)
	done := make(chan struct{})
	defer close(done)
	for _, args := range [][]string{
		{"put", s.dir, "cities", "-"},
		{"put", s.dir, "blobs", "--key", `["a",1]`, "--id", "b"},
		{"import", "-", "--db", s.dir, "--container", "cities"},
		{"restore", filepath.Join(t.TempDir(), "restored"), "-"},
		{"advise", "-", "--key", "/country"},
		{"shell", s.dir},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		var out, errs bytes.Buffer
		status := execute(ctx, args, &environment{stdin: waitingInput{cancel, done}, stdout: &out, stderr: &errs})
		if status != cli.ExitInterrupted || !strings.Contains(errs.String(), "interrupted") {
			t.Errorf("pinspect %s: status %d, %s", strings.Join(args, " "), status, &errs)
		}
	}
}
