package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/pprof"
	"syscall"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/host"
	"github.com/cleavestore/cleave/replica/serve"
	"github.com/cleavestore/cleave/replica/transport"
)

type serveCommand struct {
	Dir     string   `arg:"" help:"Directory of the node, as init has made it."`
	Cluster string   `help:"Description of the cluster. Default: cluster.json in the directory above."`
	HTTP    string   `help:"Address of a page with the status of the node, for a browser on this machine; /status.json has it for programs." placeholder:"HOST:PORT"`
	Memory  cli.Size `help:"Memory budget of the store." default:"256MiB"`
	Profile string   `help:"Write a profile of the processor here until the node ends." hidden:""`
}

// Run implements the command.
func (c *serveCommand) Run(ctx context.Context, e *environment) (err error) {
	stop, err := startProfile(c.Profile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	ctx, cancel := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer cancel()
	node, err := host.NodeOf(c.Dir)
	if err != nil {
		return err
	}
	if c.Cluster == "" {
		c.Cluster = filepath.Join(filepath.Dir(filepath.Clean(c.Dir)), descriptionName)
	}
	d, err := cluster.Load(c.Cluster)
	if err != nil {
		return err
	}
	me := d.Node(node)
	if me == nil {
		return fmt.Errorf("%s does not have node %d, whose directory is %s", c.Cluster, node, c.Dir)
	}
	creds, err := transport.LoadCredentials(c.Dir)
	if err != nil {
		return err
	}
	if err = creds.CheckNode(node, time.Now()); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", me.Address)
	if err != nil {
		return fmt.Errorf("node %d: %w", node, err)
	}
	defer listener.Close()
	peers := make(map[uint64]string)
	for _, n := range d.All() {
		if n.ID != node {
			peers[n.ID] = n.Address
		}
	}
	h, err := host.Open(ctx, host.Config{
		Node: node, Cluster: d, Dir: c.Dir, Client: serve.Client, Engine: &engine.Options{MemoryBudget: int64(c.Memory)},
		Logger: slog.New(slog.NewTextHandler(e.stderr, nil)),
		Network: func(handler transport.Handler) (host.Network, error) {
			return transport.New(transport.Config{Node: node, Credentials: creds, Peers: peers, Listener: listener, Handler: handler}), nil
		},
	})
	if err != nil {
		return err
	}
	if c.HTTP != "" {
		page, err := servePage(c.HTTP, h)
		if err != nil {
			return errors.Join(err, h.Close())
		}
		defer page.Close()
	}
	fmt.Fprintf(e.stdout, "node %d serves at %s\n", node, me.Address)
	select {
	case <-ctx.Done():
		return h.Close()
	case <-h.Failed():
		return errors.Join(h.Failure(), h.Close())
	}
}

// startProfile profiles the processor into a file, unless its name is empty.
func startProfile(name string) (stop func() error, err error) {
	if name == "" {
		return func() error { return nil }, nil
	}
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}, nil
}
