package placement

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/replica/topology"
)

// cluster carries steps out, in random order and after random delays, and holds each against
// the rules.
type cluster struct {
	t       *testing.T
	r       *rand.Rand
	now     time.Time
	policy  Policy
	planner *Planner
	nodes   map[topology.NodeID]Node
	groups  map[topology.GroupID]*topology.Group
	reports map[topology.GroupID]Report
	steps   []Step
	next    topology.GroupID
	done    map[Kind]int
	deaf    map[topology.NodeID]bool // nodes that are live, and on which no copy catches up
}

func newCluster(t *testing.T, seed uint64, nodes, zones, groups int, p Policy) *cluster {
	c := &cluster{
		t: t, r: rand.New(rand.NewPCG(seed, 7)), now: time.Unix(1e9, 0), policy: p.withDefaults(), planner: New(p),
		nodes:   make(map[topology.NodeID]Node),
		groups:  make(map[topology.GroupID]*topology.Group),
		reports: make(map[topology.GroupID]Report),
		done:    make(map[Kind]int),
	}
	for i := range nodes {
		n := Node{ID: topology.NodeID(i + 1), Zone: fmt.Sprint("zone ", i%zones), Region: "here", Bytes: 1000, Load: 1000, Live: true, Since: c.now}
		c.tell(n)
	}
	for i, r := range partmap.Ranges(groups) {
		first := c.r.IntN(nodes)
		var on []topology.NodeID
		for k := range c.policy.Voters {
			on = append(on, topology.NodeID((first+k)%nodes+1))
		}
		g := topology.New(topology.GroupID(i+1), "c", r, on...)
		c.groups[g.ID] = g
		c.reports[g.ID] = Report{Leader: on[0], Bytes: int64(5 + c.r.IntN(10)), LeaderLoad: float64(c.r.IntN(12)), FollowerLoad: float64(c.r.IntN(4))}
		c.planner.Group(g, c.reports[g.ID])
	}
	c.next = topology.GroupID(groups + 1)
	return c
}

func (c *cluster) tell(n Node) {
	c.nodes[n.ID] = n
	c.planner.Node(n)
}

// live counts the voters of a group on live nodes.
func (c *cluster) live(g *topology.Group) (live int) {
	for _, r := range g.Replicas {
		if r.Role == topology.Voter && c.nodes[r.Node].Live {
			live++
		}
	}
	return live
}

// elect gives a group whose leader's node is gone another leader, if it has a majority.
func (c *cluster) elect(g *topology.Group) {
	rep := c.reports[g.ID]
	if _, on := g.On(rep.Leader); on && c.nodes[rep.Leader].Live || 2*c.live(g) <= g.Voters() {
		return
	}
	for _, r := range g.Replicas {
		if r.Role == topology.Voter && c.nodes[r.Node].Live {
			rep.Leader = r.Node
		}
	}
	c.reports[g.ID] = rep
	c.planner.Group(g, rep)
}

// round plans, and carries out some of what was planned.
func (c *cluster) round() {
	c.now = c.now.Add(time.Second)
	for _, s := range c.planner.Plan(c.now) {
		for _, o := range c.steps {
			if o.Group == s.Group && o.Epoch == s.Epoch && o.Kind != Transfer && c.now.Sub(time.Unix(1e9, 0)) < c.policy.Patience {
				c.t.Fatalf("step %+v while %+v is under way", s, o)
			}
		}
		if g, n := c.groups[s.Group], c.nodes[s.Node]; s.Kind == Add && c.crowdedBy(g, n) && c.free(g, n) {
			c.t.Errorf("%+v puts two voters of %+v into %s", s, g, n.Zone)
		}
		c.steps = append(c.steps, s)
	}
	in := make(map[topology.NodeID]int)
	for _, id := range c.ids() {
		if m, ok := c.groups[id].Moving(); ok {
			in[m.Node]++
		}
	}
	for n, copies := range in {
		if copies > c.policy.In {
			c.t.Fatalf("node %d gets %d copies at once", n, copies)
		}
	}
	c.r.Shuffle(len(c.steps), func(i, j int) { c.steps[i], c.steps[j] = c.steps[j], c.steps[i] })
	n := c.r.IntN(len(c.steps) + 1)
	for _, s := range c.steps[:n] {
		c.carryOut(s)
	}
	c.steps = slices.Delete(c.steps, 0, n)
	for _, id := range c.ids() {
		g, rep := c.groups[id], c.reports[id]
		c.elect(g)
		if m, ok := g.Moving(); ok && c.nodes[m.Node].Live && !c.deaf[m.Node] && c.r.IntN(3) == 0 {
			rep = c.reports[id]
			rep.CaughtUp = true
			c.reports[id] = rep
			c.planner.Group(g, rep)
		}
	}
}

func (c *cluster) ids() []topology.GroupID {
	var ids []topology.GroupID
	for id := range c.groups {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func (c *cluster) carryOut(s Step) {
	g, rep := c.groups[s.Group], c.reports[s.Group]
	if g.Epoch != s.Epoch || !c.nodes[rep.Leader].Live || 2*c.live(g) <= g.Voters() {
		return // the group refuses it
	}
	var err error
	next := g
	switch s.Kind {
	case Add:
		if c.nodes[s.Node].Draining {
			return
		}
		next, err = g.Add(s.Node, topology.Incoming)
		rep.CaughtUp = false
	case Reader:
		next, err = g.Add(s.Node, topology.Learner)
	case Promote:
		if !rep.CaughtUp {
			c.t.Errorf("%+v of a replica that has not caught up", s)
		}
		next, err = g.Promote(s.Replica)
		rep.CaughtUp = false
	case Remove:
		if next, err = g.Remove(s.Replica); err == nil {
			if 2*c.live(next) <= next.Voters() {
				c.t.Errorf("%+v leaves %+v without a live majority", s, next)
			}
			if _, on := next.On(rep.Leader); !on {
				c.t.Errorf("%+v removes the leader of %+v", s, g)
			}
		}
	case Transfer:
		if !c.nodes[s.Node].Live {
			return
		}
		rep.Leader = s.Node
	case Split:
		var right *topology.Group
		if next, right, err = g.Split(partmap.Midpoint(g.Range), c.next); err == nil {
			c.next++
			rep.Bytes, rep.LeaderLoad, rep.FollowerLoad = rep.Bytes/2, rep.LeaderLoad/2, rep.FollowerLoad/2
			c.groups[right.ID], c.reports[right.ID] = right, rep
			c.planner.Group(right, rep)
		}
	}
	if err != nil {
		c.t.Fatalf("%+v: %v", s, err)
	}
	c.done[s.Kind]++
	c.groups[g.ID], c.reports[g.ID] = next, rep
	c.planner.Group(next, rep)
}

// free reports whether a node in a zone without a voter of g could have taken the copy.
func (c *cluster) free(g *topology.Group, chosen Node) bool {
	for _, n := range c.nodes {
		if _, has := g.On(n.ID); !has && n.ID != chosen.ID && n.Live && !n.Draining && !c.crowdedBy(g, n) && c.planner.nodes[n.ID].in < c.policy.In {
			return true
		}
	}
	return false
}

func (c *cluster) zones() map[string]bool {
	zones := make(map[string]bool)
	for _, n := range c.nodes {
		if n.Live && !n.Draining {
			zones[n.Zone] = true
		}
	}
	return zones
}

// crowdedBy reports whether a voter of the group on another node that is not lost is in n's zone.
func (c *cluster) crowdedBy(g *topology.Group, n Node) bool {
	for _, r := range g.Replicas {
		if r.Node != n.ID && r.Role == topology.Voter && c.nodes[r.Node].Zone == n.Zone && !c.planner.nodes[r.Node].lost {
			return true
		}
	}
	return false
}

// settle runs until nothing is planned any more: longer than the grace, so that a silent node
// has been given up.
func (c *cluster) settle() {
	quiet := 0
	for range 20000 {
		c.round()
		if len(c.steps) > 0 || len(c.planner.underway) > 0 || c.moving() {
			quiet = 0
		} else if quiet++; quiet > int(c.policy.Grace/time.Second) {
			return
		}
	}
	c.t.Fatalf("still planning: %+v", c.planner.Status())
}

// moving reports whether a copy is under way.
func (c *cluster) moving() bool {
	for _, g := range c.groups {
		if _, is := g.Moving(); is {
			return true
		}
	}
	return false
}

// check holds the settled cluster against the policy.
func (c *cluster) check() {
	for _, id := range c.ids() {
		g := c.groups[id]
		if g.Voters() != c.policy.Voters || c.live(g) != c.policy.Voters || len(g.Replicas) != c.policy.Voters {
			c.t.Errorf("%+v", g)
		}
		zones := make(map[string]bool)
		for _, r := range g.Replicas {
			if c.nodes[r.Node].Draining {
				c.t.Errorf("%+v is on node %d, which drains", g, r.Node)
			}
			zones[c.nodes[r.Node].Zone] = true
		}
		if len(zones) < min(c.policy.Voters, len(c.zones())) {
			c.t.Errorf("%+v is in %d zones", g, len(zones))
		}
		if rep := c.reports[id]; rep.Bytes > c.policy.SplitBytes || rep.LeaderLoad > c.policy.SplitLoad {
			c.t.Errorf("group %d was not split: %+v", id, rep)
		}
	}
	// What the planner has counted step by step is what there is.
	if s := c.planner.Status(); s.Short != 0 || s.Stuck != 0 || s.Copies != 0 || s.Splits != 0 || s.Groups != len(c.groups) {
		c.t.Errorf("status of a settled cluster: %+v", s)
	}
	for id, n := range c.planner.nodes {
		var bytes int64
		load, held := 0.0, 0
		for gid, g := range c.groups {
			if r, on := g.On(id); on {
				if r.Role != topology.Learner {
					held++
				}
				bytes += c.reports[gid].Bytes
				if c.reports[gid].Leader == id {
					load += c.reports[gid].LeaderLoad
				} else {
					load += c.reports[gid].FollowerLoad
				}
			}
		}
		if n.held != held || n.bytes != bytes || n.load-load > 1e-6 || load-n.load > 1e-6 || n.in != 0 || n.out != 0 || n.splits != 0 {
			c.t.Errorf("node %d: counted %d replicas, %d bytes, load %v, %d in, %d out, %d splits; it has %d replicas, %d bytes, load %v",
				id, n.held, n.bytes, n.load, n.in, n.out, n.splits, held, bytes, load)
		}
	}
}

// TestClusters: random clusters lose, regain and drain nodes and grow; whatever is carried out
// late, in another order or not at all, they end as the policy wants them.
func TestClusters(t *testing.T) {
	done := make(map[Kind]int)
	for seed := range uint64(60) {
		p := Policy{SplitBytes: 20, SplitLoad: 15, Full: 0.95, In: 1 + int(seed%2)}
		heavy := seed%4 == 3 // a leader is a large part of what its node carries
		if heavy {
			p.SplitLoad = 1000
		}
		c := newCluster(t, seed, 12, 4+int(seed%3), 40, p)
		for id, rep := range c.reports {
			if heavy {
				rep.LeaderLoad, rep.FollowerLoad = rep.LeaderLoad*15, rep.FollowerLoad*10
				c.reports[id] = rep
				c.planner.Group(c.groups[id], rep)
			}
		}
		for range 6 {
			for range 40 {
				c.round()
			}
			n := c.nodes[topology.NodeID(c.r.IntN(12)+1)]
			switch c.r.IntN(4) {
			case 0: // a node is silent, for a moment or for good
				down := 0
				for _, o := range c.nodes {
					if !o.Live || o.Draining {
						down++
					}
				}
				if down < 2 {
					n.Live, n.Since = false, c.now
					c.tell(n)
				}
			case 1:
				for _, o := range c.nodes {
					o.Live = true
					c.tell(o)
				}
			case 2:
				id := c.ids()[c.r.IntN(len(c.groups))]
				rep := c.reports[id]
				rep.Bytes, rep.LeaderLoad = rep.Bytes+int64(c.r.IntN(30)), rep.LeaderLoad+float64(c.r.IntN(30))
				c.reports[id] = rep
				c.planner.Group(c.groups[id], rep)
			case 3:
				for _, o := range c.nodes {
					o.Draining = false
					c.tell(o)
				}
				n.Draining = true
				c.tell(n)
			}
		}
		for _, o := range c.nodes { // a group with two silent voters waits for one of them
			o.Live = o.Live || c.r.IntN(2) == 0
			c.tell(o)
		}
		for _, g := range c.groups {
			for _, r := range g.Replicas {
				if n := c.nodes[r.Node]; 2*c.live(g) <= g.Voters() {
					n.Live = true
					c.tell(n)
				}
			}
		}
		c.settle()
		c.check()
		for k, n := range c.done {
			done[k] += n
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	for k := Add; k <= Split; k++ {
		if done[k] == 0 {
			t.Errorf("no step %v was carried out", k)
		}
	}
	t.Log(done)
}

// TestNewNode: an empty node takes its share, and then nothing moves any more.
func TestNewNode(t *testing.T) {
	c := newCluster(t, 1, 6, 6, 120, Policy{SplitBytes: 1000, SplitLoad: 1000, In: 2})
	c.settle()
	c.tell(Node{ID: 7, Zone: "zone 6", Region: "here", Bytes: 1000, Load: 1000, Live: true})
	c.settle()
	c.check()
	s := c.planner.Status()
	if share := c.planner.nodes[7].share(0, 0); share < s.Mean-2*c.policy.Tolerance || s.Max > s.Mean+2*c.policy.Tolerance {
		t.Errorf("the new node has a share of %.2f; mean %.2f, most %.2f", share, s.Mean, s.Max)
	}
}

// TestGrace: a node that is back in time loses nothing; one that is not loses all its replicas.
func TestGrace(t *testing.T) {
	c := newCluster(t, 2, 5, 5, 30, Policy{SplitBytes: 1000, SplitLoad: 1000})
	c.settle()
	n := c.nodes[3]
	before := len(c.planner.nodes[3].groups)
	n.Live, n.Since = false, c.now
	c.tell(n)
	adds := c.done[Add]
	for range int(c.policy.Grace/time.Second) - 2 {
		c.round()
	}
	n.Live = true
	c.tell(n)
	c.settle()
	if c.done[Add] != adds || len(c.planner.nodes[3].groups) != before {
		t.Errorf("%d copies were made of a node that came back", c.done[Add]-adds)
	}
	n.Live, n.Since = false, c.now
	c.tell(n)
	for range int(c.policy.Grace/time.Second) + 1 {
		c.round()
	}
	c.settle()
	c.check()
	if left := len(c.planner.nodes[3].groups); left != 0 || before == 0 {
		t.Errorf("a lost node has %d replicas of %d", left, before)
	}
}

// TestCopyStuck: a node is live, and no copy that it gets catches up. Other nodes get these, for repair as for balance, and it is
// tried again later. Where no other node can have a copy, the one that is under way stays.
func TestCopyStuck(t *testing.T) {
	for _, tt := range []struct{ nodes, lost, live int }{{7, 4, 3}, {4, 1, 3}, {3, 1, 2}} {
		c := newCluster(t, 5, tt.nodes, tt.nodes, 30, Policy{SplitBytes: 1000, SplitLoad: 1000, Copy: 3 * time.Minute})
		c.settle()
		deaf := topology.NodeID(tt.nodes + 1)
		c.deaf = map[topology.NodeID]bool{deaf: true}
		c.tell(Node{ID: deaf, Zone: "new", Region: "here", Bytes: 1000, Load: 1000, Live: true, Since: c.now})
		run := func(d time.Duration) {
			for range int(d / time.Second) {
				c.round()
			}
		}
		run(5 * time.Minute)
		for id := topology.NodeID(1); int(id) <= tt.lost; id++ {
			n := c.nodes[id]
			n.Live, n.Since = false, c.now
			c.tell(n)
			run(20 * time.Minute)
		}
		copies := 0
		for _, id := range c.ids() {
			g := c.groups[id]
			if _, is := g.On(deaf); is {
				copies++
			}
			if live := c.live(g); live < tt.live {
				t.Errorf("%d nodes: group %d has %d live voters: %+v", tt.nodes, id, live, g.Replicas)
			}
		}
		if copies > 1 {
			t.Errorf("%d nodes: %d copies of the node at once", tt.nodes, copies)
		}
		delete(c.deaf, deaf)
		run(time.Hour)
		c.settle()
		c.check()
		if len(c.planner.nodes[deaf].groups) == 0 {
			t.Errorf("%d nodes: the node is well, and has got nothing", tt.nodes)
		}
	}
}

// TestStuck: a group that has lost its majority is left alone until a node comes back.
func TestStuck(t *testing.T) {
	c := newCluster(t, 3, 6, 6, 1, Policy{})
	for _, r := range c.groups[1].Replicas[:2] {
		n := c.nodes[r.Node]
		n.Live, n.Since = false, c.now
		c.tell(n)
	}
	for range 100 {
		c.round()
	}
	if s := c.planner.Status(); s.Stuck != 1 || len(c.done) != 0 {
		t.Errorf("status %+v, done %v", s, c.done)
	}
	n := c.nodes[c.groups[1].Replicas[0].Node]
	n.Live = true
	c.tell(n)
	c.settle()
	c.check()
}

// TestKeep: a step that was refused is planned anew at the next plan, and one that is still to be
// carried out is not, nor one for a group that is changed by hand.
func TestKeep(t *testing.T) {
	c := newCluster(t, 4, 4, 4, 1, Policy{})
	g := c.groups[1]
	lost := c.nodes[g.Replicas[1].Node]
	lost.Live, lost.Since = false, c.now.Add(-time.Hour)
	c.tell(lost)
	first := c.planner.Plan(c.now)
	if len(first) != 1 || first[0].Kind != Add {
		t.Fatalf("%+v", first)
	}
	c.planner.Keep(first)
	if again := c.planner.Plan(c.now); len(again) != 0 {
		t.Errorf("a step that is under way was planned again: %+v", again)
	}
	c.planner.Keep(nil)
	c.planner.ByHand([]topology.GroupID{1})
	if again := c.planner.Plan(c.now); len(again) != 0 {
		t.Errorf("a step for a group that is changed by hand: %+v", again)
	}
	c.planner.ByHand(nil)
	if again := c.planner.Plan(c.now); !slices.Equal(again, first) {
		t.Errorf("after a refusal: %+v, not %+v", again, first)
	}
}

// TestForget: what a dropped container took is free again.
func TestForget(t *testing.T) {
	c := newCluster(t, 4, 4, 4, 20, Policy{})
	c.planner.Plan(c.now)
	for id := range c.groups {
		c.planner.Forget(id)
		delete(c.groups, id)
	}
	c.check()
	if s := c.planner.Status(); s.Groups != 0 || s.Max != 0 || len(c.planner.Plan(c.now)) != 0 {
		t.Errorf("%+v", s)
	}
}

// TestEven: a node that joins gets as many replicas as the others have, though all are nearly empty,
// and then nothing moves any more.
func TestEven(t *testing.T) {
	for seed := range uint64(20) {
		c := newCluster(t, seed, 3, 1, 9, Policy{Even: true})
		for _, n := range c.nodes {
			n.Bytes, n.Load, n.Zone = 1<<40, 0, ""
			c.tell(n)
		}
		c.tell(Node{ID: 4, Region: "here", Bytes: 1 << 40, Live: true, Since: c.now})
		for range 600 {
			c.round()
		}
		held := make(map[topology.NodeID]int)
		for _, g := range c.groups {
			for _, r := range g.Replicas {
				held[r.Node]++
			}
		}
		for n, k := range held {
			if k < 6 || k > 7 {
				t.Errorf("seed %d: node %d has %d of 27 replicas", seed, n, k)
			}
		}
		if moves := c.done[Add]; moves > 8 {
			t.Errorf("seed %d: %d copies for 6 or 7 that are needed", seed, moves)
		}
	}
}

// TestReaders: a group has one learner in each region that asks for one, another one when its node
// drains or is lost, and its voters stay in their region.
func TestReaders(t *testing.T) {
	c := newCluster(t, 1, 3, 3, 4, Policy{})
	for id := topology.NodeID(4); id <= 6; id++ {
		c.tell(Node{ID: id, Region: "there", Bytes: 1000, Load: 1000, Live: true, Since: c.now})
	}
	for id, rep := range c.reports {
		rep.Readers = []string{"there", "here", "nowhere"}
		c.reports[id] = rep
		c.planner.Group(c.groups[id], rep)
	}
	check := func(without topology.NodeID) {
		t.Helper()
		for range 300 {
			c.round()
		}
		for _, g := range c.groups {
			readers := 0
			for _, r := range g.Replicas {
				switch {
				case r.Node == without:
					t.Errorf("group %d is on node %d: %+v", g.ID, without, g.Replicas)
				case r.Role == topology.Learner && r.Node > 3:
					readers++
				case r.Role != topology.Voter || r.Node > 3:
					t.Errorf("group %d: %+v", g.ID, r)
				}
			}
			if readers != 1 || g.Voters() != 3 {
				t.Errorf("group %d has %d readers and %d voters", g.ID, readers, g.Voters())
			}
		}
	}
	check(0)
	n := c.nodes[4]
	n.Draining = true
	c.tell(n)
	check(4)
	n = c.nodes[5]
	n.Live, n.Since = false, c.now
	c.tell(n)
	check(5)
}

// TestOwnVoters: a group of a container that is to have another number of voters than others is brought to it, and stays.
func TestOwnVoters(t *testing.T) {
	c := newCluster(t, 1, 6, 6, 4, Policy{})
	want := make(map[topology.GroupID]int)
	for id, rep := range c.reports {
		rep.Want = []int{1, 5, 0}[int(id)%3]
		want[id] = cmp.Or(rep.Want, 3)
		c.reports[id] = rep
		c.planner.Group(c.groups[id], rep)
	}
	for range 300 {
		c.round()
	}
	for id, g := range c.groups {
		if g.Voters() != want[id] || len(g.Replicas) != want[id] {
			t.Errorf("group %d has %d voters and %d replicas, want %d", id, g.Voters(), len(g.Replicas), want[id])
		}
	}
	if s := c.planner.Status(); s.Short != 0 {
		t.Errorf("%d groups lack a voter", s.Short)
	}
}
