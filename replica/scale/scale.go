// Package scale simulates a large cluster: it runs the planner of package placement and the
// map of package topology as they are, and models nodes, copies and elections by their time.
// So it tells how long a cluster takes to recover, what the map and the metadata store have
// to bear, and which bound is met first, before such a cluster exists.
//
// # The model
//
// One step is one second. A node that dies is noticed when its lease ends; a group whose
// leader was on it elects another one in two seconds. A copy takes the group's bytes divided
// by Config.CopyRate. A split takes Config.SplitTime, and gives each half between 30 and 70 %
// of the load. A change of a group that involves no copy takes one step. Steps of the planner
// reach the groups with the next second. Leaders report a load that has changed by a tenth.
//
// Not modelled: what copies take of the nodes' processors, queues of requests, networks
// between racks.
package scale

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/replica/placement"
	"github.com/cleavestore/cleave/replica/topology"
)

// Config says how large the cluster is, and what happens to it.
type Config struct {
	Seed                 uint64
	Nodes, Racks, Groups int
	GroupBytes           int64         // of one replica
	NodeBytes            int64         // of the disk of a node
	NodeLoad             float64       // RU/s that a node carries
	Share                float64       // of all that load, which is in use at the beginning
	FollowerShare        float64       // what a follower bears of its leader's load: the writes
	CopyRate             float64       // bytes per second of one copy
	Lease                time.Duration // of a node
	SplitTime            time.Duration
	Policy               placement.Policy

	Rise     float64 // by how much the load of every group rises
	RiseTime time.Duration
	Limit    time.Duration // after which an event counts as not settled
}

// Default is a petabyte on a thousand nodes.
func Default() Config {
	return Config{
		Seed: 1, Nodes: 1000, Racks: 25, Groups: 100_000,
		GroupBytes: 10e9, NodeBytes: 8e12, NodeLoad: 200_000, Share: 0.05, FollowerShare: 0.4,
		CopyRate: 100e6, Lease: 10 * time.Second, SplitTime: 5 * time.Second,
		Rise: 10, RiseTime: time.Minute, Limit: 3 * time.Hour,
	}
}

// Check returns an error that names the first field that cannot be simulated.
func (c Config) Check() error {
	voters := cmp.Or(c.Policy.Voters, 3)
	switch {
	case c.Racks <= voters:
		return fmt.Errorf("%d racks: there must be more than the %d voters of a group, so that one can be lost", c.Racks, voters)
	case c.Nodes < c.Racks:
		return fmt.Errorf("%d nodes in %d racks: each rack needs a node", c.Nodes, c.Racks)
	case c.Groups < 1:
		return fmt.Errorf("%d groups: there must be one", c.Groups)
	case c.GroupBytes < 1 || !(c.CopyRate >= 1) || !(c.NodeLoad > 0) || !(c.Share > 0) || !(c.Rise > 0):
		return fmt.Errorf("bytes of a group, rate of copies, load, share and rise must be above 0")
	}
	if need := float64(c.GroupBytes) * float64(c.Groups) * float64(voters); need > 0.8*float64(c.NodeBytes)*float64(c.Nodes) {
		return fmt.Errorf("%.1f TB on %d disks of %.1f TB: no room for the loss of a rack", need/1e12, c.Nodes, float64(c.NodeBytes)/1e12)
	}
	return nil
}

// Phase is what was seen from one event until the cluster had settled.
type Phase struct {
	Name       string
	Settled    time.Duration // until nothing was planned or under way any more; 0: not within the limit
	Replicated time.Duration // until every group had all its voters again; 0: it always had, or not within the limit
	Spread     time.Duration // until no node was above 90 % of its load; 0: none was, or not within the limit
	Stuck      int           // groups without a majority, at most
	Short      int           // groups with too few live voters, at most
	Copies     int           // made
	CopyBytes  int64
	Splits     int // made
	SplitsAtOnce,
	CopiesAtOnce int
	Transfers          int
	Writes, PeakWrites int           // of descriptors to the metadata store; the most in a second
	WriteBytes         int64         // of these
	Mean, Max          float64       // shares in use at the end, and
	Peak               float64       // the largest on the way
	PlanTime           time.Duration // the longest plan, on this machine
	Groups             int           // at the end
}

// Cluster is a simulated cluster.
type Cluster struct {
	cfg     Config
	r       *rand.Rand
	start   time.Time
	now     time.Time
	planner *placement.Planner
	routes  *topology.Map
	nodes   []placement.Node // by id - 1
	died    []time.Time      // of the nodes that are not live; zero if they are
	groups  []*group         // by id - 1
	changed map[topology.GroupID]bool
	events  map[time.Time][]func()
	pending int // events to come
	phase   *Phase
	second  int // writes in this second
	scratch []byte
}

type group struct {
	*topology.Group
	placement.Report
	told placement.Report
}

const container = "c"

// New returns a cluster at rest, each group in as many racks as it has voters, which are drawn
// by chance: if neighbours shared their groups, only they could send what one of them loses.
func New(cfg Config) *Cluster {
	c := &Cluster{
		cfg: cfg, r: rand.New(rand.NewPCG(cfg.Seed, 3)), start: time.Unix(0, 0), now: time.Unix(0, 0),
		planner: placement.New(cfg.Policy), routes: topology.NewMap(),
		changed: make(map[topology.GroupID]bool), events: make(map[time.Time][]func()), phase: new(Phase),
	}
	for i := range cfg.Nodes {
		n := placement.Node{
			ID: topology.NodeID(i + 1), Zone: fmt.Sprint("rack ", i%cfg.Racks), Region: "region",
			Bytes: cfg.NodeBytes, Load: cfg.NodeLoad, Live: true, Since: c.now,
		}
		c.nodes = append(c.nodes, n)
		c.planner.Node(n)
	}
	c.died = make([]time.Time, cfg.Nodes)
	voters := cmp.Or(cfg.Policy.Voters, 3)
	// Loads are log-normal with a standard deviation of 1.5: one group in a thousand has
	// a hundred times the load of the median one.
	loads, sum := make([]float64, cfg.Groups), 0.0
	for i := range loads {
		loads[i] = math.Exp(1.5 * c.r.NormFloat64())
		sum += loads[i]
	}
	whole := cfg.NodeLoad * float64(cfg.Nodes) * cfg.Share / (1 + float64(voters-1)*cfg.FollowerShare)
	for i, r := range partmap.Ranges(cfg.Groups) {
		var on []topology.NodeID
		for _, rack := range c.r.Perm(cfg.Racks)[:voters] {
			perRack := (cfg.Nodes - rack + cfg.Racks - 1) / cfg.Racks
			on = append(on, topology.NodeID(rack+cfg.Racks*c.r.IntN(perRack)+1))
		}
		load := loads[i] / sum * whole
		g := &group{
			Group:  topology.New(topology.GroupID(i+1), container, r, on...),
			Report: placement.Report{Leader: on[c.r.IntN(voters)], Bytes: cfg.GroupBytes, LeaderLoad: load, FollowerLoad: load * cfg.FollowerShare},
		}
		c.groups = append(c.groups, g)
		c.tell(g)
		c.routes.Update(g.Group)
	}
	return c
}

// Map returns the number of groups in the map, and the bytes of their descriptors.
func (c *Cluster) Map() (groups int, bytes int64) {
	for _, g := range c.groups {
		bytes += int64(len(g.Append(c.scratch[:0])))
	}
	return c.routes.Len(), bytes
}

// tell reports a group to the planner.
func (c *Cluster) tell(g *group) {
	g.told = g.Report
	c.planner.Group(g.Group, g.Report)
}

// write changes a group's descriptor: every node hears of it through the metadata store.
func (c *Cluster) write(g *group, next *topology.Group) {
	g.Group = next
	c.scratch = next.Append(c.scratch[:0])
	c.phase.Writes++
	c.phase.WriteBytes += int64(len(c.scratch))
	c.second++
	c.routes.Update(next)
	c.tell(g)
}

func (c *Cluster) after(d time.Duration, f func()) {
	at := c.now.Add(max(d.Round(time.Second), time.Second))
	c.events[at] = append(c.events[at], f)
	c.pending++
}

// live reports whether a node is up, whatever its lease says.
func (c *Cluster) live(n topology.NodeID) bool { return c.died[n-1].IsZero() }

// majority reports whether a group can agree on anything.
func (c *Cluster) majority(g *group) bool {
	live := 0
	for _, r := range g.Replicas {
		if r.Role == topology.Voter && c.live(r.Node) {
			live++
		}
	}
	return 2*live > g.Voters()
}

// tick is one second.
func (c *Cluster) tick() (busy bool) {
	c.now = c.now.Add(time.Second)
	c.second = 0
	due := c.events[c.now]
	delete(c.events, c.now)
	c.pending -= len(due)
	for _, f := range due {
		f()
	}
	began := time.Now()
	steps := c.planner.Plan(c.now)
	c.phase.PlanTime = max(c.phase.PlanTime, time.Since(began))
	for _, s := range steps {
		c.after(time.Second, func() { c.carryOut(s) })
	}
	c.phase.PeakWrites = max(c.phase.PeakWrites, c.second)
	return c.pending > 0
}

// carryOut is what the leader of a group does with a step.
func (c *Cluster) carryOut(s placement.Step) {
	g := c.groups[s.Group-1]
	if g.Epoch != s.Epoch || !c.live(g.Leader) || !c.majority(g) {
		return
	}
	switch s.Kind {
	case placement.Add:
		next, err := g.Add(s.Node, topology.Incoming)
		if err != nil {
			return
		}
		c.write(g, next)
		c.phase.Copies++
		c.phase.CopyBytes += g.Bytes
		c.after(time.Duration(float64(g.Bytes)/c.cfg.CopyRate*float64(time.Second)), func() {
			if r, on := g.Moving(); on && r.Node == s.Node && c.live(s.Node) {
				g.CaughtUp = true
				c.tell(g)
			}
		})
	case placement.Promote:
		if next, err := g.Promote(s.Replica); err == nil {
			g.CaughtUp = false
			c.write(g, next)
		}
	case placement.Remove:
		if next, err := g.Remove(s.Replica); err == nil {
			g.CaughtUp = false
			c.write(g, next)
		}
	case placement.Transfer:
		if c.live(s.Node) {
			g.Leader = s.Node
			c.phase.Transfers++
			c.tell(g)
		}
	case placement.Split:
		c.after(c.cfg.SplitTime, func() { c.split(g, s) })
	}
}

func (c *Cluster) split(g *group, s placement.Step) {
	if g.Epoch != s.Epoch || !c.majority(g) {
		return
	}
	left, right, err := g.Split(partmap.Midpoint(g.Range), topology.GroupID(len(c.groups)+1))
	if err != nil {
		return
	}
	share := 0.3 + 0.4*c.r.Float64()
	r := &group{Group: right, Report: g.Report}
	r.Bytes = int64(float64(g.Bytes) * (1 - share))
	r.LeaderLoad, r.FollowerLoad = g.LeaderLoad*(1-share), g.FollowerLoad*(1-share)
	g.Bytes -= r.Bytes
	g.LeaderLoad, g.FollowerLoad = g.LeaderLoad*share, g.FollowerLoad*share
	c.groups = append(c.groups, r)
	c.phase.Splits++
	c.write(g, left)
	c.write(r, right)
}

// run ticks until nothing happens any more, and returns what was seen.
func (c *Cluster) run(name string, begin func()) Phase {
	c.phase = &Phase{Name: name}
	p := c.phase
	start := c.now
	begin()
	quiet, last := 0, c.now
	short, overloaded := false, false
	for c.now.Sub(start) < c.cfg.Limit {
		if c.tick() {
			quiet, last = 0, c.now
		} else {
			quiet++
		}
		s := c.planner.Status()
		p.Stuck, p.Short, p.Peak = max(p.Stuck, s.Stuck), max(p.Short, s.Short), max(p.Peak, s.Max)
		p.SplitsAtOnce, p.CopiesAtOnce = max(p.SplitsAtOnce, s.Splits), max(p.CopiesAtOnce, s.Copies)
		p.Mean, p.Max, p.Groups = s.Mean, s.Max, s.Groups
		if s.Short > 0 {
			short, p.Replicated = true, 0
		} else if short && p.Replicated == 0 {
			p.Replicated = c.now.Sub(start)
		}
		if s.Max > 0.9 {
			overloaded, p.Spread = true, 0
		} else if overloaded && p.Spread == 0 {
			p.Spread = c.now.Sub(start)
		}
		if quiet > int(2*time.Minute/time.Second) {
			p.Settled = max(last.Sub(start), time.Second)
			break
		}
	}
	return *p
}

// Settle lets the cluster come to rest.
func (c *Cluster) Settle() Phase { return c.run("at rest", func() {}) }

// RaiseLoad multiplies the load of every group by Config.Rise, evenly over Config.RiseTime.
func (c *Cluster) RaiseLoad() Phase {
	return c.run(fmt.Sprintf("load × %g", c.cfg.Rise), func() {
		seconds := int(c.cfg.RiseTime / time.Second)
		// The load of a half of a split goes on rising, so the factor of each second is one.
		factor := math.Pow(c.cfg.Rise, 1/float64(seconds))
		for i := range seconds {
			c.after(time.Duration(i+1)*time.Second, func() {
				for _, g := range c.groups {
					g.LeaderLoad *= factor
					g.FollowerLoad *= factor
					if math.Abs(g.LeaderLoad-g.told.LeaderLoad) > g.told.LeaderLoad/10 || i == seconds-1 {
						c.tell(g)
					}
				}
			})
		}
	})
}

// LoseRack takes the power from all nodes of the first rack, for good.
func (c *Cluster) LoseRack() Phase {
	return c.run("a rack lost", func() {
		zone := c.nodes[0].Zone
		for i := range c.nodes {
			if c.nodes[i].Zone == zone {
				c.died[i] = c.now
			}
		}
		c.after(2*time.Second, func() {
			for _, g := range c.groups {
				if c.live(g.Leader) {
					continue
				}
				if i := slices.IndexFunc(g.Replicas, func(r topology.Replica) bool {
					return r.Role == topology.Voter && c.live(r.Node)
				}); i >= 0 && c.majority(g) {
					g.Leader = g.Replicas[i].Node
					c.tell(g)
				}
			}
		})
		c.after(c.cfg.Lease, func() {
			for i := range c.nodes {
				if !c.died[i].IsZero() && c.nodes[i].Live {
					c.nodes[i].Live, c.nodes[i].Since = false, c.died[i]
					c.planner.Node(c.nodes[i])
				}
			}
		})
	})
}
