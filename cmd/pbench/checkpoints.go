package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// copier makes checkpoints of a store, one after the other in the same place,
// and times them.
type copier struct {
	s     store
	dir   string        // of the checkpoints
	every time.Duration // 0: none

	cancel context.CancelFunc
	wg     sync.WaitGroup
	took   []time.Duration
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
	start := time.Now()
	if err := c.s.Checkpoint(ctx, c.dir); err != nil {
		return fmt.Errorf("--checkpoint-every: %w", err)
	}
	c.took = append(c.took, time.Since(start))
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
	Count int       `json:"count"`
	P50   float64   `json:"p50_us"`
	Max   float64   `json:"max_us"`
	Took  []float64 `json:"took_us"` // each, in their order
}

// newCheckpointFigures returns nil where there is nothing to tell.
func newCheckpointFigures(took []time.Duration) *checkpointFigures {
	if len(took) == 0 {
		return nil
	}
	f := &checkpointFigures{Count: len(took)}
	for _, d := range took {
		f.Took = append(f.Took, round(micros(d), 1))
	}
	sorted := slices.Sorted(slices.Values(f.Took))
	f.P50, f.Max = sorted[len(sorted)/2], sorted[len(sorted)-1]
	return f
}

// print writes the figures as a line.
func (f *checkpointFigures) print(w io.Writer) {
	if f != nil {
		fmt.Fprintf(w, "  copied   %s: %s ms (p50), %s ms (max)\n", plural(f.Count, "checkpoint"), formatMillis(f.P50), formatMillis(f.Max))
	}
}

// checkpointDir is where checkpoints of a store are made: on the same file system.
func checkpointDir(db string) string { return filepath.Clean(db) + ".checkpoint" }

// checkCheckpoints refuses a place for checkpoints that is taken.
func checkCheckpoints(dir string) error {
	if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
		return usagef("--checkpoint-every makes its checkpoints in %s, which exists", dir)
	}
	return nil
}
