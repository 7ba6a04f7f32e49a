//go:build unix

package cli

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
)

// TestInterruptible: each of the signals ends the context, not the program.
func TestInterruptible(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE} {
		if s == syscall.SIGHUP && signal.Ignored(s) {
			continue // under nohup it stays ignored
		}
		ctx := Interruptible(syscall.SIGPIPE)
		if err := syscall.Kill(os.Getpid(), s); err != nil {
			t.Fatal(err)
		}
		<-ctx.Done()
	}
}

// TestBrokenPipe: a program that is told when nobody reads its output any more comes to its end, also if it goes on to write.
func TestBrokenPipe(t *testing.T) {
	const child, end = "CLEAVE_TEST_BROKEN_PIPE", 7
	if os.Getenv(child) != "" {
		ctx := Interruptible(syscall.SIGPIPE)
		for ctx.Err() == nil {
			_, _ = os.Stdout.WriteString("nobody reads this")
		}
		for range 20_000 { // the context lets go of its signals meanwhile
			_, _ = os.Stdout.WriteString("nor this")
		}
		os.Exit(end)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err = errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestBrokenPipe$")
	cmd.Env, cmd.Stdout = append(os.Environ(), child+"=yes"), w
	if err = cmd.Run(); cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != end {
		t.Error(err)
	}
}
