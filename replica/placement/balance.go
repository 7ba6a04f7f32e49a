package placement

import (
	"cmp"
	"slices"
	"time"

	"github.com/cleavestore/cleave/replica/topology"
)

// balance returns steps that take from the nodes that hold more than others: at most one of a
// node. A node gives if its share is above the mean, and more than twice the tolerance above
// the lowest share of a node that may get something.
func (p *Planner) balance(now time.Time) []Step {
	var live []*node
	var sum float64
	lowest := 1.0
	shares := make(map[*node]float64, len(p.order)) // as they were, for the order
	for _, n := range p.order {
		if !n.Live {
			continue
		}
		live = append(live, n)
		shares[n] = n.share(0, 0)
		sum += shares[n]
		if !n.Draining {
			lowest = min(lowest, shares[n])
		}
	}
	if len(live) < 2 {
		return nil
	}
	limit := max(sum/float64(len(live)), lowest+2*p.policy.Tolerance)
	slices.SortStableFunc(live, func(a, b *node) int { return cmp.Compare(shares[b], shares[a]) })
	var steps []Step
	for _, n := range live {
		if shares[n] <= limit {
			break
		}
		if k, s, ok := p.relieve(n, lowest); ok {
			steps = append(steps, p.begin(k, s, now))
		}
	}
	if len(steps) == 0 && p.policy.Even && len(p.copies) == 0 && p.onlySplits() {
		return p.even(now)
	}
	return steps
}

// onlySplits reports whether no other steps are under way: where a replica goes does not depend on them.
func (p *Planner) onlySplits() bool {
	for _, k := range p.underway {
		if k.step.Kind != Split {
			return false
		}
	}
	return true
}

// even returns the step that takes a replica from the node with the most of them to the one with
// the fewest in the same region, if they differ by more than one, and if that makes no node so much
// fuller that its share would be taken off again. It is asked while nothing else is under way but splits.
func (p *Planner) even(now time.Time) []Step {
	for _, to := range p.order {
		if !to.takes(p.policy) || to.isStuck() {
			continue
		}
		var from *node
		for _, n := range p.order {
			if n.Live && n.Region == to.Region && n.held > to.held+1 && (from == nil || n.held > from.held) {
				from = n
			}
			if n.Live && n.Region == to.Region && !n.Draining && !n.isStuck() && n.held < to.held {
				from = nil // another node has fewer
				break
			}
		}
		if from == nil {
			continue
		}
		for _, id := range from.groups {
			k := p.groups[id]
			on, _ := k.On(from.ID)
			if on.Role != topology.Voter || !p.settled(k) || !p.fits(k, to) || p.nodes[k.Leader].out >= p.policy.Out {
				continue
			}
			if to.Zone != from.Zone && p.zones(k)[to.Zone] > 0 || to.share(k.Bytes, k.FollowerLoad) > from.share(-k.Bytes, -k.loadOn(from.ID))+p.policy.Tolerance {
				continue
			}
			return []Step{p.begin(k, Step{Kind: Add, Node: to.ID}, now)}
		}
	}
	return nil
}

// relieve returns the step that takes the most off the node without making another one as
// full: a transfer of a leader, which costs nothing, or a copy. lowest is the share of the
// node that has the most left.
func (p *Planner) relieve(n *node, lowest float64) (k *group, s Step, ok bool) {
	own := n.share(0, 0)
	// What is moved must leave the other node clearly below this one, or the next plan could
	// take it back.
	ceiling := own - p.policy.Tolerance
	byLoad := n.Load > 0 && n.load/n.Load == own
	if byLoad {
		best := own // the larger share of the two afterwards
		for _, id := range n.groups {
			g := p.groups[id]
			if g.Leader != n.ID || !p.settled(g) {
				continue
			}
			more := g.LeaderLoad - g.FollowerLoad
			for _, r := range g.Replicas {
				to := p.nodes[r.Node]
				if r.Role != topology.Voter || to == n || !to.Live || to.Draining {
					continue
				}
				if to.share(0, more) > ceiling {
					continue
				}
				if after := max(to.share(0, more), n.share(0, -more)); after < best {
					k, s, best = g, Step{Kind: Transfer, Node: to.ID}, after
				}
			}
		}
		if k != nil {
			return k, s, true
		}
	}
	// The group that takes the most off is tried first.
	left := func(g *group) float64 { return n.share(-g.Bytes, -g.loadOn(n.ID)) }
	var candidates []*group
	for _, id := range n.groups {
		g := p.groups[id]
		if rest := left(g); p.settled(g) && p.nodes[g.Leader].out < p.policy.Out && rest < own && lowest+own-rest <= ceiling {
			candidates = append(candidates, g)
		}
	}
	slices.SortStableFunc(candidates, func(a, b *group) int { return cmp.Compare(left(a), left(b)) })
	for _, g := range candidates[:min(len(candidates), tries)] {
		to := p.target(g, false)
		if to == nil || to.isStuck() || to.Zone != n.Zone && p.zones(g)[to.Zone] > 0 {
			continue
		}
		if to.share(g.Bytes, g.FollowerLoad) <= ceiling {
			return g, Step{Kind: Add, Node: to.ID}, true
		}
	}
	return nil, Step{}, false
}

// tries is for how many groups of a node a plan looks for another node.
const tries = 8

// settled reports whether the group has all its voters, and nothing under way, also by hand.
func (p *Planner) settled(k *group) bool {
	if _, moving := k.Moving(); moving || k.step.Kind != 0 || p.byHand[k.ID] {
		return false
	}
	live, voters := p.voters(k)
	return live == voters && voters == p.wanted(k)
}
