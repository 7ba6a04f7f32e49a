package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cleavestore/cleave/internal/humanize"
	"github.com/cleavestore/cleave/internal/measure"
)

// LoadResult tells what a load did.
type LoadResult struct {
	Position  int64 // in the input, behind what was skipped: all before it is durable or refused
	Documents int64 // written
	Refused   int64
	Bytes     int64 // of the documents
	Elapsed   time.Duration
	Settled   time.Duration
}

// Load writes an input to a container.
func Load(ctx context.Context, env *Environment, c Container, in *Input, batchBytes, maxErrors int64, mem *measure.Memory, splits *SplitLog) (r LoadResult, err error) {
	start := time.Now()
	bar := NewProgress(env, "load", start)
	defer bar.End()
	defer func() { r.Elapsed = time.Since(start) }()
	show := func(documents, bytes int64) {
		now := time.Now()
		bar.Show(now, in.part(), func() string {
			mem.Sample()
			seconds := now.Sub(start).Seconds()
			n, size := r.Documents+documents, r.Bytes+bytes
			return fmt.Sprintf("%s  %s  %s/s  %s/s%s", Plural(n, "document"), humanize.Bytes(size),
				humanize.Count(int64(float64(n)/seconds)), humanize.Bytes(float64(size)/seconds), splits.live())
		})
	}
	for {
		n, bytes, err := c.Load(ctx, in.Docs, LoadOptions{batchBytes: batchBytes, Progress: show})
		r.Position += n
		r.Documents += n
		r.Bytes += bytes
		var bad *InputError
		if !errors.As(err, &bad) {
			return r, err
		}
		if r.Refused == maxErrors {
			return r, &RefusedError{in.refused(bad.Err)}
		}
		r.Refused++
		r.Position++
		bar.End()
		env.Notef("refused: %v", in.refused(bad.Err))
	}
}

// WithClose adds to an error what closing the store said, unless that is nothing
// new.
func WithClose(err, closeErr error) error {
	if errors.Is(err, closeErr) || errors.Is(err, ErrDiskFull) && errors.Is(closeErr, ErrDiskFull) {
		return err
	}
	return errors.Join(err, closeErr)
}

// WasOrWere returns "1 document was" or "2 documents were".
func WasOrWere(documents int64) string {
	if documents == 1 {
		return "1 document was"
	}
	return humanize.Count(documents) + " documents were"
}

// RefusedError ends a load at a document, which another attempt would meet again.
type RefusedError struct{ error }

// Unwrap returns why.
func (e *RefusedError) Unwrap() error { return e.error }

// Settle waits for flushes, compactions and splits.
func (r *LoadResult) Settle(ctx context.Context, env *Environment, s Store, mem *measure.Memory, splits *SplitLog) error {
	start := time.Now()
	bar := NewProgress(env, "settle", start)
	defer bar.End()
	err := measure.WhileWaiting(func() error { return s.Settle(ctx) }, func(now time.Time) {
		mem.Sample()
		bar.Show(now, -1, func() string { return "flush and compact" + splits.live() })
	})
	r.Settled = time.Since(start)
	if ctx.Err() != nil {
		return ErrInterrupted
	}
	return err
}

// Print writes the result as lines.
func (r *LoadResult) Print(w io.Writer, about string, partitions int) {
	seconds := max(r.Elapsed.Seconds(), 1e-9)
	fmt.Fprintf(w, "%s into %s\n", about, Plural(partitions, "physical partition"))
	fmt.Fprintf(w, "  loaded   %s, %s in %s s: %s, %s/s", Plural(r.Documents, "document"), humanize.Bytes(r.Bytes),
		humanize.Number(seconds), FormatRate(float64(r.Documents)/seconds), humanize.Bytes(float64(r.Bytes)/seconds))
	if r.Settled > 0 {
		fmt.Fprintf(w, "; settled in %s s more", humanize.Number(r.Settled.Seconds()))
	}
	fmt.Fprintln(w)
	if r.Refused > 0 {
		fmt.Fprintf(w, "  refused  %s\n", Plural(r.Refused, "document"))
	}
}
