//go:build unix

package cli

import (
	"os"
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
