package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/humanize"
	"github.com/cleavestore/cleave/replica/client"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/host"
	"github.com/cleavestore/cleave/replica/topology"
	"github.com/cleavestore/cleave/replica/transport"
)

type statusCommand struct {
	Dir  string `arg:"" help:"Directory that init has made."`
	JSON bool   `name:"json" help:"Print an object for each node: its status, or why it gave none."`
	etcdFlags
}

// nodeStatus is what is known of a node.
type nodeStatus struct {
	Node    uint64       `json:"node"`
	Address string       `json:"address"`
	Region  string       `json:"region,omitempty"`
	Lease   string       `json:"lease"` // what the metadata store says of it
	Error   string       `json:"error,omitempty"`
	Status  *host.Status `json:"status,omitempty"`
}

// Run implements the command.
func (c *statusCommand) Run(ctx context.Context, e *environment) error {
	o, err := newOperator(c.Dir, &c.etcdFlags)
	if err != nil {
		return err
	}
	defer o.close()
	all := statusOf(ctx, o.client, o.d)
	trouble := o.leases(ctx, all)
	silent := 0
	if c.JSON {
		out := json.NewEncoder(e.stdout)
		for _, s := range all {
			if err := out.Encode(s); err != nil {
				return err
			}
		}
	} else {
		printStatus(e, all)
		if trouble != nil && o.d.Metadata != nil {
			fmt.Fprintf(e.stderr, "%v\nReads and writes go on without it; moves and automatic splits wait.\n", trouble)
		}
	}
	replicas := 0 // that have stopped
	for _, s := range all {
		if s.Status == nil {
			silent++
			continue
		}
		for _, g := range s.Status.Groups {
			if g.Error != "" {
				replicas++
			}
		}
	}
	switch {
	case silent > 0:
		return fmt.Errorf("%d of %d nodes do not answer", silent, len(all))
	case replicas > 0:
		return fmt.Errorf("%d replicas have stopped", replicas)
	}
	return nil
}

// leases notes which nodes hold a lease, and which one plans.
func (o *operator) leases(ctx context.Context, all []nodeStatus) error {
	p, err := o.picture(ctx)
	if err != nil {
		for i := range all {
			all[i].Lease = "not known"
		}
		return err
	}
	for i := range all {
		s := &all[i]
		s.Lease = "none"
		for _, n := range p.Nodes {
			if uint64(n.ID) == s.Node {
				s.Lease, s.Region = "held", n.Region
			}
		}
		if p.Draining[topology.NodeID(s.Node)] {
			s.Lease += ", drained"
		}
		if uint64(p.Planner) == s.Node {
			s.Lease += ", plans"
		}
	}
	return nil
}

// openClient makes a client of the cluster in a directory of init.
func openClient(dir string) (*client.Client, *cluster.Cluster, error) {
	d, err := cluster.Load(filepath.Join(dir, descriptionName))
	if err != nil {
		return nil, nil, err
	}
	creds, err := transport.LoadCredentials(filepath.Join(dir, clientDir))
	if err != nil {
		return nil, nil, err
	}
	return client.New(client.Config{Cluster: d, Credentials: creds}), d, nil
}

// statusOf asks all nodes, some at once: those that are silent are waited for together.
func statusOf(ctx context.Context, cl *client.Client, d *cluster.Cluster) []nodeStatus {
	nodes := d.All()
	out := make([]nodeStatus, len(nodes))
	var tasks sync.WaitGroup
	places := make(chan struct{}, 16)
	for i, n := range nodes {
		places <- struct{}{}
		tasks.Go(func() {
			defer func() { <-places }()
			each, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			s, err := cl.Status(each, n.ID)
			out[i] = nodeStatus{Node: n.ID, Address: n.Address, Status: &s}
			if err != nil {
				out[i].Status, out[i].Error = nil, err.Error()
			}
		})
	}
	tasks.Wait()
	return out
}

func printStatus(e *environment, all []nodeStatus) {
	nodes := cli.NewTable("node", "region", "address", "state", "lease", "leads", "groups", "log")
	groups := cli.NewTable("group", "container", "from", "leader", "voters", "readers", "moving", "bytes", "newest entry, and how far nodes are behind it")
	type row struct {
		g       host.GroupStatus
		applied map[uint64]uint64 // by node
		stopped map[uint64]bool   // nodes
	}
	var errs []string
	rows := make(map[uint64]*row)
	var order []uint64
	for _, s := range all {
		if s.Status == nil {
			nodes.Row(fmt.Sprint(s.Node), s.Region, s.Address, s.Error, s.Lease, "", "", "")
			continue
		}
		state := "serves"
		switch {
		case s.Status.Failure != "":
			state = s.Status.Failure
		case s.Status.Stalled:
			state = "its disk takes long"
		}
		nodes.Row(fmt.Sprint(s.Node), s.Region, s.Address, state, s.Lease, fmt.Sprint(s.Status.Leads), fmt.Sprint(len(s.Status.Groups)), fmt.Sprintf("%d KiB", s.Status.LogBytes>>10))
		for _, g := range s.Status.Groups {
			r := rows[g.ID]
			if r == nil {
				r = &row{g: g, applied: make(map[uint64]uint64), stopped: make(map[uint64]bool)}
				rows[g.ID] = r
				order = append(order, g.ID)
			}
			if g.Leader == s.Node {
				r.g = g // it knows best
			}
			r.applied[s.Node] = g.Applied
			if g.Error != "" {
				r.stopped[s.Node] = true
				errs = append(errs, fmt.Sprintf("node %d: %s", s.Node, g.Error))
			}
		}
	}
	for _, id := range order {
		r := rows[id]
		newest := slices.Max(slices.Collect(maps.Values(r.applied)))
		lag := fmt.Sprint(newest)
		for _, node := range slices.Sorted(maps.Keys(r.applied)) {
			if behind := newest - r.applied[node]; behind > 0 {
				lag += fmt.Sprintf(", node %d: %d", node, behind)
			}
			if r.stopped[node] {
				lag += fmt.Sprintf(", node %d has stopped", node)
			}
		}
		leader := "none"
		if r.g.Leader != 0 {
			leader = fmt.Sprint(r.g.Leader)
		}
		moving := ""
		if r.g.Incoming != 0 {
			moving = fmt.Sprintf("to node %d", r.g.Incoming)
			if r.g.Lacks != nil {
				moving += fmt.Sprintf(", lacks %d", *r.g.Lacks)
			}
		}
		groups.Row(fmt.Sprint(id), r.g.Container, r.g.Min, leader, listOf(r.g.Replicas), listOf(r.g.Readers), moving, humanize.Bytes(r.g.Bytes), lag)
	}
	nodes.Print(e.stdout, "")
	fmt.Fprintln(e.stdout)
	groups.Print(e.stdout, "")
	for _, text := range errs {
		fmt.Fprintln(e.stderr, text)
	}
}

// listOf returns numbers in order, with spaces between them.
func listOf(nodes []uint64) string {
	return strings.Trim(fmt.Sprint(slices.Sorted(slices.Values(nodes))), "[]")
}
