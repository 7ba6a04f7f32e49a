package placement

import (
	"slices"

	"github.com/cleavestore/cleave/replica/topology"
)

// A container may have readers in other regions than that of its voters: learners, from which
// clients there read at the weaker levels, and which can be promoted when the voters are lost.

// readerIn returns the group's learner in a region; ok says whether there is one.
func (p *Planner) readerIn(k *group, region string) (r topology.Replica, ok bool) {
	for _, r := range k.Replicas {
		if n := p.nodes[r.Node]; r.Role == topology.Learner && n.Region == region && !n.lost {
			return r, true
		}
	}
	return topology.Replica{}, false
}

// readerFor returns the node of a region that has the most left for a learner, nil if there is none.
func (p *Planner) readerFor(k *group, region string) (best *node) {
	for _, n := range p.order {
		_, has := k.On(n.ID)
		if has || n.Region != region || !p.hasRoom(k, n) {
			continue
		}
		if best == nil || n.share(k.Bytes, k.FollowerLoad) < best.share(k.Bytes, k.FollowerLoad) ||
			n.share(k.Bytes, k.FollowerLoad) == best.share(k.Bytes, k.FollowerLoad) && len(n.groups) < len(best.groups) {
			best = n
		}
	}
	return best
}

// spareReader returns a learner that is to go: its region is to have none, or has another one. ID 0: there is none.
func (p *Planner) spareReader(k *group) topology.Replica {
	for _, r := range k.Replicas {
		n := p.nodes[r.Node]
		if r.Role != topology.Learner || !n.Live || k.Readers == nil {
			continue
		}
		if n.Region == p.nodes[k.Leader].Region || !slices.Contains(k.Readers, n.Region) {
			return r
		}
		for _, o := range k.Replicas {
			if other := p.nodes[o.Node]; o.Role == topology.Learner && o.ID > r.ID && other.Live && other.Region == n.Region {
				if n.Draining {
					return r
				}
				return o
			}
		}
	}
	return topology.Replica{}
}

// lacksReader reports whether a region lacks its learner, or has one on a node that drains, and
// another node of the region could have one.
func (p *Planner) lacksReader(k *group) bool {
	for _, region := range k.Readers {
		if region == p.nodes[k.Leader].Region {
			continue // the voters are there
		}
		r, ok := p.readerIn(k, region)
		if (!ok || p.nodes[r.Node].Draining) && p.readerFor(k, region) != nil {
			return true
		}
	}
	return false
}

// reader returns the step that gives a region its learner. One on a node that drains goes
// first.
func (p *Planner) reader(k *group) (s Step, ok bool) {
	for _, region := range k.Readers {
		r, has := p.readerIn(k, region)
		if region == p.nodes[k.Leader].Region || has && !p.nodes[r.Node].Draining {
			continue
		}
		to := p.readerFor(k, region)
		if to == nil {
			continue
		}
		if has {
			return Step{Kind: Remove, Replica: r.ID}, true
		}
		if to.in < p.policy.In {
			return Step{Kind: Reader, Node: to.ID}, true
		}
	}
	return Step{}, false
}
