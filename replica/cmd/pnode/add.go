package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/transport"
)

type addCommand struct {
	Dir      string `arg:"" help:"Directory that init has made, with the key of the authority."`
	Address  string `arg:"" optional:"" help:"Address of the new node, host:port. Default: that of the node that it replaces."`
	Replaces uint64 `help:"Node that will not come back, since its disk or its log is lost." placeholder:"NODE"`
	Region   string `help:"Region of the node. Default: that of the voters."`
	Zone     string `help:"What fails together with it, such as its rack."`
	Serve    bool   `help:"Run the node, on this machine."`
}

// Run implements the command.
func (c *addCommand) Run(ctx context.Context, e *environment) error {
	if c.Address == "" && c.Replaces == 0 {
		return cli.Usage(errors.New("an address, or --replaces, is to be given"))
	}
	d, n, err := addNode(c.Dir, cluster.Node{Address: c.Address, Region: c.Region, Zone: c.Zone}, c.Replaces)
	if err != nil {
		return err
	}
	fmt.Fprintf(e.stdout, "node %d at %s is in %s, and has a certificate in %s\n", n.ID, n.Address, filepath.Join(c.Dir, descriptionName), nodeDir(c.Dir, n.ID))
	if d.Metadata == nil {
		// Without a metadata store the other nodes hear of it from here.
		cl, _, err := openClient(c.Dir)
		if err != nil {
			return err
		}
		defer cl.Close()
		each, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		if err = cl.Introduce(each, n.ID, n.Address); err != nil {
			fmt.Fprintf(e.stderr, "%v\nThese know it when they are started again\n", err)
		}
	}
	if c.Serve {
		fmt.Fprintln(e.stdout, "it serves until it is interrupted")
		s := serveDefaults()
		s.Dir = nodeDir(c.Dir, n.ID)
		return s.Run(ctx, e)
	}
	fmt.Fprintf(e.stdout, "copy the directory and %s to its machine, and run there: pnode serve %s\n", descriptionName, nodeDir(c.Dir, n.ID))
	return nil
}

// addNode makes a node that was not there: an id, which no node has had, a certificate, a directory
// and an entry in the description of the cluster. The node that it replaces, 0 for none, is marked there
// as gone.
func addNode(dir string, n cluster.Node, replaces uint64) (*cluster.Cluster, *cluster.Node, error) {
	d, err := cluster.Load(filepath.Join(dir, descriptionName))
	if err != nil {
		return nil, nil, err
	}
	authority, err := transport.LoadAuthority(dir)
	if err != nil {
		return nil, nil, err
	}
	for _, o := range slices.Concat(d.Nodes, d.Joined) {
		n.ID = max(n.ID, o.ID+1)
	}
	if replaces != 0 {
		old := d.Node(replaces)
		switch {
		case old == nil:
			return nil, nil, fmt.Errorf("there is no node %d that could be replaced", replaces)
		case old.Gone:
			return nil, nil, fmt.Errorf("node %d was replaced before, or is gone for good otherwise. Another node joins by: pnode add %s ADDRESS", replaces, dir)
		}
		n.Address, n.Region, n.Zone = cmp.Or(n.Address, old.Address), cmp.Or(n.Region, old.Region), cmp.Or(n.Zone, old.Zone)
		old.Gone = true
	}
	// A directory of an id that is not in the description, of a node that was struck out, say.
	for {
		if _, err = os.Stat(nodeDir(dir, n.ID)); err != nil {
			break
		}
		n.ID++
	}
	if n.Region == "" {
		n.Region = d.MainRegion()
	}
	d.Joined = append(d.Joined, n)
	b, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return nil, nil, err
	}
	if d, err = cluster.Decode(b); err != nil {
		return nil, nil, err
	}
	if err = makeNode(authority, dir, n.ID); err != nil {
		return nil, nil, err
	}
	fs, err := vfs.OpenRoot(dir)
	if err != nil {
		return nil, nil, err
	}
	return d, d.Node(n.ID), vfs.WriteFileAtomic(fs, descriptionName+".tmp", descriptionName, append(b, '\n'))
}
