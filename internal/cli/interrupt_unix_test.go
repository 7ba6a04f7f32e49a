//go:build unix

package cli

import (
	"os"
	"syscall"
	"testing"
)

// TestInterruptible: each of the signals ends the context, not the program.
func TestInterruptible(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE} {
		ctx := Interruptible(syscall.SIGPIPE)
		if err := syscall.Kill(os.Getpid(), s); err != nil {
			t.Fatal(err)
		}
		<-ctx.Done()
	}
}
