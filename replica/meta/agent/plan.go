package agent

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cleavestore/cleave/replica/cluster"
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
	a.setPlans(true)
	defer a.setPlans(false)
	p := placement.New(a.cfg.Policy)
	forgotten := make(map[uint64]bool) // containers that were dropped
	for ctx.Err() == nil {
		// What is not in the store any more was carried out or refused: it is planned anew.
		ordered, err := a.cfg.Store.Steps(ctx)
		if err != nil {
			return err
		}
		p.Keep(ordered)
		held, err := a.cfg.Store.Holds(ctx)
		if err != nil {
			return err
		}
		p.ByHand(held)
		if err = a.release(ctx, p, forgotten, a.tell(ctx, p)); err != nil {
			return err
		}
		steps := p.Plan(time.Now())
		for len(steps) > 0 {
			n := min(len(steps), publishMost)
			// A group that is held since the plan has its chunk planned once more.
			if err = right.Order(ctx, steps[:n]...); err != nil && !errors.Is(err, meta.ErrHeld) {
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

// tell tells the planner of the nodes, and of the groups as their leaders describe them. It returns what
// nodes have answered.
func (a *Agent) tell(ctx context.Context, p *placement.Planner) map[topology.NodeID]*host.Status {
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
	gone := make(map[uint64]bool) // containers that were dropped
	for number := range a.mu.dropped {
		gone[number] = true
	}
	d := a.cfg.Host.Cluster()
	for _, n := range a.absent(d) {
		p.Node(n)
	}
	a.mu.Unlock()
	for _, n := range nodes {
		p.Node(placement.Node{ID: n.ID, Zone: n.Zone, Region: n.Region, Bytes: n.Bytes, Load: n.Load, Draining: a.Draining(uint64(n.ID)), Live: true, Since: time.Now()})
	}
	reports := make(map[uint64]placement.Report)
	follower := make(map[uint64]float64) // the highest load of a replica that does not lead
	heard := make(map[topology.NodeID]*host.Status)
	for i, s := range a.statuses(ctx, nodes) {
		if s == nil {
			continue // its lease tells whether it is there
		}
		heard[nodes[i].ID] = s
		for k := range s.Groups {
			g := &s.Groups[k]
			if !g.Leads {
				follower[g.ID] = max(follower[g.ID], g.Load)
				continue
			}
			reports[g.ID] = report(nodes[i].ID, g)
		}
	}
	for id, r := range reports {
		known := a.routes.Group(topology.GroupID(id))
		if known == nil || gone[known.ID.Number()] {
			continue
		}
		r.FollowerLoad = min(follower[id], r.LeaderLoad)
		if t := d.Container(known.Container); t != nil {
			r.Readers, r.Want = append([]string{}, t.Regions...), ownVoters(t) // not nil: that is known
		}
		p.Group(known, r)
	}
	return heard
}

// absent returns the nodes that are not there, as they were last, or as they are described: a node that is started again stays where it
// is, and so do its readers. mu is held.
func (a *Agent) absent(d *cluster.Cluster) (out []placement.Node) {
	for id, since := range a.mu.left {
		n := placement.Node{ID: id, Since: since}
		if was, seen := a.mu.known[id]; seen {
			n.Zone, n.Region, n.Bytes, n.Load = was.Zone, was.Region, was.Bytes, was.Load
		} else if was := d.Node(uint64(id)); was != nil {
			n.Zone, n.Region = was.Zone, was.Region
		}
		out = append(out, n)
	}
	return out
}

// report is what the leader of a group tells the planner.
func report(leader topology.NodeID, g *host.GroupStatus) placement.Report {
	return placement.Report{Leader: leader, Bytes: g.Bytes, LeaderLoad: g.Load, CaughtUp: g.CaughtUp()}
}

// ownVoters returns how many voters the description wants of a container alone, 0 for none. That of one which was made while
// the cluster ran is what all had then.
func ownVoters(t *cluster.Container) int {
	if t.Number >= cluster.FirstNumber {
		return 0
	}
	return t.Replicas
}

func (a *Agent) setPlans(is bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.plans = is
}

// statuses asks nodes, all at once but for a bound; nil: a node has not answered.
func (a *Agent) statuses(ctx context.Context, nodes []meta.Node) []*host.Status {
	out := make([]*host.Status, len(nodes))
	places := make(chan struct{}, mostAsked)
	var tasks sync.WaitGroup
	for i, n := range nodes {
		places <- struct{}{}
		tasks.Go(func() {
			defer func() { <-places }()
			if s, err := a.status(ctx, n); err == nil {
				out[i] = &s
			}
		})
	}
	tasks.Wait()
	return out
}

// mostAsked is how many nodes are asked at once.
const mostAsked = 16

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
