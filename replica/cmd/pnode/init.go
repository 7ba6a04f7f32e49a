package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/cleavestore/cleave/internal/cli"
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
	Containers []string `name:"container" help:"A container: name:partition key path:partitions. May be repeated." default:"items:/k:8"`
}

// Run implements the command.
func (c *initCommand) Run(e *environment) error {
	d := cluster.Cluster{}
	for i, a := range c.Addresses {
		d.Nodes = append(d.Nodes, cluster.Node{ID: uint64(i + 1), Address: a})
	}
	for _, text := range c.Containers {
		t, err := parseContainer(text)
		if err != nil {
			return cli.Usage(err)
		}
		d.Containers = append(d.Containers, t)
	}
	if err := makeCluster(c.Dir, &d); err != nil {
		return err
	}
	fmt.Fprintf(e.stdout, "%s: %d nodes, %d groups\n", filepath.Join(c.Dir, descriptionName), len(d.Nodes), len(d.Groups()))
	for _, n := range d.Nodes {
		fmt.Fprintf(e.stdout, "pnode serve %s\n", nodeDir(c.Dir, n.ID))
	}
	return nil
}

func parseContainer(text string) (cluster.Container, error) {
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return cluster.Container{}, fmt.Errorf("container %q: it is name:path:partitions", text)
	}
	n, err := strconv.Atoi(parts[2])
	if err != nil {
		return cluster.Container{}, fmt.Errorf("container %q: partitions: %w", text, err)
	}
	return cluster.Container{Name: parts[0], PartitionKey: strings.Split(parts[1], ","), Partitions: n}, nil
}

func nodeDir(dir string, node uint64) string { return filepath.Join(dir, fmt.Sprint("node", node)) }

// makeCluster makes the files of a cluster that is not there yet.
func makeCluster(dir string, d *cluster.Cluster) error {
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
	for _, n := range d.Nodes {
		at := nodeDir(dir, n.ID)
		if err = host.Init(at, n.ID); err != nil {
			return err
		}
		if err = authority.IssueNode(at, n.ID, now); err != nil {
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
