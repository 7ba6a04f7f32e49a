package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/outputfile"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/host"
	"github.com/cleavestore/cleave/replica/transport"
)

const (
	descriptionName = "cluster.json"
	clientDir       = "client"
)

type initCommand struct {
	Dir        string   `arg:"" help:"Directory to be made, with one directory for each node and one for clients."`
	Addresses  []string `help:"Addresses of the nodes, host:port; node 1 is the first." default:"127.0.0.1:7101,127.0.0.1:7102,127.0.0.1:7103"`
	Containers []string `name:"container" help:"A container: name:partition key path:partitions, with commas between the paths of a hierarchical key. May be repeated." default:"items:/k:8" sep:"none"`
	Etcd       []string `help:"URLs of an etcd that exists and is to keep the map; none: no map, so that nothing splits or moves by itself. Default: an etcd within the first three nodes, at their ports + 100 and + 200." placeholder:"URL"`
	Name       string   `help:"Name of the cluster, which tells it from others in the same etcd." default:"cluster"`
	Regions    []string `help:"Regions of the nodes, in the order of the addresses. Groups begin in the first one." placeholder:"REGION"`
	Zones      []string `help:"What fails together, such as racks, in the order of the addresses." placeholder:"ZONE"`
	Readers    []string `help:"Regions in which the containers have readers: replicas that do not vote." placeholder:"REGION"`
}

// Run implements the command.
func (c *initCommand) Run(e *environment) error {
	if err := c.check(); err != nil {
		return cli.Usage(err)
	}
	d := cluster.Cluster{}
	for i, a := range c.Addresses {
		n := cluster.Node{ID: uint64(i + 1), Address: a, Region: at(c.Regions, i), Zone: at(c.Zones, i)}
		if n.Region == at(c.Regions, 0) {
			d.Nodes = append(d.Nodes, n)
		} else {
			d.Joined = append(d.Joined, n)
		}
	}
	switch {
	case len(c.Etcd) == 0:
		m, err := membersOf(d.Nodes)
		if err != nil {
			return cli.Usage(err)
		}
		d.Metadata = &cluster.Metadata{Name: c.Name, Members: m}
	case c.Etcd[0] != "none":
		d.Metadata = &cluster.Metadata{Name: c.Name, Endpoints: c.Etcd}
	}
	for _, text := range c.Containers {
		t, err := parseContainer(text)
		if err != nil {
			return cli.Usage(err)
		}
		t.Regions = c.Readers
		d.Containers = append(d.Containers, t)
	}
	if err := makeCluster(c.Dir, &d); err != nil {
		return err
	}
	fmt.Fprintf(e.stdout, "%s: %d nodes, %d groups\n", filepath.Join(c.Dir, descriptionName), len(d.All()), len(d.Groups()))
	for _, n := range d.All() {
		fmt.Fprintf(e.stdout, "pnode serve %s\n", nodeDir(c.Dir, n.ID))
	}
	return nil
}

// check returns an error for flags that do not fit each other.
func (c *initCommand) check() error {
	for _, f := range []struct {
		name  string
		given int
	}{{"--regions", len(c.Regions)}, {"--zones", len(c.Zones)}} {
		if f.given != 0 && f.given != len(c.Addresses) {
			return fmt.Errorf("%s has %d values, and there are %d addresses: each address has one", f.name, f.given, len(c.Addresses))
		}
	}
	if len(c.Etcd) > 1 && slices.Contains(c.Etcd, "none") {
		return errors.New("--etcd is none, or has URLs")
	}
	return checkReaders(c.Readers, c.Regions)
}

// checkReaders returns an error for readers in a region that has no node: there would never be any.
func checkReaders(readers, regions []string) error {
	for _, r := range readers {
		if !slices.Contains(regions, r) {
			return fmt.Errorf("--readers: no node is in region %q", r)
		}
	}
	return nil
}

// parseContainer reads name:path:partitions. A name may have colons, as may a path: the first path begins with the
// first slash behind a colon, and no name has a slash.
func parseContainer(text string) (cluster.Container, error) {
	at, last := strings.Index(text, ":/"), strings.LastIndexByte(text, ':')
	if at < 0 || at == last {
		return cluster.Container{}, fmt.Errorf("container %q: it is name:path:partitions, and a path begins with a slash", text)
	}
	n, err := strconv.Atoi(text[last+1:])
	if err != nil {
		return cluster.Container{}, fmt.Errorf("container %q: partitions: %w", text, err)
	}
	return cluster.Container{Name: text[:at], PartitionKey: jsondoc.SplitPaths(text[at+1 : last]), Partitions: n, MutableTTL: true}, nil
}

func nodeDir(dir string, node uint64) string { return filepath.Join(dir, fmt.Sprint("node", node)) }

// makeCluster makes the files of a cluster that is not there yet.
func makeCluster(dir string, d *cluster.Cluster) error {
	if err := outputfile.OutsideStores(dir); err != nil {
		return err
	}
	b, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return err
	}
	if _, err = cluster.Decode(b); err != nil {
		return err
	}
	if err = os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	now := time.Now()
	authority, err := transport.NewAuthority(dir, now)
	if err != nil {
		return err
	}
	for _, n := range d.All() {
		if err = makeNode(authority, dir, n.ID); err != nil {
			return err
		}
	}
	at := filepath.Join(dir, clientDir)
	if err = os.MkdirAll(at, 0o700); err != nil {
		return err
	}
	if err = authority.IssueClient(at, now); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, descriptionName), append(b, '\n'), 0o600)
}

// makeNode makes the directory of a node.
func makeNode(authority *transport.Authority, dir string, node uint64) error {
	at := nodeDir(dir, node)
	if err := host.Init(at, node); err != nil {
		return err
	}
	return authority.IssueNode(at, node, time.Now())
}

func at(list []string, i int) string {
	if i < len(list) {
		return list[i]
	}
	return ""
}

// The etcd within a node has these ports above that of the node.
const (
	peerPort, clientPort = 100, 200
	mostMembers          = 3
)

// membersOf returns the members of an etcd within the first nodes: one, or three.
func membersOf(nodes []cluster.Node) (out []cluster.Member, err error) {
	n := mostMembers
	if len(nodes) < n {
		n = 1
	}
	for _, o := range nodes[:min(n, len(nodes))] {
		host, text, err := net.SplitHostPort(o.Address)
		if err != nil {
			return nil, fmt.Errorf("address %q is not host:port: %w", o.Address, err)
		}
		port, err := strconv.Atoi(text)
		if err != nil || port+clientPort > 65535 {
			return nil, fmt.Errorf("address %q: etcd would have the ports %s + %d and + %d; give others in %s, or --etcd", o.Address, text, peerPort, clientPort, descriptionName)
		}
		out = append(out, cluster.Member{Node: o.ID, Peer: net.JoinHostPort(host, strconv.Itoa(port+peerPort)), Client: net.JoinHostPort(host, strconv.Itoa(port+clientPort))})
	}
	return out, nil
}

// freeAddresses returns addresses of this machine at which nobody listens.
func freeAddresses(n int) ([]string, error) {
	var out []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		out = append(out, l.Addr().String())
	}
	return out, nil
}
