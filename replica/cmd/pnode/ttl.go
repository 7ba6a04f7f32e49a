package main

import (
	"context"
	"fmt"
)

type ttlCommand struct {
	Dir       string `arg:"" help:"Directory that init has made."`
	Container string `arg:"" help:"Name of the container."`
	Seconds   int64  `arg:"" help:"Seconds that items live after their last write that do not say it; 0: no item expires; -- -1: only items with a time of their own do."`
}

// Run implements the command.
func (c *ttlCommand) Run(ctx context.Context, e *environment) error {
	cl, _, err := openClient(c.Dir)
	if err != nil {
		return err
	}
	defer cl.Close()
	if err = cl.SetDefaultTTL(ctx, c.Container, c.Seconds); err != nil {
		return err
	}
	fmt.Fprintf(e.stdout, "container %q has the default time to live %d. Its groups follow within moments; what has expired until then does not come back\n", c.Container, c.Seconds)
	return nil
}
