package cli

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// TestInput: all of the input is read, with its error; a Read that waits ends with the
// context, and no further one begins.
func TestInput(t *testing.T) {
	text := strings.Repeat("0123456789", inputBytes/4)
	for _, in := range []io.Reader{strings.NewReader(text), iotest.HalfReader(strings.NewReader(text)), iotest.DataErrReader(strings.NewReader(text))} {
		if got, err := io.ReadAll(Input(t.Context(), in)); err != nil || string(got) != text {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	}
	broken := errors.New("broken")
	if _, err := io.ReadAll(Input(t.Context(), iotest.ErrReader(broken))); err != broken {
		t.Errorf("a broken input: %v", err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	waits, feed := io.Pipe()
	defer feed.Close()
	in := Input(ctx, waits)
	ended := make(chan error)
	go func() {
		_, err := io.ReadAll(in)
		ended <- err
	}()
	if _, err := io.WriteString(feed, "a"); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	if n, err := in.Read(make([]byte, 1)); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("after the interrupt: %d, %v", n, err)
	}
}
