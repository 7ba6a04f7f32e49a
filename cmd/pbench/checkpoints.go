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

// checkpoint is one that was made.
type checkpoint struct {
	took    time.Duration // all of it
	logSync time.Duration // of that, the sync of the log, which the disk and what was written decide
}

// copier makes checkpoints of a store, one after the other in the same place,
// and times them.
type copier struct {
	s     store
	dir   string        // of the checkpoints
	every time.Duration // 0: none

	cancel context.CancelFunc
	wg     sync.WaitGroup
	made   []checkpoint
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
	Count   int                 `json:"count"`
	Took    checkpointDurations `json:"took"`     // all of it
	LogSync checkpointDurations `json:"log_sync"` // the sync of the log
	Rest    checkpointDurations `json:"rest"`     // all but that
}

// checkpointDurations are those of one part of each checkpoint.
type checkpointDurations struct {
	P50  float64   `json:"p50_us"`
	Max  float64   `json:"max_us"`
	Each []float64 `json:"each_us"` // in their order
}

func newCheckpointDurations(made []checkpoint, part func(checkpoint) time.Duration) (d checkpointDurations) {
	for _, c := range made {
		d.Each = append(d.Each, round(micros(part(c)), 1))
	}
	sorted := slices.Sorted(slices.Values(d.Each))
	d.P50, d.Max = sorted[len(sorted)/2], sorted[len(sorted)-1]
	return d
}

// newCheckpointFigures returns nil where there is nothing to tell.
func newCheckpointFigures(made []checkpoint) *checkpointFigures {
	if len(made) == 0 {
		return nil
	}
	return &checkpointFigures{
		Count:   len(made),
		Took:    newCheckpointDurations(made, func(c checkpoint) time.Duration { return c.took }),
		LogSync: newCheckpointDurations(made, func(c checkpoint) time.Duration { return c.logSync }),
		Rest:    newCheckpointDurations(made, func(c checkpoint) time.Duration { return c.took - c.logSync }),
	}
}

// print writes the figures as a line.
func (f *checkpointFigures) print(w io.Writer) {
	if f != nil {
		fmt.Fprintf(w, "  copied   %s: %s ms (p50), %s ms (max); without the sync of the log %s and %s, that alone %s and %s\n", plural(f.Count, "checkpoint"),
			formatMillis(f.Took.P50), formatMillis(f.Took.Max), formatMillis(f.Rest.P50), formatMillis(f.Rest.Max), formatMillis(f.LogSync.P50), formatMillis(f.LogSync.Max))
	}
}

// checkpointDir is where checkpoints of a store are made, while a run makes some: on
// the same file system.
func checkpointDir(db string) string { return filepath.Clean(db) + ".checkpoint" }

// checkCheckpoints refuses a place for checkpoints that is taken.
func checkCheckpoints(dir string) error {
	if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
		return usagef("--checkpoint-every makes its checkpoints in %s, which exists", dir)
	}
	return nil
}
