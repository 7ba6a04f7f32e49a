package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cleavestore/cleave/internal/harness"
)

// cutter splits the largest partition of a container at given times.
type cutter struct {
	c  harness.Container
	at []time.Duration // since start

	cancel context.CancelFunc
	wg     sync.WaitGroup
	err    error // the first
}

// start begins to wait for the times.
func (c *cutter) start(ctx context.Context) {
	if len(c.at) == 0 {
		return
	}
	ctx, c.cancel = context.WithCancel(ctx)
	begun := time.Now()
	c.wg.Go(func() {
		for _, at := range slices.Sorted(slices.Values(c.at)) {
			timer := time.NewTimer(at - time.Since(begun))
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return
			}
			// A split that has begun is waited for.
			if err := c.c.Split(context.WithoutCancel(ctx)); err != nil {
				c.err = errors.Join(c.err, fmt.Errorf("--split-at %v: %w", at, err))
			}
		}
	})
}

// stop ends the waiting and returns the errors of splits. It may be called
// again.
func (c *cutter) stop() error {
	if c.cancel == nil {
		return nil
	}
	c.cancel()
	c.wg.Wait()
	return c.err
}
