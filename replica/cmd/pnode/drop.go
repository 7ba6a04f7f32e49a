package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/humanize"
	"github.com/cleavestore/cleave/replica/meta"
	"github.com/cleavestore/cleave/replica/topology"
)

type dropCommand struct {
	Dir       string `arg:"" help:"Directory that init has made."`
	Container string `arg:"" help:"Name of the container."`
	Yes       bool   `help:"Do it. Without this flag the command shows what goes and changes nothing."`
	etcdFlags
}

// Run implements the command.
func (c *dropCommand) Run(ctx context.Context, e *environment) error {
	o, p, err := openPicture(ctx, c.Dir, &c.etcdFlags)
	if err != nil {
		return err
	}
	defer o.close()
	number := o.present().NumberOf(c.Container)
	for _, t := range p.Containers {
		if t.Name == c.Container {
			number = t.Number
		}
	}
	begun := slices.ContainsFunc(p.Dropped, func(d meta.Dropped) bool { return d.Name == c.Container && !d.Released })
	if number == 0 && !begun {
		return fmt.Errorf("container %q: %w", c.Container, engine.ErrNoContainer)
	}
	if !c.Yes {
		if begun {
			fmt.Fprintf(e.stdout, "container %q is being dropped. What that waits for is shown by: pnode drop %s %s --yes\n", c.Container, c.Dir, c.Container)
			return nil
		}
		showDrop(e, number, c.Container, statusOf(ctx, o.client, o.d), p.Groups)
		fmt.Fprintf(e.stdout, "Nothing was changed. There is no way back but a backup (pnode backup %s TARGET). To drop it: pnode drop %s %s --yes\n", c.Dir, c.Dir, c.Container)
		return nil
	}
	d, err := o.store.DropContainer(ctx, c.Container, number, number)
	if err != nil {
		return err
	}
	return o.awaitDrop(ctx, e, d)
}

// showDrop says what a container has, by what nodes and the metadata store know of it.
func showDrop(e *environment, number uint64, name string, all []nodeStatus, stored []*topology.Group) {
	groups := make(map[uint64]int64) // bytes, of the replica that has most
	for _, g := range stored {
		if g.ID.Number() == number {
			groups[uint64(g.ID)] = -1 // not known
		}
	}
	for _, s := range all {
		if s.Status == nil {
			continue
		}
		for _, g := range s.Status.Groups {
			if g.ID>>32 == number {
				groups[g.ID] = max(groups[g.ID], g.Bytes)
			}
		}
	}
	bytes, unknown := int64(0), 0
	for _, n := range groups {
		bytes += max(n, 0)
		if n < 0 {
			unknown++
		}
	}
	fmt.Fprintf(e.stdout, "container %q has number %d, and %d groups with %s in each replica of them\n", name, number, len(groups), humanize.Bytes(bytes))
	if unknown > 0 {
		fmt.Fprintf(e.stdout, "What %d of the groups have is not known and not in that: no node that answers has a replica\n", unknown)
	}
}

// awaitDrop waits until the name of a container that was dropped is free, and says what it waits for.
func (o *operator) awaitDrop(ctx context.Context, e *environment, d meta.Dropped) error {
	begun := func(err error) error {
		return &unfinished{fmt.Sprintf("container %q (number %d) is dropped, and its name may stay taken for a while", d.Name, d.Number), err}
	}
	last := ""
	for {
		p, err := o.picture(ctx)
		if err != nil {
			return begun(err)
		}
		var unheard, silent []uint64
		for _, s := range statusOf(ctx, o.client, o.d) {
			switch {
			case s.Status == nil:
				silent = append(silent, s.Node)
			case !slices.Contains(s.Status.Dropped, d.Number):
				unheard = append(unheard, s.Node)
			}
		}
		at := slices.IndexFunc(p.Dropped, func(o meta.Dropped) bool { return o.Number == d.Number })
		if at >= 0 && p.Dropped[at].Released {
			fmt.Fprintf(e.stdout, "container %q (number %d) is dropped, and its name is free\n", d.Name, d.Number)
			if missing := slices.Concat(unheard, silent); len(missing) > 0 {
				slices.Sort(missing)
				fmt.Fprintf(e.stdout, "The nodes %v have not heard of it. They remove what they have of it when they do\n", missing)
			}
			return nil
		}
		line := fmt.Sprintf("container %q (number %d) is dropped. Its name is free when no quorum has it any more", d.Name, d.Number)
		if len(unheard) > 0 {
			line += fmt.Sprintf("; the nodes %v are about to hear of it", unheard)
		}
		if len(silent) > 0 {
			line += fmt.Sprintf("; the nodes %v do not answer", silent)
		}
		if line != last {
			fmt.Fprintln(e.stdout, line)
			last = line
		}
		if err = wait(ctx); err != nil {
			return begun(err)
		}
	}
}
