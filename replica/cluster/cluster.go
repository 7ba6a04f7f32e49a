// Package cluster describes a cluster as its file does: nodes, containers, and which nodes
// have the replicas of which physical partition. All nodes and clients have the same file.
package cluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/replica/topology"
)

// ErrDescription says that the description of a cluster is refused.
var ErrDescription = errors.New("description of the cluster is refused")

// Cluster is what the file has, as JSON.
type Cluster struct {
	Nodes []Node `json:"nodes"`
	// Joined are nodes that have come later. No group begins there: replicas move to them.
	Joined []Node `json:"joined,omitempty"`
	// Containers keep their places: the ids of groups depend on them. Add new ones at the end.
	Containers []Container `json:"containers"`
	// Replicas is how many nodes have each partition. 0: three, or all nodes if there are fewer.
	Replicas int `json:"replicas,omitempty"`
}

// Node is a node. Its id is above 0 and never used for another node, also not for the same
// machine after its disk was lost.
type Node struct {
	ID      uint64 `json:"id"`
	Address string `json:"address"` // host:port
}

// Container is a container. It keeps its definition.
type Container struct {
	Name         string   `json:"name"`
	PartitionKey []string `json:"partition_key"`
	Partitions   int      `json:"partitions"`
}

// Def returns the container's definition in the store of each node.
func (c *Container) Def() engine.ContainerDef {
	return engine.ContainerDef{PartitionKey: c.PartitionKey, MinPartitions: c.Partitions, Replicated: true}
}

// Group is a Raft group: the replicas of a physical partition. The id of a replica is that of
// its node.
type Group struct {
	ID        uint64
	Container string
	Range     partmap.Range
	Replicas  []uint64 // the first one is preferred as the leader
}

const (
	maxNodes      = 1000
	maxPartitions = 10_000
	maxFileBytes  = 16 << 20
)

// Load reads a file. Errors: ErrDescription, with the name of the file and what is wrong;
// those of the file system.
func Load(name string) (*Cluster, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxFileBytes {
		return nil, fmt.Errorf("%s: %w: it has %d bytes", name, ErrDescription, info.Size())
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	c, err := Decode(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return c, nil
}

// Decode decodes the content of a file.
func Decode(b []byte) (*Cluster, error) {
	c := new(Cluster)
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(c); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDescription, err)
	}
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDescription, err)
	}
	return c, nil
}

func (c *Cluster) check() error {
	if len(c.Nodes) == 0 || len(c.Nodes) > maxNodes {
		return fmt.Errorf("it has %d nodes, 1 to %d are possible", len(c.Nodes), maxNodes)
	}
	all := c.All()
	if len(all) > maxNodes {
		return fmt.Errorf("it has %d nodes, %d are possible", len(all), maxNodes)
	}
	for i, n := range all {
		if n.ID == 0 || n.ID > uint64(topology.MaxNode) {
			return fmt.Errorf("node %d: ids are from 1 to %d", n.ID, topology.MaxNode)
		}
		if _, _, err := net.SplitHostPort(n.Address); err != nil {
			return fmt.Errorf("node %d: address %q is not host:port: %w", n.ID, n.Address, err)
		}
		for _, o := range all[:i] {
			if o.ID == n.ID || o.Address == n.Address {
				return fmt.Errorf("nodes %d at %s and %d at %s: ids and addresses differ", o.ID, o.Address, n.ID, n.Address)
			}
		}
	}
	if c.Replicas < 0 || c.Replicas > len(c.Nodes) {
		return fmt.Errorf("%d replicas on %d nodes", c.Replicas, len(c.Nodes))
	}
	for i, t := range c.Containers {
		if t.Name == "" || len(t.PartitionKey) == 0 || t.Partitions < 1 || t.Partitions > maxPartitions {
			return fmt.Errorf("container %q: it has a name, a partition_key and 1 to %d partitions", t.Name, maxPartitions)
		}
		for _, o := range c.Containers[:i] {
			if o.Name == t.Name {
				return fmt.Errorf("two containers %q", t.Name)
			}
		}
	}
	return nil
}

// Node returns a node, nil if there is none with the id.
func (c *Cluster) Node(id uint64) *Node {
	for _, some := range [][]Node{c.Nodes, c.Joined} {
		for i := range some {
			if some[i].ID == id {
				return &some[i]
			}
		}
	}
	return nil
}

// All returns all nodes, those that have joined last.
func (c *Cluster) All() []Node { return slices.Concat(c.Nodes, c.Joined) }

// ContainerOf returns the name of the container of a group, also of one that was made by a split:
// the upper half of its id is the place of the container in the file, from 1. Empty: none.
func (c *Cluster) ContainerOf(group uint64) string {
	if at := group >> 32; at > 0 && at <= uint64(len(c.Containers)) {
		return c.Containers[at-1].Name
	}
	return ""
}

// Groups returns the groups of all containers.
func (c *Cluster) Groups() (out []Group) {
	nodes := make([]uint64, 0, len(c.Nodes))
	for _, n := range c.Nodes {
		nodes = append(nodes, n.ID)
	}
	slices.Sort(nodes)
	replicas := c.Replicas
	if replicas == 0 {
		replicas = min(3, len(nodes))
	}
	for at := range c.Containers {
		t := &c.Containers[at]
		bounds := append([]partmap.EPK{partmap.MinEPK()}, partmap.EvenBoundaries(t.Partitions)...)
		bounds = append(bounds, partmap.MaxEPK())
		for i := range t.Partitions {
			g := Group{ID: uint64(at+1)<<32 | uint64(i+1), Container: t.Name, Range: partmap.Range{Min: bounds[i], Max: bounds[i+1]}}
			for k := range replicas {
				g.Replicas = append(g.Replicas, nodes[(i+k)%len(nodes)])
			}
			out = append(out, g)
		}
	}
	return out
}
