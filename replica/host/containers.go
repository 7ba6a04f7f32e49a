package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/group"
	"github.com/cleavestore/cleave/replica/raftlog"
)

// A container is in the description of the cluster, or was made while the cluster ran. Of the
// latter the node keeps a list in containers.json, so that it starts without anybody's help.
const (
	containersName  = "containers.json"
	containersTemp  = "containers.json.tmp"
	containersBytes = 16 << 20
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
			if d.Container(t.Name) != nil || h.WasDropped(t.Number<<32) {
				continue // it is in the description meanwhile, or is gone
			}
			if d, err = d.With(t); err != nil {
				return fmt.Errorf("%s: %w", h.fs.Path(containersName), err)
			}
		}
	}
	h.described.Store(d)
	return nil
}

// AddContainer tells the node of a container, which has a number. If its groups begin on this node,
// the node opens their replicas. A container that the node has stays as it is. The list of
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
	} else if known.Number != t.Number || !reflect.DeepEqual(known.PartitionKey, t.PartitionKey) {
		return fmt.Errorf("container %q is there with number %d and key %v: %w", t.Name, known.Number, known.PartitionKey, ErrChange)
	} else if !h.adding[t.Number] {
		return nil
	}
	// Of a container that the store may have the node knows already, and so drops it.
	if _, err := h.db.EnsureContainer(ctx, t.Name, t.Def()); err != nil {
		return fmt.Errorf("container %q: %w", t.Name, err)
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
	var added []cluster.Container
	for _, o := range now.Containers {
		if o.Number >= cluster.FirstNumber {
			added = append(added, o)
		}
	}
	b, err := json.MarshalIndent(added, "", "  ")
	if err != nil {
		return nil, err
	}
	if err = vfs.WriteFileAtomic(h.fs, containersTemp, containersName, append(b, '\n')); err != nil {
		return nil, err
	}
	h.described.Store(now)
	h.adding[t.Number] = true
	return now, nil
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
	for _, g := range h.mine(some) {
		if h.log.Group(g.ID) != nil {
			continue
		}
		if _, err := h.log.Create(g.ID, h.cfg.Node, group.FirstBase(g.Replicas, window)); err != nil && !errors.Is(err, raftlog.ErrRemoved) {
			return err
		}
	}
	return nil
}
