package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/cleavestore/cleave/internal/harness"
)

// copier makes checkpoints of a store, one after the other in the same place,
// and times them.
type copier struct {
	s     harness.Store
	dir   string        // of the checkpoints
	every time.Duration // 0: none

	cancel context.CancelFunc
	wg     sync.WaitGroup
	made   []harness.Checkpoint
	err    error // the first: it ends them
}

// start begins.
func (c *copier) start(ctx context.Context) {
	if c.every == 0 {
		return
	}
	ctx, c.cancel = context.WithCancel(ctx)
	ticker := time.NewTicker(c.every)
	c.wg.Go(func() {
		defer ticker.Stop()
		for c.err == nil {
			select {
			case <-ticker.C:
				// One that has begun is waited for.
				c.err = c.copy(context.WithoutCancel(ctx))
			case <-ctx.Done():
				return
			}
		}
	})
}

func (c *copier) copy(ctx context.Context) error {
	made, err := c.s.Checkpoint(ctx, c.dir)
	if err != nil {
		return fmt.Errorf("--checkpoint-every: %w", err)
	}
	c.made = append(c.made, made)
	return os.RemoveAll(c.dir)
}

// stop ends it and returns the error that did so before. It may be called again.
func (c *copier) stop() error {
	if c.cancel == nil {
		return nil
	}
	c.cancel()
	c.wg.Wait()
	return c.err
}

// checkpointFigures describe the checkpoints during a run; times are in
// microseconds.
type checkpointFigures struct {
	Count   int       `json:"count"`
	Took    durations `json:"took"`     // all of it
	LogSync durations `json:"log_sync"` // the sync of the log
	Rest    durations `json:"rest"`     // all but that
}

// durations are those of something that was done several times.
type durations struct {
	P50  float64   `json:"p50_us"`
	Max  float64   `json:"max_us"`
	Each []float64 `json:"each_us"` // in their order
}

// newDurations describes durations, of which there is one at least.
func newDurations(each []time.Duration) (d durations) {
	for _, took := range each {
		d.Each = append(d.Each, harness.Round(harness.Micros(took), 1))
	}
	d.P50, d.Max = harness.Round(harness.Median(slices.Clone(d.Each)), 1), slices.Max(d.Each)
	return d
}

// newCheckpointDurations describes one part of each checkpoint.
func newCheckpointDurations(made []harness.Checkpoint, part func(harness.Checkpoint) time.Duration) durations {
	var each []time.Duration
	for _, c := range made {
		each = append(each, part(c))
	}
	return newDurations(each)
}

// newCheckpointFigures returns nil where there is nothing to tell.
func newCheckpointFigures(made []harness.Checkpoint) *checkpointFigures {
	if len(made) == 0 {
		return nil
	}
	return &checkpointFigures{
		Count:   len(made),
		Took:    newCheckpointDurations(made, func(c harness.Checkpoint) time.Duration { return c.Took }),
		LogSync: newCheckpointDurations(made, func(c harness.Checkpoint) time.Duration { return c.LogSync }),
		Rest:    newCheckpointDurations(made, func(c harness.Checkpoint) time.Duration { return c.Took - c.LogSync }),
	}
}

// print writes the figures as a line.
func (f *checkpointFigures) print(w io.Writer) {
	if f != nil {
		fmt.Fprintf(w, "  copied   %s: %s ms (p50), %s ms (max); without the sync of the log %s and %s, that alone %s and %s\n", harness.Plural(f.Count, "checkpoint"),
			harness.FormatMillis(f.Took.P50), harness.FormatMillis(f.Took.Max), harness.FormatMillis(f.Rest.P50), harness.FormatMillis(f.Rest.Max), harness.FormatMillis(f.LogSync.P50), harness.FormatMillis(f.LogSync.Max))
	}
}
