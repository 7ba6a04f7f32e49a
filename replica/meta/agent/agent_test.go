package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/command"
	"github.com/cleavestore/cleave/replica/group"
	"github.com/cleavestore/cleave/replica/host"
	"github.com/cleavestore/cleave/replica/meta"
	"github.com/cleavestore/cleave/replica/placement"
	"github.com/cleavestore/cleave/replica/topology"
	"github.com/cleavestore/cleave/replica/transport"
)

// rig is a cluster on this machine with an etcd in the process.
type rig struct {
	t         *testing.T
	dir       string
	store     *meta.Store
	etcd      meta.Embedded
	server    *meta.Server
	authority *transport.Authority
	cluster   *cluster.Cluster
	listeners map[uint64]net.Listener
	mu        sync.Mutex
	hosts     map[uint64]*host.Host
	agents    map[uint64]*Agent
	policy    placement.Policy
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newRig(t *testing.T, policy placement.Policy) *rig {
	r := &rig{t: t, dir: t.TempDir(), listeners: make(map[uint64]net.Listener), hosts: make(map[uint64]*host.Host), agents: make(map[uint64]*Agent), policy: policy}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	r.etcd = meta.Embedded{Dir: filepath.Join(r.dir, "etcd"), Name: "a", Members: []meta.Member{{Name: "a", Peer: "http://127.0.0.1:0"}}, Client: "http://" + l.Addr().String()}
	must(t, l.Close())
	r.startEtcd()
	t.Cleanup(func() { must(t, r.server.Close()) })
	client, err := meta.Connect([]string{r.etcd.Client}, nil)
	must(t, err)
	t.Cleanup(func() { must(t, client.Close()) })
	r.store, err = meta.New(client, "test")
	must(t, err)
	r.authority, err = transport.NewAuthority(r.dir, time.Now())
	must(t, err)
	r.cluster = &cluster.Cluster{Containers: []cluster.Container{{Name: "items", PartitionKey: []string{"/k"}, Partitions: 4}}}
	for id := uint64(1); id <= 4; id++ {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		r.listeners[id] = l
		if id <= 3 {
			r.cluster.Nodes = append(r.cluster.Nodes, cluster.Node{ID: id, Address: l.Addr().String()})
		}
	}
	for id := uint64(1); id <= 3; id++ {
		r.start(id)
	}
	return r
}

func (r *rig) startEtcd() {
	r.t.Helper()
	var err error
	r.server, err = meta.Start(context.Background(), r.etcd)
	must(r.t, err)
}

// start starts a node with its agent.
func (r *rig) start(id uint64) {
	r.t.Helper()
	dir := filepath.Join(r.dir, fmt.Sprint(id))
	must(r.t, host.Init(dir, id))
	must(r.t, r.authority.IssueNode(dir, id, time.Now()))
	creds, err := transport.LoadCredentials(dir)
	must(r.t, err)
	peers := make(map[uint64]string)
	for _, n := range r.cluster.Nodes {
		peers[n.ID] = n.Address
	}
	l := r.listeners[id]
	h, err := host.Open(context.Background(), host.Config{
		Node: id, Cluster: r.cluster, Dir: dir, Engine: &engine.Options{MemoryBudget: 16 << 20}, Tick: 20 * time.Millisecond,
		Claim: func(ctx context.Context, left, right uint64) error {
			return r.store.Claim(ctx, topology.GroupID(left), topology.GroupID(right))
		},
		Network: func(handler transport.Handler) (host.Network, error) {
			return transport.New(transport.Config{Node: id, Credentials: creds, Peers: peers, Listener: l, Handler: handler}), nil
		},
	})
	must(r.t, err)
	a := New(Config{
		Store: r.store, Host: h, TTL: 5 * time.Second, Every: 100 * time.Millisecond, Policy: r.policy,
		// Room for what the groups take before their files are compacted: nothing drains to nodes that are full.
		Self: meta.Node{ID: topology.NodeID(id), Address: l.Addr().String(), Bytes: 128 << 10},
		Ask: func(_ context.Context, n meta.Node) (host.Status, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			if h := r.hosts[uint64(n.ID)]; h != nil {
				return h.Status(), nil
			}
			return host.Status{}, errNoAsk
		},
	})
	r.mu.Lock()
	r.hosts[id], r.agents[id] = h, a
	r.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.Run(ctx)
	}()
	r.t.Cleanup(func() {
		cancel()
		<-done
		must(r.t, h.Close())
	})
}

// until waits until something is so.
func (r *rig) until(what string, is func() bool) {
	r.t.Helper()
	for end := time.Now().Add(2 * time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			for id, h := range r.hosts {
				r.t.Logf("node %d: %+v", id, h.Status().Groups)
			}
			r.t.Fatal("not so after two minutes: ", what)
		}
	}
}

// put writes an item through whichever node leads the group that the map names.
func (r *rig) put(key string, n, size int) {
	r.t.Helper()
	k := engine.StringKey(key)
	epk := k.EPK()
	c := command.Command{Batches: []command.Batch{{Key: k, Operations: []command.Operation{
		{Kind: command.Upsert, Body: fmt.Appendf(nil, `{"id":"i","k":%q,"n":%d,"pad":"%0*d"}`, key, n, size, 0)},
	}}}}
	rand.Read(c.ID[:])
	r.until("a write of "+key, func() bool {
		g := r.agents[1].Map().Find("items", &epk)
		if g == nil {
			return false
		}
		for _, h := range r.hosts {
			if leads, _ := h.Leads(uint64(g.ID)); leads {
				again := c
				if again.After == 0 {
					_, c.After = h.Leader(uint64(g.ID))
					again.After = c.After
				}
				done := make(chan group.Outcome, 1)
				h.Propose(uint64(g.ID), &again, func(o group.Outcome) { done <- o })
				return (<-done).Err == nil
			}
		}
		return false
	})
}

// whole reports whether the groups of the map cover all keys, with three voters each that hold no
// replica besides.
func (r *rig) whole() bool {
	groups := r.agents[1].Map().Groups("items")
	for i, g := range groups {
		if g.Voters() != 3 || len(g.Replicas) != 3 || i > 0 && groups[i-1].Range.Max != g.Range.Min {
			return false
		}
	}
	return len(groups) > 0 && groups[0].Range.Min.String() == "" && groups[len(groups)-1].Range.Max.String() == "FF"
}

// TestReport: a replica that lacks only the newest entries has caught up for the planner. While clients
// write, no replica lacks nothing.
func TestReport(t *testing.T) {
	for lacks, want := range map[uint64]bool{0: true, 1: true, 64: true, 65: false} {
		if r := report(2, &host.GroupStatus{Bytes: 7, Load: 3, Lacks: &lacks}); r.CaughtUp != want || r.Leader != 2 || r.Bytes != 7 || r.LeaderLoad != 3 {
			t.Errorf("lacks %d: %+v", lacks, r)
		}
	}
	if report(2, &host.GroupStatus{}).CaughtUp {
		t.Error("a replica that nothing is known of has caught up")
	}
}

// TestOwnVoters: a container of the description keeps its own number of replicas, and the others follow the policy.
func TestOwnVoters(t *testing.T) {
	for _, tc := range []struct {
		c    cluster.Container
		want int
	}{
		{cluster.Container{}, 0},
		{cluster.Container{Replicas: 1}, 1},
		{cluster.Container{Number: 7, Replicas: 5}, 5},
		{cluster.Container{Number: cluster.FirstNumber, Replicas: 1}, 0},
	} {
		if got := ownVoters(&tc.c); got != tc.want {
			t.Errorf("%+v: %d", tc.c, got)
		}
	}
}

// TestNodeJoins: groups split when they have grown, a node that joins takes its share, and one
// that is drained loses its replicas; what was written is on each node that has the group.
func TestNodeJoins(t *testing.T) {
	r := newRig(t, placement.Policy{SplitBytes: 8 << 10, Patience: 5 * time.Second, Grace: time.Hour})
	r.until("the map", func() bool { return len(r.agents[1].Map().Groups("items")) == 4 })
	// A client has taken the first id that the planner gets.
	must(t, r.store.Claim(t.Context(), 1<<32|99, 1<<32|(firstOfSplits+1)))
	for i := range 60 {
		r.put(fmt.Sprint("key", i), i, 600)
	}
	r.until("splits", func() bool { return len(r.agents[1].Map().Groups("items")) > 4 && r.whole() })
	r.start(4)
	r.until("the share of node 4", func() bool {
		voters := 0
		for _, g := range r.agents[1].Map().Groups("items") {
			if on, ok := g.On(4); ok && on.Role == topology.Voter {
				voters++
			}
		}
		return voters >= 2 && r.whole()
	})
	must(t, r.store.Drain(context.Background(), 2, true))
	r.until("node 2 is empty", func() bool { return len(r.hosts[2].Groups()) == 0 && r.whole() })
	for i := range 60 {
		key := engine.StringKey(fmt.Sprint("key", i))
		epk := key.EPK()
		g := r.agents[1].Map().Find("items", &epk)
		for id, h := range r.hosts {
			if _, on := g.On(topology.NodeID(id)); !on {
				continue
			}
			done := make(chan error, 1)
			h.Confirm(uint64(g.ID), func(err error) { done <- err })
			must(t, <-done)
			c, err := h.DB().Container("items")
			must(t, err)
			if it, err := c.Read(context.Background(), key, "i"); err != nil || !slices.Contains([]byte(it.Body), '{') {
				t.Errorf("node %d: %s: %s, %v", id, key, it.Body, err)
			}
		}
	}
}

// TestStoreAway: while etcd is down, what is written is acknowledged and read, and no group splits.
// When it is back, nodes have their leases again, groups split, and a container that is made then is
// on all nodes.
func TestStoreAway(t *testing.T) {
	r := newRig(t, placement.Policy{SplitBytes: 8 << 10, Patience: 5 * time.Second, Grace: time.Hour})
	r.until("the map", func() bool { return len(r.agents[1].Map().Groups("items")) == 4 })
	must(t, r.server.Close())
	for i := range 60 {
		r.put(fmt.Sprint("key", i), i, 600)
	}
	for i := range 60 {
		key := engine.StringKey(fmt.Sprint("key", i))
		epk := key.EPK()
		id := uint64(r.agents[1].Map().Find("items", &epk).ID)
		for _, h := range r.hosts {
			done := make(chan error, 1)
			h.Confirm(id, func(err error) { done <- err })
			must(t, <-done)
			c, err := h.DB().Container("items")
			must(t, err)
			_, err = c.Read(context.Background(), key, "i")
			must(t, err)
		}
	}
	r.until("the nodes have no leases", func() bool {
		for _, a := range r.agents {
			if a.Status().Lease {
				return false
			}
		}
		return true
	})
	if n := len(r.hosts[1].Groups()); n != 4 {
		t.Errorf("%d groups without a store", n)
	}
	r.startEtcd()
	r.until("splits", func() bool { return len(r.agents[1].Map().Groups("items")) > 4 && r.whole() })
	made, err := r.store.CreateContainer(context.Background(), cluster.Container{Name: "orders", PartitionKey: []string{"/k"}, Partitions: 2, Nodes: []uint64{1, 2, 3}})
	must(t, err)
	if _, err = r.store.CreateContainer(context.Background(), made); !errors.Is(err, engine.ErrExists) {
		t.Error("a second container of the name: ", err)
	}
	r.until("the container", func() bool {
		for _, h := range r.hosts {
			if h.Cluster().Container("orders") == nil {
				return false
			}
		}
		return len(r.agents[1].Map().Groups("orders")) == 2
	})
}

// TestContainerRefused: a container that nodes cannot have, since their description has another one of the name, does not keep a later
// one from them.
func TestContainerRefused(t *testing.T) {
	r := newRig(t, placement.Policy{Grace: time.Hour})
	for _, name := range []string{"items", "orders"} {
		_, err := r.store.CreateContainer(t.Context(), cluster.Container{Name: name, PartitionKey: []string{"/other"}, Partitions: 2, Nodes: []uint64{1, 2, 3}})
		must(t, err)
	}
	r.until("the later one", func() bool {
		for _, h := range r.hosts {
			if h.Cluster().Container("orders") == nil {
				return false
			}
		}
		return len(r.agents[1].Map().Groups("orders")) == 2
	})
	if n := len(r.agents[1].Map().Groups("items")); n != 4 {
		t.Errorf("%d groups of the container of the description", n)
	}
}

// TestDropContainer: a container is dropped that nodes have. Its name is free when all have heard, and a
// container is made again under it, of which another index policy comes to all nodes.
func TestDropContainer(t *testing.T) {
	r := newRig(t, placement.Policy{Grace: time.Hour})
	r.until("the map", func() bool { return len(r.agents[1].Map().Groups("items")) == 4 })
	r.put("key", 1, 10)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must(t, r.agents[2].DropContainer(ctx, "items", 0))
	for id, h := range r.hosts {
		if len(h.Groups()) > 0 || h.Cluster().Container("items") != nil {
			t.Errorf("node %d has the groups %v", id, h.Groups())
		}
	}
	if err := r.agents[2].DropContainer(ctx, "items", 0); !errors.Is(err, engine.ErrNoContainer) {
		t.Error("once more: ", err)
	}
	next := cluster.Container{Name: "items", PartitionKey: []string{"/k"}, Partitions: 2, MutableTTL: true}
	must(t, r.agents[2].CreateContainer(ctx, next))
	if err := r.agents[1].CreateContainer(ctx, next); !errors.Is(err, engine.ErrExists) {
		t.Error("the same name: ", err)
	}
	next.Name, next.Partitions = "other", 0
	if err := r.agents[1].CreateContainer(ctx, next); !errors.Is(err, engine.ErrInvalid) {
		t.Error("no partition: ", err)
	}
	if err := r.agents[1].SetIndexPolicy(ctx, "items", engine.IndexPolicy{Include: []string{"n"}}); !errors.Is(err, engine.ErrInvalid) {
		t.Error("a policy that cannot be: ", err)
	}
	var many engine.IndexPolicy
	for i := range 10_001 {
		many.Include = append(many.Include, fmt.Sprintf("/m%d/?", i))
	}
	if err := r.agents[1].SetIndexPolicy(ctx, "items", many); !errors.Is(err, engine.ErrInvalid) {
		t.Error("a policy of 10,001 patterns: ", err)
	}
	next.Partitions, next.Index = 2, many
	if err := r.agents[1].CreateContainer(ctx, next); !errors.Is(err, engine.ErrInvalid) {
		t.Error("a container with it: ", err)
	}
	if err := r.agents[1].SetIndexPolicy(ctx, "none", engine.IndexAll()); !errors.Is(err, engine.ErrNoContainer) {
		t.Error("no container: ", err)
	}
	must(t, r.agents[1].SetIndexPolicy(ctx, "items", engine.IndexAll()))
	r.until("the index policy", func() bool {
		for _, h := range r.hosts {
			if c, err := h.DB().Container("items"); err != nil || len(c.Def().Index.Include) == 0 {
				return false
			}
		}
		return true
	})
	for name, want := range map[string]error{"items": engine.ErrInvalid, "none": engine.ErrNoContainer} {
		if err := r.agents[1].SetDefaultTTL(ctx, name, -2); !errors.Is(err, want) {
			t.Errorf("a default time to live of -2 of %s: %v", name, err)
		}
	}
	must(t, r.agents[1].SetDefaultTTL(ctx, "items", 60))
	if got := r.hosts[1].Cluster().Container("items").DefaultTTL; got != 60 {
		t.Errorf("the node that has answered knows the default time to live %d", got)
	}
	r.until("the default time to live", func() bool {
		for _, h := range r.hosts {
			c, err := h.DB().Container("items")
			if err != nil {
				return false
			}
			for _, p := range c.Partitions() {
				if now, err := c.AppliedTTL(p.ID); !p.Absent && (err != nil || now.TTL != time.Minute) {
					return false
				}
			}
		}
		return true
	})
	r.until("the next one in the map", func() bool { return len(r.agents[1].Map().Groups("items")) == 2 && r.whole() })
	r.put("key", 2, 10)
}

// TestUnseen: a node leaves, and the drain of another one ends, while an agent does not hear of the metadata store. It learns of both
// when it does again.
func TestUnseen(t *testing.T) {
	r := newRig(t, placement.Policy{Grace: time.Hour})
	a := New(Config{Store: r.store, Host: r.hosts[1]})
	listen := func(what string, is func() bool) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		var tasks sync.WaitGroup
		tasks.Go(func() { _ = a.followNodes(ctx) })
		tasks.Go(func() { _ = a.followDrains(ctx) })
		r.until(what, is)
		cancel()
		tasks.Wait()
	}
	has := func(id topology.NodeID) bool {
		return slices.ContainsFunc(a.Nodes(), func(n meta.Node) bool { return n.ID == id })
	}
	m, err := r.store.Join(t.Context(), meta.Node{ID: 9, Address: "nowhere:1", Zone: "z", Region: "us", Bytes: 5, Load: 6}, time.Minute)
	must(t, err)
	must(t, r.store.Drain(t.Context(), 2, true))
	listen("it has heard of both", func() bool { return has(9) && a.Draining(2) })
	must(t, m.Leave(t.Context()))
	must(t, r.store.Drain(t.Context(), 2, false))
	must(t, r.store.Drain(t.Context(), 3, true))
	listen("it has heard what is new", func() bool { return !has(9) && !a.Draining(2) && a.Draining(3) })
	if a.mu.left[9].IsZero() {
		t.Error("it does not know when the node has left")
	}
	// The planner hears of both as they were, or as they are described.
	was := time.Now()
	a.mu.left[8], a.mu.left[9] = was, was
	told := a.absent(&cluster.Cluster{Joined: []cluster.Node{{ID: 8, Zone: "y", Region: "eu"}, {ID: 9, Region: "elsewhere"}}})
	slices.SortFunc(told, func(x, y placement.Node) int { return int(x.ID) - int(y.ID) })
	want := []placement.Node{{ID: 8, Zone: "y", Region: "eu", Since: was}, {ID: 9, Zone: "z", Region: "us", Bytes: 5, Load: 6, Since: was}}
	if !slices.Equal(told, want) {
		t.Errorf("of those that are not there the planner hears %+v, want %+v", told, want)
	}
	must(t, r.store.Drain(t.Context(), 3, false))
}

// TestEnded: the name of a container is not free while a quorum of a group may be on nodes that have not
// heard of the drop, nor while a node is present that is about to hear.
func TestEnded(t *testing.T) {
	r := newRig(t, placement.Policy{Grace: time.Hour})
	a := New(Config{Host: r.hosts[1]})
	d := meta.Dropped{Number: 9, Name: "x", Voters: 3}
	heard, not := &host.Status{Dropped: []uint64{4, 9}}, &host.Status{Dropped: []uint64{4}}
	for _, c := range []struct {
		what    string
		present []topology.NodeID
		left    []topology.NodeID
		answers map[topology.NodeID]*host.Status
		voters  int
		want    bool
		had     []topology.NodeID // replicas, when the container was dropped
	}{
		{"all have heard", []topology.NodeID{1, 2, 3}, nil, map[topology.NodeID]*host.Status{1: heard, 2: heard, 3: heard}, 0, true, nil},
		{"one is about to", []topology.NodeID{1, 2, 3}, nil, map[topology.NodeID]*host.Status{1: heard, 2: heard, 3: not}, 3, false, nil},
		{"one is present and silent", []topology.NodeID{1, 2, 3}, nil, map[topology.NodeID]*host.Status{1: heard, 2: heard}, 3, false, nil},
		{"one is away", []topology.NodeID{1, 2}, nil, map[topology.NodeID]*host.Status{1: heard, 2: heard}, 3, true, nil},
		{"one is away, of groups of two", []topology.NodeID{1, 2}, nil, map[topology.NodeID]*host.Status{1: heard, 2: heard}, 2, true, nil},
		{"one is away, of groups of one", []topology.NodeID{1, 2}, nil, map[topology.NodeID]*host.Status{1: heard, 2: heard}, 1, false, nil},
		{"one is away, and nothing is known of the groups", []topology.NodeID{1, 2}, nil, map[topology.NodeID]*host.Status{1: heard, 2: heard}, 0, false, nil},
		{"two are away", []topology.NodeID{1}, nil, map[topology.NodeID]*host.Status{1: heard}, 3, false, nil},
		{"two are away, one of which has joined later", []topology.NodeID{1, 2}, []topology.NodeID{7}, map[topology.NodeID]*host.Status{1: heard, 2: heard}, 3, false, nil},
		{"two are away, one of which has joined later and was not seen here", []topology.NodeID{1, 2}, nil, map[topology.NodeID]*host.Status{1: heard, 2: heard}, 3, false, []topology.NodeID{1, 3, 7}},
		{"two are away that nobody here has seen", []topology.NodeID{1, 2, 3}, nil, map[topology.NodeID]*host.Status{1: heard, 2: heard, 3: heard}, 3, false, []topology.NodeID{1, 7, 8}},
		{"one is away that nobody here has seen", []topology.NodeID{1, 2, 3}, nil, map[topology.NodeID]*host.Status{1: heard, 2: heard, 3: heard}, 3, true, []topology.NodeID{1, 2, 7}},
	} {
		clear(a.mu.nodes)
		clear(a.mu.left)
		for _, id := range c.present {
			a.mu.nodes[id] = meta.Node{ID: id}
		}
		for _, id := range c.left {
			a.mu.left[id] = time.Now()
		}
		d.Voters, d.Nodes = c.voters, c.had
		if got := a.ended(d, c.answers); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}
