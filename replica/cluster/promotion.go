package cluster

import (
	"fmt"
	"slices"

	"github.com/cleavestore/cleave/replica/topology"
)

// Promotion says how the present incarnation of a cluster has begun: the region of its voters was lost
// for good, and each group goes on with one replica of another region as its only voter.
type Promotion struct {
	Region string `json:"region"`
	// Lost are nodes of the incarnation before. Each is gone.
	Lost []uint64 `json:"lost"`
	// Groups are all that there are. A group that is split off by an entry which a replica of these has,
	// and has not applied, goes on there too.
	Groups []Promoted `json:"groups"`
}

// Promoted is a group that goes on with one replica. The id of the replica has its node:
// topology.NodeOf.
type Promoted struct {
	ID      uint64 `json:"id"`
	Replica uint64 `json:"replica"`
}

// maxIncarnations bounds how often a region is promoted: each incarnation has numbers of its own.
const maxIncarnations = 64

func (p *Promotion) check(c *Cluster) error {
	if (p == nil) != (c.Incarnation == 0) || c.Incarnation >= maxIncarnations {
		return fmt.Errorf("incarnation %d: the first one is 0, each later one begins with a promotion, and %d is the last", c.Incarnation, maxIncarnations-1)
	}
	if p == nil {
		return nil
	}
	for _, id := range p.Lost {
		if n := c.Node(id); n == nil || !n.Gone {
			return fmt.Errorf("promotion of region %q: node %d is lost, and is not marked as gone", p.Region, id)
		}
	}
	seen := make(map[uint64]bool)
	for _, g := range p.Groups {
		n := c.Node(uint64(topology.NodeOf(g.Replica)))
		if g.ID == 0 || seen[g.ID] || n == nil || n.Region != p.Region || n.Gone {
			return fmt.Errorf("promotion of region %q: group %d with replica %d", p.Region, g.ID, g.Replica)
		}
		seen[g.ID] = true
	}
	return nil
}

// On returns the replicas on a node with which groups go on, by group. It may be called of nil.
func (p *Promotion) On(node uint64) map[uint64]uint64 {
	out := make(map[uint64]uint64)
	if p != nil {
		for _, g := range p.Groups {
			if uint64(topology.NodeOf(g.Replica)) == node {
				out[g.ID] = g.Replica
			}
		}
	}
	return out
}

// began reports whether the groups of a container with a number began before the promotion.
func (p *Promotion) began(number uint64) bool {
	return p != nil && slices.ContainsFunc(p.Groups, func(g Promoted) bool { return g.ID>>32 == number })
}

// Begins reports whether a group of the description begins in this incarnation. Of those that have
// begun before, no node makes a replica from nothing.
func (c *Cluster) Begins(group uint64) bool { return !c.Promotion.began(group >> 32) }

// MainRegion returns the region in which voters are.
func (c *Cluster) MainRegion() string {
	if c.Promotion != nil {
		return c.Promotion.Region
	}
	return c.Nodes[0].Region
}

// numbers is how many numbers an incarnation has at least.
const numbers = 1 << 24

// FirstID returns the first of the numbers that the metadata store hands out, for containers and for
// groups that splits make. The store of an earlier incarnation, which is lost, has handed out lower ones.
func (c *Cluster) FirstID() uint64 { return c.Incarnation*numbers + 1 }
