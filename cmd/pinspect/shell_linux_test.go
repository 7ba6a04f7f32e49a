package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cleavestore/cleave/internal/cli"
)

// terminal returns the two ends of a terminal: what is typed into keys is read from screen.
func terminal(t *testing.T) (keys, screen *os.File) {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("this system gives no terminals: %v", err)
	}
	t.Cleanup(func() { keys.Close() })
	check(t, unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	check(t, err)
	screen, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	check(t, err)
	t.Cleanup(func() { screen.Close() })
	return keys, screen
}

// prompted calls answer when a shell asks for a line.
type prompted struct {
	bytes.Buffer
	answer func()
}

func (p *prompted) Write(text []byte) (int, error) {
	if bytes.HasSuffix(text, []byte("> ")) {
		p.answer()
	}
	return p.Buffer.Write(text)
}

// TestShellEnds: Ctrl-D ends a shell at a terminal, and so does a signal while it waits for a line.
func TestShellEnds(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	const control = "\u009b" // in the name of the container
	clean(t, "create", dir, "c"+control, "--partition-key", "/k")
	for _, tc := range []struct {
		status int
		says   string
		answer func(keys *os.File, interrupt func())
	}{
		{cli.ExitOK, "", func(keys *os.File, _ func()) { _, err := keys.WriteString("\x04"); check(t, err) }},
		{cli.ExitInterrupted, "pinspect: interrupted\n", func(_ *os.File, interrupt func()) { interrupt() }},
	} {
		keys, screen := terminal(t)
		ctx, interrupt := context.WithCancel(t.Context())
		var errs bytes.Buffer
		out := &prompted{answer: func() { tc.answer(keys, interrupt) }}
		if status := execute(ctx, []string{"shell", dir}, &environment{stdin: screen, stdout: out, stderr: &errs}); status != tc.status || errs.String() != tc.says {
			t.Errorf("status %d, %q; want %d, %q", status, &errs, tc.status, tc.says)
		}
		if strings.Contains(out.String(), control) {
			t.Errorf("the name steers the terminal: %q", out.String())
		}
		interrupt()
	}
}

// TestShellWidth: a line that fits the terminal is not broken where a terminal of 80 columns ends.
func TestShellWidth(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	clean(t, "create", dir, "c", "--partition-key", "/k")
	keys, screen := terminal(t)
	check(t, unix.IoctlSetWinsize(int(screen.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 200}))
	line := strings.Repeat("x", 120)
	typed := []string{line + "\r", "\x04"}
	out := &prompted{answer: func() {
		if len(typed) > 0 {
			_, err := keys.WriteString(typed[0])
			check(t, err)
			typed = typed[1:]
		}
	}}
	var errs bytes.Buffer
	if status := execute(t.Context(), []string{"shell", dir}, &environment{stdin: screen, stdout: out, stderr: &errs}); status != cli.ExitOK {
		t.Fatalf("status %d, %s", status, &errs)
	}
	if !strings.Contains(out.String(), line) {
		t.Errorf("the line is broken: %q", out.String())
	}
}
