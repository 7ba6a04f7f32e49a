package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/group"
	"github.com/cleavestore/cleave/replica/topology"
)

// CreateContainer makes a container of the cluster with a name, a key, partitions, an index policy and a default time to live, on the nodes of the main region
// that hold a lease and are not drained. It is a host.Config.Create. Errors: engine.ErrExists if there is one with
// the name, or one is being dropped; engine.ErrInvalid for one that cannot be; group.ErrBusy if there are too
// few nodes now; those of the metadata store.
func (a *Agent) CreateContainer(ctx context.Context, t cluster.Container) error {
	d := a.cfg.Host.Cluster()
	if d.Container(t.Name) != nil {
		return fmt.Errorf("container %q: %w", t.Name, engine.ErrExists)
	}
	if err := cluster.CheckIndex(t.Index); err != nil {
		return fmt.Errorf("%w: container %q: %w", engine.ErrInvalid, t.Name, err)
	}
	if t.Replicas = d.Replicas; t.Replicas == 0 {
		t.Replicas = min(3, len(d.Nodes))
	}
	a.mu.Lock()
	for id, n := range a.mu.nodes {
		if n.Region == d.MainRegion() && !a.mu.drains[id] {
			t.Nodes = append(t.Nodes, uint64(id))
		}
	}
	a.mu.Unlock()
	slices.Sort(t.Nodes)
	if len(t.Nodes) < t.Replicas {
		return fmt.Errorf("container %q is to have %d replicas, and %d nodes hold a lease: %w", t.Name, t.Replicas, len(t.Nodes), group.ErrBusy)
	}
	if _, err := d.With(t); err != nil {
		return errors.Join(engine.ErrInvalid, err)
	}
	_, err := a.cfg.Store.CreateContainer(ctx, t)
	return err
}

// Claim has a group be the only one that may ever split off group right. It is a host.Config.Claim. Errors: those of
// meta.Store.Claim.
func (a *Agent) Claim(ctx context.Context, left, right uint64) error {
	return a.cfg.Store.Claim(ctx, topology.GroupID(left), topology.GroupID(right))
}

// SetIndexPolicy changes the index policy of a container of the cluster. It is a host.Config.Redefine. Errors:
// engine.ErrNoContainer; engine.ErrInvalid for a policy that cannot be; those of the metadata store.
func (a *Agent) SetIndexPolicy(ctx context.Context, name string, index engine.IndexPolicy) error {
	if err := cluster.CheckIndex(index); err != nil {
		return fmt.Errorf("%w: container %q: %w", engine.ErrInvalid, name, err)
	}
	t, err := a.cfg.Store.SetIndexPolicy(ctx, name, a.described(name), index)
	return a.changed(ctx, t, err)
}

// SetDefaultTTL changes the default time to live of a container of the cluster, in seconds. It is a host.Config.Retime. Errors:
// engine.ErrNoContainer; engine.ErrInvalid for a default that cannot be, or cannot be changed; those of the metadata store.
func (a *Agent) SetDefaultTTL(ctx context.Context, name string, seconds int64) error {
	t, err := a.cfg.Store.SetDefaultTTL(ctx, name, a.described(name), seconds)
	return a.changed(ctx, t, err)
}

// changed tells this node of a change in the metadata store before its caller has the answer, so that a caller who asks for the
// definition next gets the new one. If the node cannot take it in, followContainers tells it again.
func (a *Agent) changed(ctx context.Context, t cluster.Container, err error) error {
	if err == nil {
		_ = a.cfg.Host.AddContainer(ctx, t)
	}
	return err
}

// described returns a container with its number as the node knows it, nil if it knows none.
func (a *Agent) described(name string) *cluster.Container {
	d := a.cfg.Host.Cluster()
	known := d.Container(name)
	if known == nil {
		return nil
	}
	t := *known
	t.Number = d.NumberOf(name)
	return &t
}
