package topology

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cleavestore/cleave/partmap"
)

// ErrInvalid says that a change does not fit the group: it is old, or was never possible.
var ErrInvalid = errors.New("change does not fit the group")

// NodeID names a node: a process with a store. It is never 0.
type NodeID uint64

// GroupID names a group in a cluster. It is never 0, and never used again.
type GroupID uint64

// Number returns the number of the container that the group is of. A container that is made again
// under a name has a higher number than the one before.
func (id GroupID) Number() uint64 { return uint64(id) >> 32 }

// Role says what a replica does in its group.
type Role uint8

// The roles of a replica.
const (
	// Voter: the replica's vote counts for elections and writes.
	Voter Role = iota + 1
	// Incoming: the replica gets the group's data, and is to be promoted then.
	Incoming
	// Learner: the replica has the data for readers, and never votes.
	Learner
)

func (r Role) String() string {
	switch r {
	case Voter:
		return "voter"
	case Incoming:
		return "incoming"
	case Learner:
		return "learner"
	}
	return fmt.Sprintf("role %d", uint8(r))
}

// Replica is one copy of a group's data.
type Replica struct {
	ID   uint64 // in Raft; unique in its group for ever
	Node NodeID
	Role Role
}

// Group describes a replicated physical partition. It is immutable once it is shared.
type Group struct {
	ID        GroupID
	Container string
	Range     partmap.Range
	Epoch     uint64 // rises by one with each change
	// NextReplica is the id that the next replica gets.
	NextReplica uint64
	Replicas    []Replica // in the order of their ids
}

// New returns the first descriptor of a group with a voter on each of nodes.
func New(id GroupID, container string, r partmap.Range, nodes ...NodeID) *Group {
	g := &Group{ID: id, Container: container, Range: r, Epoch: 1, NextReplica: 1}
	for _, n := range nodes {
		g.Replicas = append(g.Replicas, Replica{ID: g.NextReplica, Node: n, Role: Voter})
		g.NextReplica++
	}
	return g
}

// On returns the replica on a node; ok says whether there is one.
func (g *Group) On(n NodeID) (r Replica, ok bool) {
	for _, r := range g.Replicas {
		if r.Node == n {
			return r, true
		}
	}
	return Replica{}, false
}

// Voters returns how many replicas vote.
func (g *Group) Voters() int {
	n := 0
	for _, r := range g.Replicas {
		if r.Role == Voter {
			n++
		}
	}
	return n
}

// Moving returns the replica that gets the group's data now; ok says whether there is one.
func (g *Group) Moving() (r Replica, ok bool) {
	for _, r := range g.Replicas {
		if r.Role == Incoming {
			return r, true
		}
	}
	return Replica{}, false
}

// change returns a copy with the next epoch.
func (g *Group) change() *Group {
	c := *g
	c.Epoch++
	c.Replicas = slices.Clone(g.Replicas)
	return &c
}

func (g *Group) refuse(format string, args ...any) error {
	return fmt.Errorf("group %d at epoch %d: %s: %w", g.ID, g.Epoch, fmt.Sprintf(format, args...), ErrInvalid)
}

// Add returns the group with a replica on node n, of role Incoming or Learner. Error:
// ErrInvalid if the node has a replica, or another replica is incoming.
func (g *Group) Add(n NodeID, role Role) (*Group, error) {
	if role != Incoming && role != Learner {
		return nil, g.refuse("a replica cannot begin as %v", role)
	}
	if r, ok := g.On(n); ok {
		return nil, g.refuse("node %d has replica %d already", n, r.ID)
	}
	if r, ok := g.Moving(); ok && role == Incoming {
		return nil, g.refuse("replica %d on node %d is still incoming", r.ID, r.Node)
	}
	c := g.change()
	c.Replicas = append(c.Replicas, Replica{ID: c.NextReplica, Node: n, Role: role})
	c.NextReplica++
	return c, nil
}

// Promote returns the group with the replica as a voter. Error: ErrInvalid if the replica is
// not there, or is one already.
func (g *Group) Promote(replica uint64) (*Group, error) {
	i := slices.IndexFunc(g.Replicas, func(r Replica) bool { return r.ID == replica })
	if i < 0 || g.Replicas[i].Role == Voter {
		return nil, g.refuse("replica %d cannot be promoted", replica)
	}
	c := g.change()
	c.Replicas[i].Role = Voter
	return c, nil
}

// Remove returns the group without the replica. Error: ErrInvalid if the replica is not there,
// or is the last voter.
func (g *Group) Remove(replica uint64) (*Group, error) {
	i := slices.IndexFunc(g.Replicas, func(r Replica) bool { return r.ID == replica })
	if i < 0 {
		return nil, g.refuse("there is no replica %d", replica)
	}
	if g.Replicas[i].Role == Voter && g.Voters() == 1 {
		return nil, g.refuse("replica %d is the last voter", replica)
	}
	c := g.change()
	c.Replicas = slices.Delete(c.Replicas, i, i+1)
	return c, nil
}

// Split returns both halves of the group: the left one keeps its id, the right one gets id
// right. Both have the same nodes and the same ids of replicas. Error: ErrInvalid if at does
// not lie within the range, or a replica is incoming: its snapshot is of the whole range.
func (g *Group) Split(at partmap.EPK, right GroupID) (l, r *Group, err error) {
	min, max := g.Range.Min, g.Range.Max
	if min.Compare(&at) >= 0 || at.Compare(&max) >= 0 {
		return nil, nil, g.refuse("%v is not a cut of %v", at, g.Range)
	}
	if m, ok := g.Moving(); ok {
		return nil, nil, g.refuse("replica %d on node %d is incoming", m.ID, m.Node)
	}
	if right == 0 || right == g.ID {
		return nil, nil, g.refuse("%d is not an id for the right half", right)
	}
	l, r = g.change(), g.change()
	l.Range.Max, r.Range.Min = at, at
	r.ID = right
	return l, r, nil
}
