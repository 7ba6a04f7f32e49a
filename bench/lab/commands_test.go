package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/harness"
)

func TestUsage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		want int
		text string
	}{
		{"splits --splits 0", cli.ExitUsage, "--splits 0"},
		{"splits --every 1ms", cli.ExitUsage, "--every 1ms"},
		{"splits --window 1ms", cli.ExitUsage, "--window 1ms"},
		{"splits --size 10", cli.ExitUsage, "at least 1MiB"},
		{"splits --beside nothing-here", harness.ExitFailed, "nothing-here"},
		{"splits --beside " + file, harness.ExitFailed, "no result of lab splits"},
		{"feed --kills=-1", cli.ExitUsage, "not negative"},
		{"feed --bytes 10", cli.ExitUsage, "64 to 1MiB"},
	} {
		s := newSession(t)
		s.do(t, c.want, strings.Fields(c.args)...)
		wants(t, s.errOut.String(), "lab: ", c.text)
	}
}

func TestHelp(t *testing.T) {
	for _, command := range []string{"", "splits", "cold", "feed", "catchup", "chart peers", "chart split", "chart model"} {
		s := newSession(t)
		s.do(t, cli.ExitOK, strings.Fields(command+" --help")...)
		if command != "" {
			wants(t, s.out.String(), "Examples:", "lab "+command)
		}
		if strings.Contains(s.out.String(), "${") {
			t.Errorf("%s: a variable is left in\n%s", command, &s.out)
		}
	}
}

// TestInterruptedAtOnce: a command that is interrupted before it has begun says
// so with its status.
func TestInterruptedAtOnce(t *testing.T) {
	dir := loaded(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, args := range []string{"splits --size 2MiB", "cold --db " + dir, "feed", "catchup --db " + dir} {
		s := newSession(t)
		if status := s.runContext(ctx, strings.Fields(args)); status != cli.ExitInterrupted || !strings.Contains(s.errOut.String(), "interrupted") {
			t.Errorf("lab %s: status %d, %s", args, status, &s.errOut)
		}
	}
}
