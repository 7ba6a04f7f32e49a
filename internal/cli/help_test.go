package cli

import (
	"errors"
	"io"
	"testing"

	"github.com/alecthomas/kong"
)

// TestHelpNotWritten: help that cannot be written is no wrong usage.
func TestHelpNotWritten(t *testing.T) {
	closed, out := io.Pipe()
	closed.CloseWithError(io.ErrShortWrite)
	err := Run("program", &struct{}{}, []string{"--help"}, kong.Writers(out, io.Discard))
	if !errors.Is(err, io.ErrShortWrite) || errors.As(err, new(*UsageError)) {
		t.Errorf("%v (%T)", err, err)
	}
}
