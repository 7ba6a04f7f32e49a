package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/group"
	"github.com/cleavestore/cleave/replica/raftlog"
)

// A container is in the description of the cluster, or was made while the cluster ran. Of the
// latter, and of those whose definition was changed, the node keeps a list in containers.json, so that it starts without
// anybody's help.
const (
	containersName  = "containers.json"
	containersTemp  = "containers.json.tmp"
	containersBytes = 1 << 30 // what is written must be read again
)

// description returns the description of the cluster, with the containers that this node was told of.
func (h *Host) description() *cluster.Cluster { return h.described.Load() }

// loadContainers takes in the containers of which the node was told before.
func (h *Host) loadContainers() error {
	if err := h.loadDropped(); err != nil {
		return err
	}
	d := h.cfg.Cluster.Without(slices.Collect(maps.Keys(*h.dropped.Load()))...)
	b, err := vfs.ReadFile(h.fs, containersName, containersBytes)
	switch {
	case errors.Is(err, fault.ErrMissing):
	case err != nil:
		return err
	default:
		var all []cluster.Container
		if err = json.Unmarshal(b, &all); err != nil {
			return fmt.Errorf("%s: %w: %w", h.fs.Path(containersName), engine.ErrCorrupt, err)
		}
		for _, t := range all {
			n := d.NumberOf(t.Name)
			if n != 0 && n != t.Number || n == 0 && t.Number < cluster.FirstNumber || h.WasDropped(t.Number<<32) {
				continue // another one of the name is in the description meanwhile, or it is gone
			}
			if d, err = d.Newest(t); err != nil {
				return fmt.Errorf("%s: %w", h.fs.Path(containersName), err)
			}
		}
	}
	h.described.Store(d)
	return nil
}

// AddContainer tells the node of a container, which has a number. If its groups begin on this node,
// the node opens their replicas. Of a container that the node has, a newer revision of the index policy is
// put into use, and all else stays as it is. The list of
// containers is durable before the first replica is. One that was dropped is ignored. Errors:
// cluster.ErrDescription for a container that does not fit, ErrChange for one that is there with
// another definition, or while another one of the name is being dropped. After another error a later call goes on.
func (h *Host) AddContainer(ctx context.Context, t cluster.Container) error {
	h.joining.Lock()
	defer h.joining.Unlock()
	if h.closing.Load() {
		return ErrClosed
	}
	for number, d := range *h.dropped.Load() {
		switch {
		case number == t.Number:
			return nil
		case d.Pending && d.Name == t.Name:
			return fmt.Errorf("container %q: that of before, number %d, is being dropped: %w", t.Name, number, ErrChange)
		}
	}
	now := h.description()
	if known := now.Container(t.Name); known == nil {
		var err error
		if now, err = h.takeContainer(now, t); err != nil {
			return err
		}
	} else if number := now.NumberOf(t.Name); number != t.Number || !known.Fixed(&t) {
		return fmt.Errorf("container %q is there with number %d, key %v, unique keys %v and default_ttl %d: %w",
			t.Name, number, known.PartitionKey, known.UniqueKeys, known.DefaultTTL, ErrChange)
	} else if t.Revision > known.Revision {
		var err error
		if now, err = h.redefine(ctx, now, t); err != nil {
			return err
		}
	}
	if !h.adding[t.Number] {
		return nil
	}
	// Of a container that the store may have the node knows already, and so drops it.
	if err := h.ensure(ctx, now.Container(t.Name)); err != nil {
		return err
	}
	if err := h.beginGroups(ctx, now, t.Name); err != nil {
		return err
	}
	delete(h.adding, t.Number)
	return nil
}

// takeContainer takes a container in, without its place in the store and its groups.
func (h *Host) takeContainer(before *cluster.Cluster, t cluster.Container) (*cluster.Cluster, error) {
	if t.Number < cluster.FirstNumber {
		return nil, fmt.Errorf("container %q: %w: number %d is below %d", t.Name, cluster.ErrDescription, t.Number, cluster.FirstNumber)
	}
	now, err := before.With(t)
	if err != nil {
		return nil, err
	}
	if err = h.noteContainers(now); err != nil {
		return nil, err
	}
	h.described.Store(now)
	h.adding[t.Number] = true
	return now, nil
}

// noteContainers makes the list of containers.json durable.
func (h *Host) noteContainers(d *cluster.Cluster) error {
	b, err := json.MarshalIndent(d.Later(), "", "  ")
	if err != nil {
		return err
	}
	return vfs.WriteFileAtomic(h.fs, containersTemp, containersName, append(b, '\n'))
}

// beginGroups makes and opens those groups of a container that begin on this node. It goes on with what an earlier call
// has left.
func (h *Host) beginGroups(ctx context.Context, now *cluster.Cluster, container string) error {
	if err := h.createLogs(now.GroupsOf(container)); err != nil {
		return err
	}
	var all []*replica
	for _, g := range now.GroupsOf(container) {
		if h.log.Group(g.ID) == nil || h.replicas.get(g.ID) != nil {
			continue
		}
		r, err := h.openReplica(ctx, g, nil)
		if err != nil {
			return err
		}
		all = append(all, r)
	}
	if err := h.replicas.add(all...); err != nil {
		return err
	}
	return h.evictStrangers(ctx, container)
}

// CreateEverywhere makes a container in the whole cluster, as Config.Create does. Error: ErrChange, if the
// cluster has no metadata store; those of Config.Create.
func (h *Host) CreateEverywhere(ctx context.Context, t cluster.Container) error {
	if h.cfg.Create == nil {
		return fmt.Errorf("container %q: the cluster has no metadata store, so it has the containers of its description: %w", t.Name, ErrChange)
	}
	return h.cfg.Create(ctx, t)
}

// createLogs makes the logs of those of some groups that begin on this node. The manifest of
// the log names each group that this node has or has had, so one that it does not name is new here.
func (h *Host) createLogs(some []cluster.Group) error {
	var firsts []raftlog.First
	for _, g := range h.mine(some) {
		firsts = append(firsts, raftlog.First{Group: g.ID, Replica: h.cfg.Node, Base: group.FirstBase(g.Replicas, window)})
	}
	return h.log.CreateAll(firsts)
}
