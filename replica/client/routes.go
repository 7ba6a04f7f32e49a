package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/group"
	"github.com/cleavestore/cleave/replica/protocol"
	"github.com/cleavestore/cleave/replica/topology"
)

// routes is what the client knows of groups and nodes. It begins with the description of the
// cluster. When a node refuses a request since its replica does not have the key, or is not there,
// the client asks all nodes which groups they have. Of what they say the newest changes count, see
// topology.Map, so what it knows never goes back. What it hears of a container that was dropped it
// forgets for good. Readers need no lock: each change makes a new picture.
type routes struct {
	now     atomic.Pointer[picture]
	mu      sync.Mutex // of known, and of changes of now
	known   *topology.Map
	cluster *cluster.Cluster // without the containers that were dropped
	region  string

	asking struct {
		sync.Mutex
		round chan struct{} // closed when the round that is under way has brought something, or has ended
	}
}

type picture struct {
	groups map[string][]*groupState // of each container, by range; there may be gaps
	byID   map[uint64]*groupState
	links  map[uint64]*link
	// dropped has the numbers of the containers that were dropped.
	dropped map[uint64]bool
	gap     *groupState // what is asked for keys of which no group is known
}

// find returns the group of a container that has a key, nil if none is known. known says that the container is.
func (p *picture) find(container string, key *partmap.EPK) (g *groupState, known bool) {
	groups, known := p.groups[container]
	at, _ := slices.BinarySearchFunc(groups, key, func(g *groupState, e *partmap.EPK) int { // the first one that ends behind it
		if g.Range.Max.Compare(e) <= 0 {
			return -1
		}
		return 1
	})
	if at == len(groups) || !groups[at].Range.Contains(key) {
		return nil, known
	}
	return groups[at], known
}

// groupState is what the client knows of a group.
type groupState struct {
	ID       uint64
	Range    partmap.Range
	Replicas []uint64 // nodes whose replicas vote
	Readers  []uint64 // nodes whose replicas do not
	local    []uint64 // of both, those in the region of the client
	*progress
}

// progress is what the client has heard of a group, whatever its range and members are.
type progress struct {
	leader  atomic.Uint64 // node
	applied atomic.Uint64 // newest entry
}

// heard notes that a replica has applied an entry.
func (h *progress) heard(index uint64) {
	for {
		before := h.applied.Load()
		if index <= before || h.applied.CompareAndSwap(before, index) {
			return
		}
	}
}

func newLink(node uint64, address string) *link {
	l := &link{node: node}
	l.mu.calls, l.mu.addresses = make(map[uint64]chan reply), []string{address}
	return l
}

// heard notes an address of the node. Nodes may have heard of different ones, and none says which is the newest.
func (l *link) heard(address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(l.mu.addresses, address) {
		l.mu.addresses = append(l.mu.addresses[:min(len(l.mu.addresses), mostAddresses-1)], address)
	}
}

// mostAddresses bounds how many addresses of a node a client knows.
const mostAddresses = 8

func (s *routes) init(d *cluster.Cluster, region string) {
	s.known, s.cluster, s.region = topology.NewMap(), d, region
	p := &picture{links: make(map[uint64]*link)}
	for _, n := range d.All() {
		p.links[n.ID] = newLink(n.ID, n.Address)
	}
	for _, first := range d.Groups() {
		g := &topology.Group{ID: topology.GroupID(first.ID), Container: first.Container, Range: first.Range}
		for _, n := range first.Replicas { // the preferred leader first
			g.Replicas = append(g.Replicas, topology.Replica{ID: n, Node: topology.NodeID(n), Role: topology.Voter})
		}
		s.known.Update(g)
	}
	s.now.Store(s.draw(p.links, p.dropped, nil))
}

// draw makes a picture of what is known. What was heard of groups stays.
func (s *routes) draw(links map[uint64]*link, dropped map[uint64]bool, before *picture) *picture {
	p := &picture{groups: make(map[string][]*groupState), byID: make(map[uint64]*groupState), links: links, dropped: dropped, gap: &groupState{progress: new(progress)}}
	names := s.known.Containers() // those that were made later too
	for i := range s.cluster.Containers {
		names = append(names, s.cluster.Containers[i].Name)
	}
	for _, name := range names {
		p.groups[name] = nil
		for _, g := range s.known.Groups(name) {
			o := &groupState{ID: uint64(g.ID), Range: g.Range}
			for _, r := range g.Replicas {
				node := uint64(r.Node)
				switch r.Role {
				case topology.Voter:
					o.Replicas = append(o.Replicas, node)
				case topology.Learner:
					o.Readers = append(o.Readers, node)
				default:
					continue
				}
				if n := s.cluster.Node(node); s.region != "" && n != nil && n.Region == s.region {
					o.local = append(o.local, node)
				}
			}
			if before != nil && before.byID[o.ID] != nil {
				o.progress = before.byID[o.ID].progress
			} else {
				o.progress = new(progress)
				o.leader.Store(o.Replicas[0])
			}
			o.heard(g.Epoch) // it is an entry, and was applied
			p.groups[name] = append(p.groups[name], o)
			p.byID[o.ID] = o
		}
	}
	if before != nil {
		// A group that was split further, or of which one half is not known yet, was known.
		for id, o := range before.byID {
			if p.byID[id] == nil && !dropped[id>>32] {
				p.byID[id] = o
			}
		}
	}
	return p
}

// update takes in what a node says. It reports whether that is news.
func (s *routes) update(peers []protocol.Peer, groups []*topology.Group, dropped ...uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.now.Load()
	links, news := before.links, false
	for _, n := range peers {
		if l := links[n.Node]; l != nil {
			l.heard(n.Address)
		} else if n.Node != 0 && len(links) < maxLinks {
			if !news {
				links = maps.Clone(links)
			}
			links[n.Node], news = newLink(n.Node, n.Address), true
		}
	}
	gone := before.dropped
	if s.forget(&gone, dropped) {
		news = true
	}
	for _, g := range groups {
		// A node of another cluster, or with another description, is not believed.
		if !gone[g.ID.Number()] && s.believes(g) && s.known.Update(g) {
			news = true
		}
	}
	if news {
		s.now.Store(s.draw(links, gone, before))
	}
	return news
}

// forget forgets containers that were dropped, and adds them to gone. It reports whether that is news.
func (s *routes) forget(gone *map[uint64]bool, dropped []uint64) bool {
	if !slices.ContainsFunc(dropped, func(n uint64) bool { return !(*gone)[n] }) {
		return false
	}
	all := maps.Clone(*gone)
	if all == nil {
		all = make(map[uint64]bool)
	}
	for _, n := range dropped {
		all[n] = true
	}
	*gone = all
	s.cluster = s.cluster.Without(slices.Collect(maps.Keys(all))...)
	for _, id := range s.known.IDs() {
		if all[id.Number()] {
			s.known.Drop(id)
		}
	}
	return true
}

// believes reports whether a group is of a container of the description, or of one that was made
// later.
func (s *routes) believes(g *topology.Group) bool {
	if name := s.cluster.ContainerOf(uint64(g.ID)); name != "" {
		return name == g.Container
	}
	return uint64(g.ID)>>32 >= cluster.FirstNumber && s.cluster.Container(g.Container) == nil
}

// maxLinks bounds how many nodes a client knows.
const maxLinks = 10_000

func (c *Client) link(node uint64) *link { return c.routes.now.Load().links[node] }

// Refresh asks all nodes which groups they have. It returns when one has told news, or all have
// answered or not, or the context has ended: the round goes on. Calls that come meanwhile wait for the same round.
func (c *Client) Refresh(ctx context.Context) {
	a := &c.routes.asking
	a.Lock()
	round := a.round
	if round == nil {
		round = make(chan struct{})
		a.round = round
		end := sync.OnceFunc(func() {
			a.Lock()
			a.round = nil
			a.Unlock()
			close(round)
		})
		go func() {
			c.askAll(end)
			end()
		}()
	}
	a.Unlock()
	select {
	case <-round:
	case <-ctx.Done():
	}
}

// RefreshAll is Refresh that returns when all nodes have answered or not. Who wants to know that there is no such group, or
// no replica there, must have heard them all.
func (c *Client) RefreshAll(ctx context.Context) {
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		c.askAll(func() {})
	}()
	select {
	case <-heard:
	case <-ctx.Done():
	}
}

// told returns a group as the nodes describe it now, and its state, of which both may be nil. The description of the cluster alone
// has Epoch 0.
func (c *Client) told(ctx context.Context, id uint64) (g *topology.Group, state *groupState) {
	for _, refresh := range []func(context.Context){c.Refresh, c.RefreshAll} { // all are heard only if they must be
		refresh(ctx)
		if g, state = c.Descriptor(id), c.routes.now.Load().byID[id]; g != nil && g.Epoch > 0 && state != nil {
			break
		}
	}
	return g, state
}

// askAll asks all nodes which groups they have, and calls news for each one that has told news.
func (c *Client) askAll(news func()) {
	var tasks sync.WaitGroup
	nodes := slices.Collect(maps.Keys(c.routes.now.Load().links))
	places := make(chan struct{}, mostAsked)
	for _, node := range nodes {
		places <- struct{}{}
		tasks.Go(func() {
			defer func() { <-places }()
			if c.closed.Load() {
				return
			}
			r, _ := c.ask(context.Background(), node, protocol.Routes, protocol.AppendRoutes)
			if r.err != nil || r.Err != nil {
				return
			}
			if peers, groups, dropped, err := r.Routes(); err == nil && c.routes.update(peers, groups, dropped...) {
				news()
			}
		})
	}
	tasks.Wait()
}

// mostAsked is how many nodes are asked at once for what they know.
const mostAsked = 16

// gone takes in a refusal that says that the container of a group was dropped.
func (c *Client) gone(g *groupState, r *reply) {
	if errors.Is(r.Err, engine.ErrNoContainer) {
		c.routes.update(nil, nil, g.ID>>32)
	}
}

// elsewhere reports whether a refusal says that the client should look where the group is.
func elsewhere(err error) bool {
	return errors.Is(err, protocol.ErrNoGroup) || errors.Is(err, group.ErrRange)
}

// Lookup returns when the client knows a container. It tries until the context ends. Errors: engine.ErrNoContainer, if nodes answer
// and none of them has heard of the container; ErrClosed; that of the context, if those that have its groups do not answer.
func (c *Client) Lookup(ctx context.Context, container string) error {
	for look := (try{c: c}); ; look.count++ {
		if _, known := c.routes.now.Load().groups[container]; known {
			return nil
		}
		switch {
		case c.closed.Load():
			return ErrClosed
		case look.count > 0 && c.lacks(ctx, container):
			return fmt.Errorf("container %q: %w", container, engine.ErrNoContainer)
		case look.count > 0:
			look.pause()
			if err := look.sleep(ctx); err != nil {
				return fmt.Errorf("container %q: the nodes that have it do not answer: %w", container, err)
			}
		}
		c.Refresh(ctx)
	}
}

// lacks reports whether the cluster has no container with a name: nodes answer, and none of them has heard of it.
func (c *Client) lacks(ctx context.Context, container string) bool {
	known, answers := c.definitions(ctx, container)
	return answers > 0 && len(known) == 0
}

// MostLack reports whether most nodes answer and none of them has heard of a container. Lookup goes by fewer, which may
// be those that are behind.
func (c *Client) MostLack(ctx context.Context, container string) bool {
	known, answers := c.definitions(ctx, container)
	return answers > len(c.routes.now.Load().links)/2 && len(known) == 0
}

// Definition returns a container as the cluster defines it: as the node does that has heard of the newest change. Errors:
// engine.ErrNoContainer, if nodes answer and none of them has heard of the container, or only of one of before whose groups
// the client does not know any more; group.ErrBusy, if none answers.
func (c *Client) Definition(ctx context.Context, container string) (t cluster.Container, err error) {
	known, answers := c.definitions(ctx, container)
	if answers == 0 {
		return t, fmt.Errorf("container %q: no node answers: %w", container, group.ErrBusy)
	}
	described := c.cfg.Cluster.Without(c.Dropped()...)
	if d := described.Container(container); d != nil {
		known = append(known, *d)
		known[len(known)-1].Number = described.NumberOf(container)
	}
	newest := c.numberOf(container)
	if known = slices.DeleteFunc(known, func(t cluster.Container) bool { return t.Number < newest }); len(known) == 0 {
		return t, fmt.Errorf("container %q: %w", container, engine.ErrNoContainer)
	}
	return slices.MaxFunc(known, func(x, y cluster.Container) int {
		return cmp.Or(cmp.Compare(x.Number, y.Number), cmp.Compare(x.Revision, y.Revision))
	}), nil
}

// definitions asks all nodes for the containers with a name that were made or changed while the cluster ran, but for those that were
// dropped. It returns how many nodes have answered.
func (c *Client) definitions(ctx context.Context, container string) (known []cluster.Container, answers int) {
	var mu sync.Mutex
	dropped := make(map[uint64]bool)
	var tasks sync.WaitGroup
	places := make(chan struct{}, mostAsked)
	for node := range c.routes.now.Load().links {
		places <- struct{}{}
		tasks.Go(func() {
			defer func() { <-places }()
			s, err := c.Status(ctx, node)
			if err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			answers++
			for _, t := range s.Containers {
				if t.Name == container {
					known = append(known, t)
				}
			}
			for _, number := range s.Dropped {
				dropped[number] = true
			}
		})
	}
	tasks.Wait()
	return slices.DeleteFunc(known, func(t cluster.Container) bool { return dropped[t.Number] }), answers
}

// begin begins the tries of a request for a place of the key space. If no group is known for it, it looks for one.
func (c *Client) begin(ctx context.Context, container string, epk partmap.EPK) (t try, err error) {
	t = try{c: c}
	if t.g, err = c.route(container, epk); errors.Is(err, engine.ErrNoContainer) {
		if err = c.Lookup(ctx, container); err == nil {
			t.g, err = c.route(container, epk)
		}
	}
	if err == nil && t.g.ID == 0 {
		_, err = t.reroute(ctx, container, epk)
	}
	return t, err
}

// reroute looks for the group of a place again.
func (t *try) reroute(ctx context.Context, container string, epk partmap.EPK) (*groupState, error) {
	before := t.g
	for {
		if t.c.closed.Load() {
			return t.g, ErrClosed
		}
		// Another call may have learned it already.
		g, err := t.c.route(container, epk)
		if err == nil && (g == before || g.ID == 0) {
			t.c.Refresh(ctx)
			g, err = t.c.route(container, epk)
		}
		if err != nil {
			return t.g, err
		}
		if g.ID != 0 {
			if g.ID != before.ID {
				t.wait, t.avoid, t.count = 0, 0, 0
			}
			t.g = g
			return g, nil
		}
		t.count++
		t.pause()
		if err := t.sleep(ctx); err != nil {
			return t.g, err
		}
	}
}
