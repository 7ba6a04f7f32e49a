package main

import (
	"context"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
)

// filter narrows what is listed.
type filter struct {
	Container string `placeholder:"NAME" help:"Only this container."`
	Partition uint32 `placeholder:"ID" help:"Only this physical partition."`
}

// picker says which partitions are wanted; nil wants all.
type picker func(*containerLayout, *partitionLayout) bool

func (p picker) wants(c *containerLayout, partition *partitionLayout) bool {
	return p == nil || p(c, partition)
}

// within opens the files of a store and calls show with them and the filter as
// a function.
func (o *filter) within(ctx context.Context, dir string, show func(*files, picker) error) error {
	f, err := openFiles(dir)
	if err != nil {
		return err
	}
	defer f.close()
	pick, err := o.picked(ctx, f)
	if err != nil {
		return err
	}
	return show(f, pick)
}

// picked returns the filter as a function, and an error if it names something
// that the store does not have.
func (o *filter) picked(ctx context.Context, f *files) (picker, error) {
	if o.Container == "" && o.Partition == 0 {
		return nil, nil
	}
	l, err := f.readStructure(ctx)
	if err != nil {
		return nil, err
	}
	container, some := false, false
	pick := func(c *containerLayout, p *partitionLayout) bool {
		return (o.Container == "" || c.Name == o.Container) && (o.Partition == 0 || p.id == o.Partition)
	}
	for _, c := range l.containers {
		container = container || o.Container == "" || c.Name == o.Container
		for _, p := range c.partitions {
			some = some || pick(c, p)
		}
	}
	if !container {
		return nil, cli.Usagef("container %q: %w", o.Container, engine.ErrNoContainer)
	}
	if !some {
		return nil, cli.Usagef("there is no such physical partition: %d", o.Partition)
	}
	return pick, nil
}
