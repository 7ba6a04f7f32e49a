package placement

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/cleavestore/cleave/replica/topology"
)

// Policy is what placement aims at. The zero value of a field is its default.
type Policy struct {
	Voters    int           // of each group whose report does not say otherwise; default 3
	Grace     time.Duration // for which a node may be silent before it counts as lost; default 30 s
	Patience  time.Duration // for which a step may be under way before it is planned anew; default 1 min
	Copy      time.Duration // for which a copy may be under way, beside what its bytes take, before another node is tried; default 30 min
	In, Out   int           // copies to and from a node at once; default 1 each
	Full      float64       // the share of a disk that may be used; default 0.85
	Tolerance float64       // by how much a node may be above the mean share in use; default 0.05

	SplitBytes int64   // of a group, above which it is split; default 50 GiB
	SplitLoad  float64 // of its leader in RU/s, above which it is split; default 10,000
	Splits     int     // under way on a node at once; default 2

	// Even has nodes that are equally full hold equally many replicas, up to one.
	Even bool
}

func (p Policy) withDefaults() Policy {
	p.Voters = cmp.Or(p.Voters, 3)
	p.Grace = cmp.Or(p.Grace, 30*time.Second)
	p.Patience = cmp.Or(p.Patience, time.Minute)
	p.Copy = cmp.Or(p.Copy, 30*time.Minute)
	p.In, p.Out = cmp.Or(p.In, 1), cmp.Or(p.Out, 1)
	p.Full, p.Tolerance = cmp.Or(p.Full, 0.85), cmp.Or(p.Tolerance, 0.05)
	p.SplitBytes, p.SplitLoad, p.Splits = cmp.Or(p.SplitBytes, 50<<30), cmp.Or(p.SplitLoad, 10_000), cmp.Or(p.Splits, 2)
	return p
}

// Node is a node as the planner is told of it.
type Node struct {
	ID topology.NodeID
	// Zone is what fails together, for instance a rack. Region is what data stays in: a voter
	// that is replaced is replaced in its region.
	Zone, Region string
	Bytes        int64   // of its disk
	Load         float64 // that it can carry, in RU/s
	Draining     bool    // it is to lose its replicas
	Live         bool    // it holds its lease
	// Since is when the node was heard of last; it matters while the node is not live.
	Since time.Time
}

// Report is what a group's leader tells of it.
type Report struct {
	Leader       topology.NodeID
	Bytes        int64   // of one replica
	LeaderLoad   float64 // RU/s at the leader
	FollowerLoad float64 // RU/s at each other replica
	CaughtUp     bool    // the incoming replica has all but the newest entries
	// Want is how many voters the group is to have; 0: those of the policy.
	Want int
	// Readers are the regions in which the group is to have a learner. Nil: that is not known, and none goes.
	Readers []string
}

// Kind says what a step does.
type Kind uint8

// The kinds of a step.
const (
	Add      Kind = iota + 1 // Node gets an incoming replica
	Promote                  // Replica votes
	Remove                   // Replica goes
	Transfer                 // the replica on Node is to lead
	Split                    // the leader chooses the cut
	Reader                   // Node gets a learner
)

func (k Kind) String() string {
	if k < Add || k > Reader {
		return fmt.Sprintf("kind %d", uint8(k))
	}
	return [...]string{"add", "promote", "remove", "transfer", "split", "reader"}[k-Add]
}

// Step is one change of one group.
type Step struct {
	Kind    Kind
	Group   topology.GroupID
	Epoch   uint64          // of the group that the step was planned for
	Node    topology.NodeID // of Add, Reader and Transfer
	Replica uint64          // of Promote and Remove
}

// Planner plans the steps of a cluster. It is for one goroutine.
type Planner struct {
	policy Policy
	nodes  map[topology.NodeID]*node
	order  []*node // by id
	groups map[topology.GroupID]*group
	// attention has the groups that may need a step other than for balance.
	attention map[topology.GroupID]bool
	// underway has the groups with a step under way.
	underway map[topology.GroupID]*group
	short    map[topology.GroupID]*group // groups with fewer live voters than they are to have
	copies   map[topology.GroupID]*group // groups with a replica that is incoming
	byHand   map[topology.GroupID]bool   // groups for which nothing is planned
}

// node is a node with what is on it, what is on its way to it included.
type node struct {
	Node
	groups     []topology.GroupID // in order
	held       int                // replicas that are not readers
	bytes      int64
	load       float64
	in, out    int
	splits     int
	lost       bool      // silent for longer than the grace
	everCalled bool      // Planner.Node has told of it
	stuck      time.Time // when a copy to it was given up; zero: none was lately
}

// group is a group as the planner knows it.
type group struct {
	*topology.Group
	Report
	step  Step // under way if its Kind is not 0
	since time.Time
	// whole is the epoch of the group in which a split that was begun at wholeSince has come to nothing.
	whole      uint64
	wholeSince time.Time
	copy       copying
}

// New returns a planner that knows nothing.
func New(p Policy) *Planner {
	return &Planner{
		policy:    p.withDefaults(),
		nodes:     make(map[topology.NodeID]*node),
		groups:    make(map[topology.GroupID]*group),
		attention: make(map[topology.GroupID]bool),
		underway:  make(map[topology.GroupID]*group),
		short:     make(map[topology.GroupID]*group),
		copies:    make(map[topology.GroupID]*group),
	}
}

// node returns the node with an id; one that was not told of counts as silent for ever.
func (p *Planner) node(id topology.NodeID) *node {
	n := p.nodes[id]
	if n == nil {
		n = &node{Node: Node{ID: id}}
		p.nodes[id] = n
		i, _ := slices.BinarySearchFunc(p.order, id, func(n *node, id topology.NodeID) int { return cmp.Compare(n.ID, id) })
		p.order = slices.Insert(p.order, i, n)
	}
	return n
}

// Node tells of a node, the first time or again.
func (p *Planner) Node(told Node) {
	n := p.node(told.ID)
	old := n.Node
	n.Node, n.everCalled = told, true
	if told.Live {
		n.lost = false
	}
	if old.Live != told.Live || old.Draining != told.Draining || old.Zone != told.Zone || old.Region != told.Region {
		p.attend(n)
	}
}

// attend has the groups of a node looked at.
func (p *Planner) attend(n *node) {
	for _, id := range n.groups {
		p.attention[id] = true
		p.look(p.groups[id])
	}
}

// look notes whether a group lacks a live voter.
func (p *Planner) look(k *group) {
	if live, _ := p.voters(k); live < p.wanted(k) {
		p.short[k.ID] = k
	} else {
		delete(p.short, k.ID)
	}
}

// wanted returns how many voters the group is to have.
func (p *Planner) wanted(k *group) int { return cmp.Or(k.Want, p.policy.Voters) }

// Group tells of a group, the first time or again. A descriptor that is older than one that
// the planner has is ignored.
func (p *Planner) Group(g *topology.Group, r Report) {
	k := p.groups[g.ID]
	if k == nil {
		k = &group{}
		p.groups[g.ID] = k
	} else {
		if g.Epoch < k.Epoch {
			return
		}
		if k.step.Kind != 0 && (g.Epoch > k.step.Epoch || k.step.Kind == Transfer && r.Leader == k.step.Node) {
			p.settle(k)
		}
		p.foresee(k, -1)
		p.count(k, -1)
	}
	k.Group, k.Report = g, r
	p.count(k, +1)
	p.foresee(k, +1)
	p.look(k)
	p.attention[g.ID] = true
}

// Forget tells that a group is not there any more: its container was dropped.
func (p *Planner) Forget(id topology.GroupID) {
	if k := p.groups[id]; k != nil {
		p.settle(k)
		p.count(k, -1)
		delete(p.groups, id)
		delete(p.short, id)
		delete(p.attention, id)
	}
}

// ForgetContainer is Forget of all groups of a container.
func (p *Planner) ForgetContainer(number uint64) {
	for id := range p.groups {
		if id.Number() == number {
			p.Forget(id)
		}
	}
}

// loadOn returns what a replica of the group takes of a node.
func (k *group) loadOn(n topology.NodeID) float64 {
	if n == k.Leader {
		return k.LeaderLoad
	}
	return k.FollowerLoad
}

// count adds a group to what its nodes hold, or takes it away.
func (p *Planner) count(k *group, sign int) {
	for _, r := range k.Replicas {
		n := p.node(r.Node)
		n.bytes += int64(sign) * k.Bytes
		n.load += float64(sign) * k.loadOn(r.Node)
		if r.Role != topology.Learner {
			n.held += sign
		}
		if r.Role == topology.Incoming {
			n.in += sign
			p.node(k.Leader).out += sign
			if sign > 0 {
				p.copies[k.ID] = k
			} else {
				delete(p.copies, k.ID)
			}
		}
		i, found := slices.BinarySearch(n.groups, k.ID)
		if sign > 0 && !found {
			n.groups = slices.Insert(n.groups, i, k.ID)
		} else if sign < 0 && found {
			n.groups = slices.Delete(n.groups, i, i+1)
		}
	}
}

// begin notes that a step is under way.
func (p *Planner) begin(k *group, s Step, now time.Time) Step {
	s.Group, s.Epoch = k.ID, k.Epoch
	k.step, k.since = s, now
	p.underway[k.ID] = k
	p.foresee(k, +1)
	return s
}

// settle notes that the group's step is not under way any more.
func (p *Planner) settle(k *group) {
	if k.step.Kind == 0 {
		return
	}
	p.foresee(k, -1)
	k.step = Step{}
	delete(p.underway, k.ID)
}

// splitAgain is how long after a split that has come to nothing another one is planned, if the group is as it was: the
// group may have but one logical partition.
const splitAgain = 5 * time.Minute

// refusesSplit reports whether a split of the group has come to nothing lately.
func (k *group) refusesSplit(now time.Time) bool {
	return k.whole == k.Epoch && now.Sub(k.wholeSince) < splitAgain
}

// Keep tells which steps are still to be carried out. Of the others that were under way, those that
// have changed a group are over, and those that were refused are planned anew without the patience of
// the policy; a split is, after splitAgain.
func (p *Planner) Keep(steps []Step) {
	kept := make(map[topology.GroupID]Step, len(steps))
	for _, s := range steps {
		kept[s.Group] = s
	}
	for id, k := range p.underway {
		if kept[id] != k.step {
			if k.step.Kind == Split { // if it was carried out, the group has another epoch
				k.whole, k.wholeSince = k.step.Epoch, k.since
			}
			p.settle(k)
			p.attention[id] = true
		}
	}
}

// ByHand tells which groups are changed by hand: nothing is planned for these and no others.
func (p *Planner) ByHand(groups []topology.GroupID) {
	p.byHand = make(map[topology.GroupID]bool, len(groups))
	for _, id := range groups {
		p.byHand[id] = true
	}
}

// foresee counts what a step that is under way will take.
func (p *Planner) foresee(k *group, sign int) {
	switch k.step.Kind {
	case Add, Reader:
		n := p.node(k.step.Node)
		n.in += sign
		n.bytes += int64(sign) * k.Bytes
		n.load += float64(sign) * k.FollowerLoad
		p.node(k.Leader).out += sign
	case Split:
		for _, r := range k.Replicas {
			p.node(r.Node).splits += sign
		}
	case Transfer:
		p.node(k.Leader).load += float64(sign) * (k.FollowerLoad - k.LeaderLoad)
		p.node(k.step.Node).load += float64(sign) * (k.LeaderLoad - k.FollowerLoad)
	}
}

// Status is what a cluster lacks.
type Status struct {
	Nodes, Lost int
	Groups      int
	Short       int // groups with fewer live voters than they are to have
	Stuck       int // of these, groups without a live majority: they wait for a node to come back
	Copies      int // replicas that are incoming
	Splits      int // under way
	// Mean and Max are the shares in use of what the live nodes have, of disk or of load,
	// whichever is the larger one of the node.
	Mean, Max float64
}

// Status counts. Its time depends on the number of nodes and of the groups that lack a voter.
func (p *Planner) Status() Status {
	s := Status{Nodes: len(p.order), Groups: len(p.groups), Short: len(p.short), Copies: len(p.copies)}
	var sum float64
	for _, n := range p.order {
		if !n.Live {
			s.Lost++
			continue
		}
		u := n.share(0, 0)
		sum += u
		s.Max = max(s.Max, u)
	}
	if live := s.Nodes - s.Lost; live > 0 {
		s.Mean = sum / float64(live)
	}
	for _, k := range p.short {
		if live, voters := p.voters(k); 2*live <= voters {
			s.Stuck++
		}
	}
	for _, k := range p.underway {
		if k.step.Kind == Split {
			s.Splits++
		}
	}
	return s
}

// share returns how much of what the node has would be in use with so much more.
func (n *node) share(bytes int64, load float64) float64 {
	u := 0.0
	if n.Bytes > 0 {
		u = float64(n.bytes+bytes) / float64(n.Bytes)
	}
	if n.Load > 0 {
		u = max(u, (n.load+load)/n.Load)
	}
	return u
}

// voters counts the group's voters, and those on live nodes.
func (p *Planner) voters(k *group) (live, all int) {
	for _, r := range k.Replicas {
		if r.Role == topology.Voter {
			all++
			if p.nodes[r.Node].Live {
				live++
			}
		}
	}
	return live, all
}
