package memtable

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestMutantIsCaught runs TestConcurrent over publication without
// synchronisation: the race detector must find it, which proves that it sees
// the arenas.
func TestMutantIsCaught(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a test binary with the race detector")
	}
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go tool")
	}
	// A program of the standard library shows whether race mode builds here.
	if out, err := exec.Command(goTool, "build", "-race", "-o", os.DevNull, "internal/goversion").CombinedOutput(); err != nil {
		t.Skipf("no race mode: %s", bytes.TrimSpace(out))
	}
	cmd := exec.Command(goTool, "test", "-race", "-tags", "cleave_mutant_memtable", "-count=1", "-short",
		"-run", "^TestConcurrent$", ".")
	cmd.Env = append(os.Environ(), "GORACE=halt_on_error=1")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "DATA RACE") {
		t.Fatalf("the race detector missed unsynchronised publication (%v):\n%s", err, out)
	}
}
