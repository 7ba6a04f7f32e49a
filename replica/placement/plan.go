package placement

import (
	"cmp"
	"slices"
	"time"

	"github.com/cleavestore/cleave/replica/topology"
)

// need says why a group needs a step; lower is more urgent.
type need uint8

const (
	oneFailureFromLoss need = iota // the live voters are the smallest majority
	tooFew
	finish   // a replica that has caught up, or one too many
	handOver // the leader is on a node that drains
	drain
	crowded // two voters in one zone
	reader  // a region lacks its learner, or one is to go
	tooLarge
	nothing
)

// Plan returns the steps that are to be begun now.
func (p *Planner) Plan(now time.Time) []Step {
	for _, n := range p.order {
		if !n.Live && !n.lost && (!n.everCalled || now.Sub(n.Since) >= p.policy.Grace) {
			n.lost = true
			p.attend(n)
		}
	}
	p.watchCopies(now)
	for _, k := range p.underway {
		if now.Sub(k.since) >= p.policy.Patience {
			p.settle(k)
			p.attention[k.ID] = true
		}
	}

	type urgent struct {
		k *group
		n need
	}
	var waiting []urgent
	for id := range p.attention {
		k := p.groups[id]
		if k == nil {
			delete(p.attention, id)
			continue
		}
		if k.step.Kind != 0 || p.byHand[id] {
			continue
		}
		if n := p.need(k); n == nothing {
			delete(p.attention, id)
		} else {
			waiting = append(waiting, urgent{k, n})
		}
	}
	slices.SortFunc(waiting, func(a, b urgent) int {
		return cmp.Or(cmp.Compare(a.n, b.n), cmp.Compare(a.k.ID, b.k.ID))
	})
	free := 0 // nodes that can take a copy
	for _, n := range p.order {
		if n.takes(p.policy) {
			free++
		}
	}
	var steps []Step
	var blocked []*group // the nodes of their leaders have copies to send
	for _, u := range waiting {
		if u.n == tooLarge && u.k.refusesSplit(now) {
			continue
		}
		s, ok := p.next(u.k, u.n, free > 0)
		if !ok {
			if u.n.copies() && p.nodes[u.k.Leader].out >= p.policy.Out {
				blocked = append(blocked, u.k)
			}
			continue
		}
		steps = append(steps, p.begin(u.k, s, now))
		if s.Kind == Add && !p.nodes[s.Node].takes(p.policy) {
			free--
		}
	}
	// A node that sends nothing while others have a queue leads a group of the queue next.
	chosen := make(map[topology.NodeID]bool)
	for _, k := range blocked {
		if free == 0 {
			break
		}
		for _, r := range k.Replicas {
			n := p.nodes[r.Node]
			if r.Role == topology.Voter && n.Live && !n.Draining && n.out < p.policy.Out && !chosen[r.Node] {
				chosen[r.Node] = true
				steps = append(steps, p.begin(k, Step{Kind: Transfer, Node: r.Node}, now))
				break
			}
		}
	}
	return append(steps, p.balance(now)...)
}

// copies reports whether the need is met by a copy.
func (n need) copies() bool {
	return n == oneFailureFromLoss || n == tooFew || n == drain || n == crowded || n == reader
}

// takes reports whether the node may get another copy.
func (n *node) takes(p Policy) bool {
	return n.Live && !n.Draining && n.in < p.In
}

// need returns the most urgent need of the group.
func (p *Planner) need(k *group) need {
	live, voters := p.voters(k)
	if 2*live <= voters {
		return nothing // no step can be agreed on; the return of a node has it looked at
	}
	lost, lostVoter, draining := false, false, false
	for _, r := range k.Replicas {
		n := p.nodes[r.Node]
		lost = lost || n.lost
		lostVoter = lostVoter || n.lost && r.Role == topology.Voter
		draining = draining || n.Draining && r.Role != topology.Learner
	}
	switch moving, is := k.Moving(); {
	case is && (k.CaughtUp || p.nodes[moving.Node].lost || p.givesUp(k)):
		return finish
	case is:
		return nothing // a report says when it has caught up
	case !p.nodes[k.Leader].Live:
		return nothing // so does a new leader
	}
	switch want := p.wanted(k); {
	case live < want && lostVoter && live == voters/2+1:
		return oneFailureFromLoss
	case voters < want || live < want && lostVoter:
		return tooFew
	case voters > want, lost:
		if r := p.spare(k); p.nodes[r.Node].Live && 2*(live-1) <= voters-1 {
			return nothing // those that are left would be no majority; a silent one comes back or is lost
		}
		return finish
	case draining:
		if _, can := p.handOver(k); can && p.nodes[k.Leader].Draining {
			return handOver
		}
		return drain
	case p.isCrowded(k):
		return crowded
	case p.lacksReader(k) || p.spareReader(k).ID != 0:
		return reader
	case k.Bytes > p.policy.SplitBytes, k.LeaderLoad > p.policy.SplitLoad:
		return tooLarge
	}
	return nothing
}

// next returns the step that a need asks for; ok is false if it must wait.
func (p *Planner) next(k *group, n need, free bool) (s Step, ok bool) {
	switch n {
	case finish:
		return p.finish(k)
	case handOver:
		return p.handOver(k)
	case tooLarge:
		for _, r := range k.Replicas {
			if node := p.nodes[r.Node]; !node.Live || node.splits >= p.policy.Splits {
				return Step{}, false
			}
		}
		return Step{Kind: Split}, true
	case reader:
		if r := p.spareReader(k); r.ID != 0 {
			return Step{Kind: Remove, Replica: r.ID}, true
		}
	}
	if !free || p.nodes[k.Leader].out >= p.policy.Out {
		return Step{}, false
	}
	if n == reader {
		return p.reader(k)
	}
	if target := p.target(k, n == crowded); target != nil {
		return Step{Kind: Add, Node: target.ID}, true
	}
	return Step{}, false
}

// finish returns what ends a move: the replica that has come votes, or one too many goes.
func (p *Planner) finish(k *group) (s Step, ok bool) {
	if r, moving := k.Moving(); moving {
		if !k.CaughtUp || p.nodes[r.Node].lost {
			return Step{Kind: Remove, Replica: r.ID}, true
		}
		return Step{Kind: Promote, Replica: r.ID}, true
	}
	r := p.spare(k)
	if r.Node == k.Leader {
		return p.handOver(k)
	}
	return Step{Kind: Remove, Replica: r.ID}, true
}

// spare returns the replica that the group can do without best: on a lost node, on one that
// drains, in a zone with another voter, on the node that has least left without it. The
// choice does not depend on who leads, since the leader hands over before it is removed.
func (p *Planner) spare(k *group) topology.Replica {
	zones := p.zones(k)
	rank := func(r topology.Replica) (lost, draining, crowd, held int, share float64) {
		n := p.nodes[r.Node]
		if n.lost {
			lost = 1
		}
		if n.Draining {
			draining = 1
		}
		share = n.share(-k.Bytes, -k.loadOn(n.ID))
		if p.policy.Even { // of nodes that are about equally full the one with the most replicas
			held = int(share/p.policy.Tolerance)<<32 + n.held
		}
		return lost, draining, zones[n.Zone], held, share
	}
	return slices.MaxFunc(k.Replicas, func(a, b topology.Replica) int {
		if p.voterOf(a) != p.voterOf(b) { // a learner goes only if its node is lost
			return cmp.Compare(p.voterOf(a), p.voterOf(b))
		}
		al, ad, ac, ah, as := rank(a)
		bl, bd, bc, bh, bs := rank(b)
		return cmp.Or(cmp.Compare(al, bl), cmp.Compare(ad, bd), cmp.Compare(ac, bc), cmp.Compare(ah, bh), cmp.Compare(as, bs), cmp.Compare(b.ID, a.ID))
	})
}

// voterOf is 1 for a replica that may be the spare one.
func (p *Planner) voterOf(r topology.Replica) int {
	if r.Role == topology.Voter || p.nodes[r.Node].lost {
		return 1
	}
	return 0
}

// handOver returns a transfer to the live voter with the most left that does not drain, or if
// all drain, nothing.
func (p *Planner) handOver(k *group) (s Step, ok bool) {
	var best *node
	for _, r := range k.Replicas {
		n := p.nodes[r.Node]
		if r.Role != topology.Voter || r.Node == k.Leader || !n.Live || n.Draining {
			continue
		}
		if best == nil || n.share(0, 0) < best.share(0, 0) {
			best = n
		}
	}
	if best == nil {
		return Step{}, false
	}
	return Step{Kind: Transfer, Node: best.ID}, true
}

// zones counts the group's voters in each zone, those on lost nodes left out.
func (p *Planner) zones(k *group) map[string]int {
	zones := make(map[string]int, len(k.Replicas))
	for _, r := range k.Replicas {
		if n := p.nodes[r.Node]; r.Role != topology.Learner && !n.lost {
			zones[n.Zone]++
		}
	}
	return zones
}

// crowd returns a zone with two voters of the group, "" if there is none.
func (p *Planner) crowd(k *group) string {
	for _, r := range k.Replicas {
		if r.Role != topology.Voter {
			continue
		}
		n := p.nodes[r.Node]
		for _, o := range k.Replicas {
			if o.ID > r.ID && o.Role == topology.Voter && n.Zone != "" && p.nodes[o.Node].Zone == n.Zone {
				return n.Zone
			}
		}
	}
	return ""
}

// isCrowded reports whether two voters are in one zone and a node in a zone without any could
// have one, if not now.
func (p *Planner) isCrowded(k *group) bool {
	if p.crowd(k) == "" {
		return false
	}
	zones := p.zones(k)
	return slices.ContainsFunc(p.order, func(n *node) bool { return zones[n.Zone] == 0 && !n.isStuck() && p.fits(k, n) })
}

// fits reports whether the node may have a replica of the group, in the region of its leader.
func (p *Planner) fits(k *group, n *node) bool {
	_, has := k.On(n.ID)
	return !has && n.Region == p.nodes[k.Leader].Region && p.hasRoom(k, n)
}

// hasRoom reports whether a replica of the group could be on the node.
func (p *Planner) hasRoom(k *group, n *node) bool {
	return n.Live && !n.Draining && float64(n.bytes+k.Bytes) <= p.policy.Full*float64(n.Bytes)
}

// target returns the best node for another replica of the group, nil if there is none now: in
// a zone with the fewest voters of the group and, if spread is set, with none; there the one
// with the most left. One on which copies get stuck is the last choice, and none for a spread.
func (p *Planner) target(k *group, spread bool) *node {
	zones := p.zones(k)
	var best *node
	var bestCrowd int
	var bestShare float64
	for _, n := range p.order {
		if n.in >= p.policy.In {
			continue
		}
		crowd := zones[n.Zone]
		if n.Zone == "" {
			crowd = 0
		}
		if n.isStuck() {
			crowd += len(k.Replicas) // more than any other one has
		}
		if spread && crowd > 0 || best != nil && crowd > bestCrowd {
			continue
		}
		share := n.share(k.Bytes, k.FollowerLoad)
		if best != nil && crowd == bestCrowd && share >= bestShare || !p.fits(k, n) {
			continue
		}
		best, bestCrowd, bestShare = n, crowd, share
	}
	return best
}
