package agent

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/cleavestore/cleave/replica/host"
	"github.com/cleavestore/cleave/replica/meta"
	"github.com/cleavestore/cleave/replica/placement"
	"github.com/cleavestore/cleave/replica/topology"
)

// followDropped has the host drop what was dropped. A store that has begun anew, after a promotion,
// learns of earlier drops from the nodes.
func (a *Agent) followDropped(ctx context.Context) error {
	all, err := a.cfg.Store.Dropped(ctx)
	if err != nil {
		return err
	}
	for _, d := range a.cfg.Host.Dropped() {
		if !slices.ContainsFunc(all, func(o meta.Dropped) bool { return o.Number == d.Number }) {
			if err = a.cfg.Store.NoteDropped(ctx, meta.Dropped{Number: d.Number, Name: d.Name}); err != nil {
				return err
			}
		}
	}
	return a.cfg.Store.FollowDropped(ctx, func(d meta.Dropped) error {
		a.mu.Lock()
		a.mu.dropped[d.Number] = d
		a.mu.Unlock()
		return a.cfg.Host.DropContainer(ctx, d.Number, d.Name)
	})
}

// release frees the names of containers that were dropped and that no quorum has any more, by what the
// nodes have answered, and has the planner forget their groups.
func (a *Agent) release(ctx context.Context, p *placement.Planner, forgotten map[uint64]bool, heard map[topology.NodeID]*host.Status) error {
	a.mu.Lock()
	var held []meta.Dropped
	for _, d := range a.mu.dropped {
		if !forgotten[d.Number] {
			forgotten[d.Number] = true
			p.ForgetContainer(d.Number)
		}
		if !d.Released {
			held = append(held, d)
		}
	}
	a.mu.Unlock()
	for _, d := range held {
		if !a.ended(d, heard) {
			continue
		}
		if err := a.cfg.Store.Release(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

// ended reports whether no replica of a container that was dropped can acknowledge a write: too few nodes
// have not heard of the drop for a quorum of any group. The nodes that may have replicas are those that had
// some when the container was dropped, those of the description, those that are here, and those that were.
func (a *Agent) ended(d meta.Dropped, heard map[topology.NodeID]*host.Status) bool {
	nodes := make(map[topology.NodeID]bool) // whether it is present
	description := a.cfg.Host.Cluster()
	for _, n := range description.All() {
		nodes[topology.NodeID(n.ID)] = false
	}
	a.mu.Lock()
	for _, id := range slices.AppendSeq(slices.Clone(d.Nodes), maps.Keys(a.mu.left)) {
		if n := description.Node(uint64(id)); n == nil || !n.Gone {
			nodes[id] = false
		}
	}
	for id := range a.mu.nodes {
		nodes[id] = true
	}
	a.mu.Unlock()
	silent := 0
	for id, present := range nodes {
		s := heard[id]
		switch {
		case s != nil && slices.Contains(s.Dropped, d.Number):
		case present:
			return false // it is about to hear
		default:
			silent++
		}
	}
	voters := d.Voters
	if n := a.cfg.Policy.Voters; n > 0 {
		voters = min(voters, n)
	}
	return silent == 0 || silent < voters/2+1 && voters > 0
}

// DropContainer drops a container of the cluster, and returns when its name is free. It is a
// host.Config.Drop. Errors: engine.ErrNoContainer; those of the metadata store; that of ctx, after which
// the container is dropped all the same.
func (a *Agent) DropContainer(ctx context.Context, name string, number uint64) error {
	d, err := a.cfg.Store.DropContainer(ctx, name, number, a.cfg.Host.Cluster().NumberOf(name))
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		a.mu.Lock()
		now := a.mu.dropped[d.Number]
		a.mu.Unlock()
		if now.Released {
			return nil
		}
		pause(ctx, a.cfg.Every/4)
	}
	return fmt.Errorf("container %q is dropped, and its name stays taken until enough nodes have heard of that: %w", name, context.Cause(ctx))
}
