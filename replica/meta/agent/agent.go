// Package agent makes a node part of a cluster whose map is in etcd: it keeps the node's lease,
// tells of the groups that the node leads, tells the node where the others are, and carries out
// the steps that are planned for groups which it leads. One agent of the cluster plans.
//
// # Invariants
//
//  1. What an agent publishes is what a replica has applied. The groups are right without it: if
//     etcd is away, they go on, and only steps and splits wait.
//  2. A step is carried out by the leader of its group, and by nobody once the group has changed
//     since it was planned.
//  3. A group that a split makes has an id that etcd has given to this split alone, before it was proposed.
package agent

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/group"
	"github.com/cleavestore/cleave/replica/host"
	"github.com/cleavestore/cleave/replica/meta"
	"github.com/cleavestore/cleave/replica/placement"
	"github.com/cleavestore/cleave/replica/topology"
)

// Config says what an Agent is made of.
type Config struct {
	Store *meta.Store
	Host  *host.Host
	// Self is what the node tells of itself.
	Self meta.Node
	// TTL is how long the node's lease lasts after its last sign of life. 0: ten seconds.
	TTL time.Duration
	// Every is how often the agent looks what has changed, and plans. 0: a second.
	Every  time.Duration
	Policy placement.Policy
	// Ask returns the status of a node. The planner asks all nodes.
	Ask func(ctx context.Context, n meta.Node) (host.Status, error)
	// Why says what is amiss with a store that does not answer. Nil: nobody knows.
	Why    func(ctx context.Context) error
	Logger *slog.Logger // nil: silent
}

// Agent is the agent of a node.
type Agent struct {
	cfg Config
	mu  struct {
		sync.Mutex
		nodes   map[topology.NodeID]meta.Node
		left    map[topology.NodeID]time.Time // when each node was gone
		known   map[topology.NodeID]meta.Node // as each node was when it was here last
		drains  map[topology.NodeID]bool
		dropped map[uint64]meta.Dropped // containers, by number
		steps   map[topology.GroupID]step
		busy    map[topology.GroupID]bool // steps that are being carried out
		present bool                      // the node holds its lease
		plans   bool
	}
	routes *topology.Map
	tasks  sync.WaitGroup // steps
}

type step struct {
	placement.Step
	since time.Time
}

const (
	// stepTime bounds how long an agent tries one step, and oldStep is when a step that waits here
	// is given up: the planner plans it anew.
	stepTime = 20 * time.Second
	oldStep  = time.Minute
	// firstOfSplits is where the ids of groups begin that splits make, within those of a container.
	firstOfSplits = 1 << 20
	publishMost   = 60 // groups that are published at once
)

// New makes an agent.
func New(cfg Config) *Agent {
	cfg.TTL, cfg.Every = cmp.Or(cfg.TTL, 10*time.Second), cmp.Or(cfg.Every, time.Second)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	a := &Agent{cfg: cfg, routes: topology.NewMap()}
	a.mu.nodes, a.mu.left = make(map[topology.NodeID]meta.Node), make(map[topology.NodeID]time.Time)
	a.mu.known = make(map[topology.NodeID]meta.Node)
	a.mu.steps, a.mu.busy = make(map[topology.GroupID]step), make(map[topology.GroupID]bool)
	a.mu.drains, a.mu.dropped = make(map[topology.NodeID]bool), make(map[uint64]meta.Dropped)
	return a
}

// Map returns the map of the cluster, as far as this node knows it.
func (a *Agent) Map() *topology.Map { return a.routes }

// Nodes returns the nodes that are there, by their ids.
func (a *Agent) Nodes() []meta.Node {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.SortedFunc(maps.Values(a.mu.nodes), func(x, y meta.Node) int { return cmp.Compare(x.ID, y.ID) })
}

// Draining reports whether a node is to lose its replicas. It is a host.Config.Avoid.
func (a *Agent) Draining(node uint64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mu.drains[topology.NodeID(node)]
}

// Status is what an agent knows.
type Status struct {
	Lease    bool       `json:"lease"` // the node is present in the metadata store
	Plans    bool       `json:"plans"` // this node plans
	Draining []uint64   `json:"draining,omitempty"`
	Nodes    []uint64   `json:"nodes"`           // that are present
	Groups   int        `json:"groups"`          // in the map
	Steps    []StepInfo `json:"steps,omitempty"` // planned, and not carried out yet
}

// StepInfo is a step that was planned.
type StepInfo struct {
	Kind    string `json:"kind"`
	Group   uint64 `json:"group"`
	Node    uint64 `json:"node,omitempty"`
	Replica uint64 `json:"replica,omitempty"`
}

// Status returns what the agent knows now.
func (a *Agent) Status() Status {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := Status{Lease: a.mu.present, Plans: a.mu.plans, Groups: a.routes.Len()}
	for id := range a.mu.drains {
		s.Draining = append(s.Draining, uint64(id))
	}
	for id := range a.mu.nodes {
		s.Nodes = append(s.Nodes, uint64(id))
	}
	slices.Sort(s.Draining)
	slices.Sort(s.Nodes)
	for _, id := range slices.Sorted(maps.Keys(a.mu.steps)) {
		o := a.mu.steps[id]
		s.Steps = append(s.Steps, StepInfo{o.Kind.String(), uint64(id), uint64(o.Node), o.Replica})
	}
	return s
}

// Run works until ctx ends.
func (a *Agent) Run(ctx context.Context) {
	var tasks sync.WaitGroup
	for what, f := range map[string]func(context.Context) error{
		"lease": a.stay, "nodes": a.followNodes, "map": a.followMap, "steps": a.followSteps, "groups": a.tend, "plan": a.plan,
		"containers": a.followContainers, "drains": a.followDrains, "drops": a.followDropped,
	} {
		tasks.Go(func() {
			for ctx.Err() == nil {
				if err := f(ctx); err != nil && ctx.Err() == nil {
					a.cfg.Logger.Warn("the metadata store did not answer", "node", a.cfg.Self.ID, "what", what, "err", err)
				}
				pause(ctx, a.cfg.Every)
			}
		})
	}
	tasks.Wait()
	a.tasks.Wait()
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// stay keeps the node present.
func (a *Agent) stay(ctx context.Context) error {
	late := time.AfterFunc(a.cfg.TTL+time.Second, func() {
		var why error
		if a.cfg.Why != nil {
			why = a.cfg.Why(ctx)
		}
		a.cfg.Logger.Warn("no lease yet: the metadata store does not answer, or another process has the id of the node", "node", a.cfg.Self.ID, "err", why)
	})
	m, err := a.cfg.Store.Join(ctx, a.cfg.Self, a.cfg.TTL)
	late.Stop()
	if err != nil {
		return err
	}
	a.setPresent(true)
	defer a.setPresent(false)
	select {
	case <-m.Lost():
		return meta.ErrNodeTaken
	case <-ctx.Done():
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		return m.Leave(last)
	}
}

func (a *Agent) setPresent(is bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.present = is
}

// followContainers tells the node of the containers. One that it cannot have, or not yet, does not keep the others from it: it is
// tried again after a while, with all others.
func (a *Agent) followContainers(ctx context.Context) error {
	round, again := context.WithCancelCause(ctx)
	defer again(nil)
	refused := false
	return a.cfg.Store.FollowContainers(round, func(t cluster.Container) error {
		err := a.cfg.Host.AddContainer(ctx, t)
		if !errors.Is(err, host.ErrChange) && !errors.Is(err, cluster.ErrDescription) {
			return err
		}
		if !refused {
			refused = true
			time.AfterFunc(a.cfg.Every, func() { again(err) })
		}
		return nil
	})
}

// followDrains and followNodes begin anew after an error of the store. What was there before and is not any more has gone meanwhile.

func (a *Agent) followDrains(ctx context.Context) error {
	seen := make(map[topology.NodeID]bool)
	return a.cfg.Store.FollowDrains(ctx, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		maps.DeleteFunc(a.mu.drains, func(id topology.NodeID, _ bool) bool { return !seen[id] })
	}, func(n topology.NodeID, on bool) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if seen[n] = on; on {
			a.mu.drains[n] = true
		} else {
			delete(a.mu.drains, n)
		}
	})
}

func (a *Agent) followNodes(ctx context.Context) error {
	seen := make(map[topology.NodeID]bool)
	left := func(id topology.NodeID) { // mu is held
		delete(a.mu.nodes, id)
		a.mu.left[id] = time.Now()
	}
	return a.cfg.Store.FollowNodes(ctx, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		for id := range a.mu.nodes {
			if !seen[id] {
				left(id)
			}
		}
	}, func(n meta.Node) {
		a.cfg.Host.SetPeer(uint64(n.ID), n.Address)
		a.mu.Lock()
		defer a.mu.Unlock()
		seen[n.ID], a.mu.nodes[n.ID], a.mu.known[n.ID] = true, n, n
		delete(a.mu.left, n.ID)
	}, func(id topology.NodeID) {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(seen, id)
		left(id)
	})
}

func (a *Agent) followMap(ctx context.Context) error {
	return a.cfg.Store.Follow(ctx, a.routes, nil, nil)
}

func (a *Agent) followSteps(ctx context.Context) error {
	return a.cfg.Store.FollowSteps(ctx, func(s placement.Step) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.mu.steps[s.Group] = step{s, time.Now()}
	})
}

// tend publishes what has changed, and begins steps.
func (a *Agent) tend(ctx context.Context) error {
	var news, others []*topology.Group
	epochs := make(map[uint64]bool)
	for _, id := range a.cfg.Host.Groups() {
		g := a.cfg.Host.Group(id)
		if g == nil {
			continue
		}
		if known := a.routes.Group(g.ID); known != nil && known.Epoch >= g.Epoch {
			continue
		}
		if leads, _ := a.cfg.Host.Leads(id); leads {
			news = append(news, g)
			epochs[g.Epoch] = true
		} else {
			others = append(others, g)
		}
	}
	for _, g := range others { // the other half of a split
		if epochs[g.Epoch] {
			news = append(news, g)
		}
	}
	for some := range slices.Chunk(news, publishMost) {
		if err := a.cfg.Store.Publish(ctx, some...); err != nil {
			return err
		}
	}
	a.begin(ctx)
	return nil
}

// begin begins the steps of groups that this node leads.
func (a *Agent) begin(ctx context.Context) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, s := range a.mu.steps {
		g := a.cfg.Host.Group(uint64(id))
		leads, _ := a.cfg.Host.Leads(uint64(id))
		if time.Since(s.since) > oldStep || g != nil && g.Epoch > s.Epoch {
			delete(a.mu.steps, id)
			if leads && !a.mu.busy[id] { // a step that stays would bar a move by hand
				a.tasks.Go(func() { a.finish(ctx, s.Step) })
			}
			continue
		}
		if !leads || a.mu.busy[id] {
			continue
		}
		a.mu.busy[id] = true
		a.tasks.Go(func() { a.carryOut(ctx, s.Step) })
	}
}

// carryOut carries a step out.
func (a *Agent) carryOut(ctx context.Context, s placement.Step) {
	each, cancel := context.WithTimeout(ctx, stepTime)
	defer cancel()
	err := a.do(each, s)
	a.cfg.Logger.Info("a step", "node", a.cfg.Self.ID, "group", s.Group, "kind", s.Kind.String(), "to", s.Node, "replica", s.Replica, "err", err)
	a.mu.Lock()
	delete(a.mu.busy, s.Group)
	// Another leader is to do it, or this one once more.
	again := errors.Is(err, group.ErrNotLeader) || errors.Is(err, group.ErrBusy)
	if now := a.mu.steps[s.Group]; !again && now.Step == s {
		delete(a.mu.steps, s.Group)
	}
	a.mu.Unlock()
	if !again {
		// The planner is to see what has changed before it sees that the step is over.
		if g := a.cfg.Host.Group(uint64(s.Group)); g != nil && err == nil {
			if err = a.cfg.Store.Publish(ctx, g); err != nil {
				return // the step is over when the planner sees the change
			}
		}
		a.finish(ctx, s)
	}
}

// finish removes a step from the store.
func (a *Agent) finish(ctx context.Context, s placement.Step) {
	if err := a.cfg.Store.Finish(ctx, s); err != nil && ctx.Err() == nil {
		a.cfg.Logger.Warn("a step that is over was not removed", "group", s.Group, "err", err)
	}
}

func (a *Agent) do(ctx context.Context, s placement.Step) error {
	h, id := a.cfg.Host, uint64(s.Group)
	switch s.Kind {
	case placement.Add:
		_, err := h.AddReplica(ctx, id, uint64(s.Node))
		return err
	case placement.Reader:
		_, err := h.AddReader(ctx, id, uint64(s.Node))
		return err
	case placement.Promote:
		return h.Promote(ctx, id, s.Replica, 0)
	case placement.Remove:
		return h.RemoveReplica(ctx, id, s.Replica)
	case placement.Transfer:
		return h.Transfer(ctx, id, uint64(s.Node))
	case placement.Split:
		for {
			n, err := a.cfg.Store.NewIDs(ctx, "groups", 1)
			if err != nil {
				return err
			}
			// A client may have claimed the id, or the store has lost which ones it has handed out.
			if err = h.Split(ctx, id, "", id&^(1<<32-1)|(firstOfSplits+n)); !errors.Is(err, engine.ErrExists) {
				return err
			}
		}
	}
	return nil
}
