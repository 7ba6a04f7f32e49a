// Package cluster describes a cluster as its file does: nodes, containers, and which nodes
// have the replicas of which physical partition. All nodes and clients have the same file.
package cluster

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

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
	// Metadata says where the cluster keeps its map, and who plans. Nil: nowhere; then no group
	// splits or moves by itself, and no container is made while the cluster runs.
	Metadata *Metadata `json:"metadata,omitempty"`
	// Incarnation says how often a region was promoted. Nodes and clients that have descriptions of
	// different incarnations refuse each other. Promotion is nil in the first one, which is 0.
	Incarnation uint64     `json:"incarnation,omitempty"`
	Promotion   *Promotion `json:"promotion,omitempty"`
}

// Metadata is an etcd: one within nodes, or one that exists.
type Metadata struct {
	// Members are the nodes within which etcd runs. They keep their places.
	Members []Member `json:"members,omitempty"`
	// Endpoints are the URLs of an etcd that exists. Members is empty then.
	Endpoints []string `json:"endpoints,omitempty"`
	// Name tells this cluster from others in the same etcd.
	Name string `json:"name"`
}

// Member is a node within which etcd runs.
type Member struct {
	Node   uint64 `json:"node"`
	Peer   string `json:"peer"`   // host:port for the other members
	Client string `json:"client"` // host:port for nodes and for the commands of pnode
}

// Node is a node. Its id is above 0 and never used for another node, also not for the same
// machine after its disk was lost.
type Node struct {
	ID      uint64 `json:"id"`
	Address string `json:"address"` // host:port
	// Zone is what fails together, a rack say: replicas of one group are in different ones.
	Zone string `json:"zone,omitempty"`
	// Region is where the voters of a group are together.
	Region string `json:"region,omitempty"`
	// Gone says that the node will not come back. Its entry stays, since groups have begun there.
	Gone bool `json:"gone,omitempty"`
}

// Container is a container. It keeps its definition, except for what definition.go says.
type Container struct {
	Name         string   `json:"name"`
	PartitionKey []string `json:"partition_key"`
	Partitions   int      `json:"partitions"`
	// Number is the upper half of the ids of its groups. 0: its place in the file, from 1.
	// Containers that are made while the cluster runs have numbers from FirstNumber on.
	Number uint64 `json:"number,omitempty"`
	// Nodes are those on which its groups begin, in turn. Empty: all of Cluster.Nodes.
	Nodes []uint64 `json:"nodes,omitempty"`
	// Replicas is how many nodes have each partition. 0: Cluster.Replicas.
	Replicas int `json:"replicas,omitempty"`
	// Regions are those in which the container has readers: replicas that do not vote.
	Regions []string `json:"regions,omitempty"`
	// Index says which values are indexed, as engine.ContainerDef.Index does. Empty: none.
	Index engine.IndexPolicy `json:"index,omitzero"`
	// DefaultTTL is how many seconds items live after their last write that do not say it. NoExpiry: for
	// ever. 0: no item expires, whatever it says.
	DefaultTTL int64 `json:"default_ttl,omitempty"`
	// MutableTTL says that DefaultTTL can be changed while the cluster runs.
	MutableTTL bool `json:"mutable_ttl,omitempty"`
	// TTLRevision is the Revision that has set DefaultTTL, if that was changed, and FirstTTL is the default with which
	// the groups of the container began then.
	TTLRevision uint64 `json:"ttl_revision,omitempty"`
	FirstTTL    int64  `json:"first_default_ttl,omitempty"`
	// UniqueKeys are sets of paths, as those of engine.ContainerDef: no two items of a logical partition have the same
	// values at all paths of a set.
	UniqueKeys [][]string `json:"unique_keys,omitempty"`
	// Revision counts the changes of Index and DefaultTTL while the cluster ran. Of two definitions with one number the
	// one with the higher revision is the newer.
	Revision uint64 `json:"revision,omitempty"`
}

// FirstNumber is the lowest number of a container that was made while the cluster ran.
const FirstNumber = 1 << 16

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
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("%w: something follows its end", ErrDescription)
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
	all := slices.Concat(c.Nodes, c.Joined)
	if len(all) > maxNodes {
		return fmt.Errorf("it has %d nodes, %d are possible", len(all), maxNodes)
	}
	for i, n := range all {
		if n.ID == 0 || n.ID > uint64(topology.MaxNode) {
			return fmt.Errorf("node %d: ids are from 1 to %d", n.ID, topology.MaxNode)
		}
		if err := checkAddress(n.Address); err != nil {
			return fmt.Errorf("node %d: %w", n.ID, err)
		}
		for _, o := range all[:i] {
			if o.ID == n.ID || o.Address == n.Address && !o.Gone && !n.Gone {
				return fmt.Errorf("nodes %d at %s and %d at %s: ids and addresses differ", o.ID, o.Address, n.ID, n.Address)
			}
		}
	}
	if c.Replicas < 0 || c.Replicas > len(c.Nodes) {
		return fmt.Errorf("%d replicas on %d nodes", c.Replicas, len(c.Nodes))
	}
	if err := c.Metadata.check(c); err != nil {
		return err
	}
	if err := c.Promotion.check(c); err != nil {
		return err
	}
	for i, t := range c.Containers {
		if t.Replicas < 0 || t.Replicas > max(len(t.Nodes), len(c.Nodes)) || t.Number >= 1<<31 {
			return fmt.Errorf("container %q: %d replicas, number %d", t.Name, t.Replicas, t.Number)
		}
		if t.Name == "" || len(t.PartitionKey) == 0 || t.Partitions < 1 || t.Partitions > maxPartitions {
			return fmt.Errorf("container %q: it has a name, a partition_key and 1 to %d partitions", t.Name, maxPartitions)
		}
		if err := t.checkDefinition(); err != nil {
			return fmt.Errorf("container %q: %w", t.Name, err)
		}
		for _, o := range c.Containers[:i] {
			if o.Name == t.Name || t.Number != 0 && o.Number == t.Number {
				return fmt.Errorf("two containers %q, or of number %d", t.Name, t.Number)
			}
		}
	}
	return nil
}

// checkAddress returns an error for an address at which nobody can be reached.
func checkAddress(a string) error {
	_, port, err := net.SplitHostPort(a)
	if err != nil {
		return fmt.Errorf("address %q is not host:port: %w", a, err)
	}
	if n, err := strconv.Atoi(port); err == nil && (n < 1 || n > math.MaxUint16) {
		return fmt.Errorf("address %q: ports are from 1 to %d", a, math.MaxUint16)
	}
	return nil
}

func (m *Metadata) check(c *Cluster) error {
	if m == nil {
		return nil
	}
	if strings.Contains(m.Name, "/") {
		return fmt.Errorf("metadata: name %q has a slash", m.Name)
	}
	if m.Name == "" || (len(m.Members) == 0) == (len(m.Endpoints) == 0) {
		return errors.New("metadata has a name, and members or endpoints")
	}
	for i, e := range m.Endpoints {
		u, err := url.Parse(e)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Path != "" && u.Path != "/" {
			return fmt.Errorf("metadata: endpoint %q is not http://host:port or https://host:port", e)
		}
		if first, _ := url.Parse(m.Endpoints[0]); i > 0 && first.Scheme != u.Scheme {
			return fmt.Errorf("metadata: endpoints %q and %q: all have TLS, or none has", m.Endpoints[0], e)
		}
	}
	taken := make(map[string]string) // by address
	for _, n := range c.All() {
		taken[n.Address] = fmt.Sprintf("node %d", n.ID)
	}
	for _, o := range m.Members {
		if c.Node(o.Node) == nil {
			return fmt.Errorf("metadata: there is no node %d", o.Node)
		}
		for _, a := range []string{o.Peer, o.Client} {
			if err := checkAddress(a); err != nil {
				return fmt.Errorf("metadata of node %d: %w", o.Node, err)
			}
			if other := taken[a]; other != "" {
				return fmt.Errorf("metadata of node %d: address %q is that of %s too", o.Node, a, other)
			}
			taken[a] = fmt.Sprintf("the etcd within node %d", o.Node)
		}
	}
	return nil
}

// With returns a copy that has another container too. Error: ErrDescription.
func (c *Cluster) With(t Container) (*Cluster, error) {
	out := *c
	out.Containers = append(slices.Clone(c.Containers), t)
	if err := out.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDescription, err)
	}
	return &out, nil
}

// Without returns the description without the containers of some numbers, which were dropped: a copy, if
// there are any. The others keep their numbers.
func (c *Cluster) Without(numbers ...uint64) *Cluster {
	if len(numbers) == 0 {
		return c
	}
	out := *c
	out.Containers = nil
	for at, t := range c.Containers {
		if t.Number = c.number(at); !slices.Contains(numbers, t.Number) {
			out.Containers = append(out.Containers, t)
		}
	}
	return &out
}

// NumberOf returns the number of a container, the upper half of the ids of its groups; 0 if there is
// none with the name.
func (c *Cluster) NumberOf(name string) uint64 {
	for at := range c.Containers {
		if c.Containers[at].Name == name {
			return c.number(at)
		}
	}
	return 0
}

// Container returns a container, nil if there is none with the name.
func (c *Cluster) Container(name string) *Container {
	for i := range c.Containers {
		if c.Containers[i].Name == name {
			return &c.Containers[i]
		}
	}
	return nil
}

// number returns the upper half of the ids of the groups of the container at a place.
func (c *Cluster) number(at int) uint64 {
	if n := c.Containers[at].Number; n != 0 {
		return n
	}
	return uint64(at + 1)
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

// All returns all nodes that are not gone, those that have joined last.
func (c *Cluster) All() []Node {
	return slices.DeleteFunc(slices.Concat(c.Nodes, c.Joined), func(n Node) bool { return n.Gone })
}

// ContainerOf returns the name of the container of a group, also of one that was made by a split:
// the upper half of its id is the number of the container. Empty: none.
func (c *Cluster) ContainerOf(group uint64) string {
	for at := range c.Containers {
		if c.number(at) == group>>32 {
			return c.Containers[at].Name
		}
	}
	return ""
}

// Groups returns the groups with which all containers begin.
func (c *Cluster) Groups() (out []Group) {
	for at := range c.Containers {
		out = append(out, c.groups(at)...)
	}
	return out
}

// GroupsOf returns the groups with which a container begins.
func (c *Cluster) GroupsOf(name string) []Group {
	for at := range c.Containers {
		if c.Containers[at].Name == name {
			return c.groups(at)
		}
	}
	return nil
}

func (c *Cluster) groups(at int) (out []Group) {
	t := &c.Containers[at]
	nodes := slices.Clone(t.Nodes)
	if len(nodes) == 0 {
		for _, n := range c.Nodes {
			nodes = append(nodes, n.ID)
		}
	}
	slices.Sort(nodes)
	replicas := min(cmp.Or(t.Replicas, c.Replicas, 3), len(nodes))
	bounds := append([]partmap.EPK{partmap.MinEPK()}, partmap.EvenBoundaries(t.Partitions)...)
	bounds = append(bounds, partmap.MaxEPK())
	for i := range t.Partitions {
		g := Group{ID: c.number(at)<<32 | uint64(i+1), Container: t.Name, Range: partmap.Range{Min: bounds[i], Max: bounds[i+1]}}
		for k := range replicas {
			g.Replicas = append(g.Replicas, nodes[(i+k)%len(nodes)])
		}
		out = append(out, g)
	}
	return out
}
