package main

import (
	"context"
	"time"

	"github.com/cleavestore/cleave/internal/measure"
)

// benchmark is a loop of operations on documents of a container.
type benchmark struct {
	measure.Loop
	c    container
	docs documents
}

// run warms up and measures, with progress shown. before and after are called
// around what is measured. A cancelled ctx ends it early, with what was
// measured so far.
func (b *benchmark) run(ctx context.Context, env *environment, mem *measure.Memory, before, after func() error) (*measure.Outcome, error) {
	loop := b.Loop
	loop.Store, loop.Documents, loop.Memory = b.c, b.docs, mem
	loop.Before, loop.After = before, after
	var bar *progress
	loop.Watch = func(p measure.Progress) {
		if bar == nil {
			label := "run"
			if p.WarmUp {
				label = "warm up"
			}
			bar = newProgress(env, label, p.Now.Add(-p.Elapsed))
		}
		if p.Done {
			bar.end()
			bar = nil
			return
		}
		bar.show(p.Now, p.Part, func() string {
			return formatCount(p.Operations) + " operations  " + formatCount(int64(float64(p.Operations)/p.Elapsed.Seconds())) + "/s"
		})
	}
	return loop.Run(ctx)
}

// micros returns a duration in microseconds.
func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
