package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/replica/client"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/host"
	"github.com/cleavestore/cleave/replica/transport"
)

type statusCommand struct {
	Dir  string `arg:"" help:"Directory that init has made."`
	JSON bool   `name:"json" help:"Print an object for each node: its status, or why it gave none."`
}

// nodeStatus is what is known of a node.
type nodeStatus struct {
	Node    uint64       `json:"node"`
	Address string       `json:"address"`
	Error   string       `json:"error,omitempty"`
	Status  *host.Status `json:"status,omitempty"`
}

// Run implements the command.
func (c *statusCommand) Run(ctx context.Context, e *environment) error {
	cl, d, err := openClient(c.Dir)
	if err != nil {
		return err
	}
	defer cl.Close()
	all := statusOf(ctx, cl, d)
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
	}
	for _, s := range all {
		if s.Status == nil {
			silent++
		}
	}
	if silent > 0 {
		return fmt.Errorf("%d of %d nodes do not answer", silent, len(all))
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

// statusOf asks all nodes.
func statusOf(ctx context.Context, cl *client.Client, d *cluster.Cluster) (out []nodeStatus) {
	for _, n := range d.All() {
		each, cancel := context.WithTimeout(ctx, 2*time.Second)
		s, err := cl.Status(each, n.ID)
		cancel()
		o := nodeStatus{Node: n.ID, Address: n.Address, Status: &s}
		if err != nil {
			o.Status, o.Error = nil, err.Error()
		}
		out = append(out, o)
	}
	return out
}

func printStatus(e *environment, all []nodeStatus) {
	nodes := cli.NewTable("node", "address", "state", "leads", "groups", "log")
	groups := cli.NewTable("group", "container", "from", "leader", "term", "applied by node")
	type row struct {
		g       host.GroupStatus
		applied string
	}
	rows := make(map[uint64]*row)
	var order []uint64
	for _, s := range all {
		if s.Status == nil {
			nodes.Row(fmt.Sprint(s.Node), s.Address, s.Error, "", "", "")
			continue
		}
		state := "serves"
		switch {
		case s.Status.Failure != "":
			state = s.Status.Failure
		case s.Status.Stalled:
			state = "its disk takes long"
		}
		nodes.Row(fmt.Sprint(s.Node), s.Address, state, fmt.Sprint(s.Status.Leads), fmt.Sprint(len(s.Status.Groups)), fmt.Sprintf("%d KiB", s.Status.LogBytes>>10))
		for _, g := range s.Status.Groups {
			r := rows[g.ID]
			if r == nil {
				r = &row{g: g}
				rows[g.ID] = r
				order = append(order, g.ID)
			}
			if g.Leader == s.Node {
				r.g = g // it knows best
			}
			r.applied += fmt.Sprintf(" %d:%d", s.Node, g.Applied)
		}
	}
	for _, id := range order {
		r := rows[id]
		groups.Row(fmt.Sprint(id), r.g.Container, r.g.Min, fmt.Sprint(r.g.Leader), fmt.Sprint(r.g.Term), r.applied)
	}
	nodes.Print(e.stdout, "")
	fmt.Fprintln(e.stdout)
	groups.Print(e.stdout, "")
}
