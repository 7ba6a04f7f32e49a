package layout

import (
	"context"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
)

// Filter narrows what is listed.
type Filter struct {
	Container string `placeholder:"NAME" help:"Only this container."`
	Partition uint32 `placeholder:"ID" help:"Only this physical partition."`
}

// Picker says which partitions are wanted; nil wants all.
type Picker func(*Container, *Partition) bool

// Wants reports whether a partition is wanted.
func (p Picker) Wants(c *Container, partition *Partition) bool {
	return p == nil || p(c, partition)
}

// Within opens the files of a store and calls show with them and the filter as
// a function.
func (o *Filter) Within(ctx context.Context, dir string, show func(*Files, Picker) error) error {
	f, err := Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	pick, err := o.picked(ctx, f)
	if err != nil {
		return err
	}
	return show(f, pick)
}

// picked returns the filter as a function, and an error if it names something
// that the store does not have.
func (o *Filter) picked(ctx context.Context, f *Files) (Picker, error) {
	if o.Container == "" && o.Partition == 0 {
		return nil, nil
	}
	l, err := f.ReadStructure(ctx)
	if err != nil {
		return nil, err
	}
	container, some := false, false
	pick := func(c *Container, p *Partition) bool {
		return (o.Container == "" || c.Name == o.Container) && (o.Partition == 0 || p.ID == o.Partition)
	}
	for _, c := range l.Containers {
		container = container || o.Container == "" || c.Name == o.Container
		for _, p := range c.Partitions {
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
