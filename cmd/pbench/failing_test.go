package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/harness"
)

var errNoSpace = errors.New("no space left")

// fullOutput takes no bytes.
type fullOutput struct{}

func (fullOutput) Write([]byte) (int, error) { return 0, errNoSpace }

// TestOutputFull: a command whose output cannot be written has failed, and says
// so once.
func TestOutputFull(t *testing.T) {
	dir := t.TempDir()
	s := newSession(t)
	s.do(t, 0, "load", "--db", dir, "--docs", "100")
	for _, args := range [][]string{
		{"list"},
		{"load", "--db", dir, "--docs", "100"},
		{"load", "--db", dir, "--docs", "100", "--json", "-"},
		{"run", "--db", dir, "--ops", "100", "--warmup", "0s", "--closed"},
	} {
		s.errOut.Reset()
		env := s.Environment
		env.Stdout = fullOutput{}
		if status := execute(t.Context(), args, &env); status != harness.ExitFailed || strings.Count(s.errOut.String(), errNoSpace.Error()) != 1 {
			t.Errorf("pbench %v: status %d, %s", args, status, &s.errOut)
		}
	}
}
