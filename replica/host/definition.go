package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/command"
)

// The definition of a container is in the description, and the store has it too. A change goes to containers.json
// first, then to the store, and then into the description. A crash before the end leaves what the next start, or
// the next call of AddContainer, completes.

// ensure makes a container in the store, or gives the one that is there the index policy of its definition.
// Error: cluster.ErrDescription, if it differs from its definition otherwise.
func (h *Host) ensure(ctx context.Context, t *cluster.Container) error {
	def := t.Def()
	c, err := h.db.Container(t.Name)
	if errors.Is(err, engine.ErrNoContainer) {
		if _, err = h.db.EnsureContainer(ctx, t.Name, def); err != nil {
			return fmt.Errorf("container %q: %w", t.Name, err)
		}
		return nil
	} else if err != nil {
		return err
	}
	if have := c.Def().DefaultTTL; c.Def().MutableTTL != def.MutableTTL {
		return fmt.Errorf("container %q: %w: mutable_ttl is %v, and this node has it with %v", t.Name, cluster.ErrDescription, def.MutableTTL, c.Def().MutableTTL)
	} else if have != def.DefaultTTL {
		return fmt.Errorf("container %q: %w: default_ttl is %d, and this node has it with %d", t.Name, cluster.ErrDescription, cluster.SecondsOf(def.DefaultTTL), cluster.SecondsOf(have))
	}
	index := def.Index
	def.Index = engine.IndexPolicy{}
	if _, err = h.db.EnsureContainer(ctx, t.Name, def); errors.Is(err, engine.ErrExists) {
		return fmt.Errorf("container %q: %w: %w", t.Name, cluster.ErrDescription, err)
	} else if err != nil {
		return fmt.Errorf("container %q: %w", t.Name, err)
	}
	if cluster.SameIndex(c.Def().Index, index) {
		return nil
	}
	if _, err = c.SetIndexPolicy(ctx, index); err != nil {
		return fmt.Errorf("container %q: %w", t.Name, err)
	}
	return nil
}

// redefine takes in a newer definition of a container that the node has.
func (h *Host) redefine(ctx context.Context, before *cluster.Cluster, t cluster.Container) (*cluster.Cluster, error) {
	now, err := before.Newest(t)
	if err != nil {
		return nil, err
	}
	if err = h.noteContainers(now); err != nil {
		return nil, err
	}
	if err = h.ensure(ctx, now.Container(t.Name)); err != nil {
		return nil, err
	}
	h.described.Store(now)
	h.proposeTTLs()
	return now, nil
}

// proposeTTLs has the groups that this node leads propose the default time to live of their containers, where
// they have an older one. The janitor calls it too: another node may lead by now, or a proposal was lost.
func (h *Host) proposeTTLs() {
	d := h.description()
	for _, r := range h.replicas.all() {
		t := d.Container(r.def.Container)
		if t == nil || r.status.ttl.Load() >= t.TTLRevision || !r.status.leading.Load() {
			continue
		}
		change := command.TTL{Revision: t.TTLRevision, Seconds: t.DefaultTTL}
		r.do(func() {
			if r.g != nil {
				_ = r.g.ProposeTTL(change) // if it comes to nothing, the next call tries again
			}
		})
	}
}

// RetimeEverywhere changes the default time to live of a container in the whole cluster, as Config.Retime does. Error: ErrChange, if the
// cluster has no metadata store; those of Config.Retime.
func (h *Host) RetimeEverywhere(ctx context.Context, name string, seconds int64) error {
	if h.cfg.Retime == nil {
		return fmt.Errorf("container %q: the cluster has no metadata store, so its default time to live stays: %w", name, ErrChange)
	}
	return h.cfg.Retime(ctx, name, seconds)
}

// RedefineEverywhere changes the index policy of a container in the whole cluster, as Config.Redefine does. Error: ErrChange, if the
// cluster has no metadata store; those of Config.Redefine.
func (h *Host) RedefineEverywhere(ctx context.Context, name string, index engine.IndexPolicy) error {
	if h.cfg.Redefine == nil {
		return fmt.Errorf("container %q: the cluster has no metadata store, so its containers are as the description says: %w", name, ErrChange)
	}
	return h.cfg.Redefine(ctx, name, index)
}
