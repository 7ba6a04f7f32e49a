package agent

import (
	"context"
	"errors"
	"time"

	"github.com/cleavestore/cleave/replica/host"
	"github.com/cleavestore/cleave/replica/meta"
	"github.com/cleavestore/cleave/replica/placement"
	"github.com/cleavestore/cleave/replica/topology"
)

// plan plans while this agent has the right to.
func (a *Agent) plan(ctx context.Context) error {
	right, err := a.cfg.Store.Campaign(ctx, a.cfg.Self.ID, a.cfg.TTL)
	if err != nil {
		return err
	}
	defer func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = right.Resign(last) // it ends with its lease
	}()
	p := placement.New(a.cfg.Policy)
	for ctx.Err() == nil {
		a.tell(ctx, p)
		steps := p.Plan(time.Now())
		for len(steps) > 0 {
			n := min(len(steps), publishMost)
			if err = right.Order(ctx, steps[:n]...); err != nil {
				return err
			}
			steps = steps[n:]
		}
		select {
		case <-right.Lost():
			return meta.ErrNotPlanner
		case <-ctx.Done():
		case <-time.After(a.cfg.Every):
		}
	}
	return nil
}

// tell tells the planner of the nodes, and of the groups as their leaders describe them.
func (a *Agent) tell(ctx context.Context, p *placement.Planner) {
	a.mu.Lock()
	// A node that this agent has never seen may be about to come.
	for _, id := range a.routes.IDs() {
		g := a.routes.Group(id)
		if g == nil {
			continue
		}
		for _, r := range g.Replicas {
			if _, there := a.mu.nodes[r.Node]; !there && a.mu.left[r.Node].IsZero() {
				a.mu.left[r.Node] = time.Now()
			}
		}
	}
	nodes := make([]meta.Node, 0, len(a.mu.nodes))
	for _, n := range a.mu.nodes {
		nodes = append(nodes, n)
	}
	for id, since := range a.mu.left {
		p.Node(placement.Node{ID: id, Since: since})
	}
	a.mu.Unlock()
	for _, n := range nodes {
		p.Node(placement.Node{ID: n.ID, Zone: n.Zone, Region: n.Region, Bytes: n.Bytes, Load: n.Load, Draining: n.Draining, Live: true, Since: time.Now()})
	}
	for _, n := range nodes {
		s, err := a.status(ctx, n)
		if err != nil {
			continue // its lease tells whether it is there
		}
		for i := range s.Groups {
			g := &s.Groups[i]
			known := a.routes.Group(topology.GroupID(g.ID))
			if !g.Leads || known == nil {
				continue
			}
			p.Group(known, placement.Report{
				Leader: n.ID, Bytes: g.Bytes,
				CaughtUp: g.Lacks != nil && *g.Lacks == 0,
			})
		}
	}
}

// askTime is how long the planner waits for one node.
const askTime = 2 * time.Second

var errNoAsk = errors.New("no way to ask another node")

func (a *Agent) status(ctx context.Context, n meta.Node) (host.Status, error) {
	if n.ID == a.cfg.Self.ID {
		return a.cfg.Host.Status(), nil
	}
	if a.cfg.Ask == nil {
		return host.Status{}, errNoAsk
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	return a.cfg.Ask(ctx, n)
}
