package cli

import (
	"context"
	"io"
)

// inputBytes is how much a Read of an Input asks for at most.
const inputBytes = 64 << 10

// Input returns a reader of in whose Read ends when ctx does, also while it waits for a pipe
// or a terminal. That Read and later ones return the error of ctx. The reader
// serves one goroutine; in must not be read beside it, nor after ctx has ended.
func Input(ctx context.Context, in io.Reader) io.Reader {
	return &input{ctx: ctx, in: in, done: make(chan read, 1)}
}

type input struct {
	ctx  context.Context
	in   io.Reader
	buf  []byte
	done chan read // has room for the Read that nobody waits for any more
}

type read struct {
	n   int
	err error
}

// Read implements io.Reader.
func (i *input) Read(p []byte) (int, error) {
	if err := i.ctx.Err(); err != nil {
		return 0, err
	}
	if i.buf == nil {
		i.buf = make([]byte, inputBytes)
	}
	into := i.buf[:min(len(p), len(i.buf))]
	go func() {
		n, err := i.in.Read(into)
		i.done <- read{n, err}
	}()
	select {
	case r := <-i.done:
		return copy(p, into[:r.n]), r.err
	case <-i.ctx.Done():
		return 0, i.ctx.Err()
	}
}
