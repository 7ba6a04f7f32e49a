package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/pprof"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/outputfile"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/group"
	"github.com/cleavestore/cleave/replica/host"
	"github.com/cleavestore/cleave/replica/placement"
	"github.com/cleavestore/cleave/replica/raftlog"
	"github.com/cleavestore/cleave/replica/serve"
	"github.com/cleavestore/cleave/replica/transport"
)

type serveCommand struct {
	Dir     string   `arg:"" help:"Directory of the node, as init has made it."`
	Cluster string   `help:"Description of the cluster. Default: cluster.json in the directory above."`
	HTTP    string   `help:"Address of a page with the status of the node, for a browser on this machine; /status.json has it for programs." placeholder:"HOST:PORT"`
	Memory  cli.Size `help:"Memory budget of the store." default:"256MiB"`
	etcdFlags
	Disk      cli.Size      `help:"Size of the node's disk, by which groups are placed. Default: what is free when the node starts, and what its groups have then."`
	Rate      float64       `help:"RU/s that the node can carry, by which groups are placed too. 0: not considered."`
	SplitSize cli.Size      `help:"Size of a group above which it is split." default:"50GiB"`
	SplitRate float64       `help:"RU/s of a group's leader above which it is split." default:"10000"`
	Grace     time.Duration `help:"For how long a node may be silent before its replicas are replaced." default:"30s"`
	Lease     time.Duration `help:"How long the node's lease in the metadata store lasts." default:"10s"`
	Every     time.Duration `help:"How often the node looks for steps, and plans." default:"1s" hidden:""`
	ClockOff  time.Duration `name:"clock-offset" help:"By how much the clock of the node is to be wrong, for tests." hidden:""`
	Profile   string        `help:"Write a profile of the processor here until the node ends." hidden:""`
}

// etcdFlags say how an etcd is reached that exists.
type etcdFlags struct {
	EtcdCA   string `name:"etcd-ca" help:"Authority of an etcd that exists, if the system does not know it." placeholder:"FILE"`
	EtcdCert string `name:"etcd-cert" help:"Certificate for an etcd that exists." placeholder:"FILE"`
	EtcdKey  string `name:"etcd-key" help:"And its key." placeholder:"FILE"`
}

// serveDefaults returns the command with the defaults of its flags.
func serveDefaults() *serveCommand {
	return &serveCommand{Memory: 256 << 20, SplitSize: 50 << 30, SplitRate: 10_000, Grace: 30 * time.Second, Lease: 10 * time.Second, Every: time.Second}
}

func (c *serveCommand) policy() placement.Policy {
	return placement.Policy{Grace: c.Grace, SplitBytes: int64(c.SplitSize), SplitLoad: c.SplitRate, Even: true}
}

// Run implements the command.
func (c *serveCommand) Run(ctx context.Context, e *environment) (err error) {
	// Below these a node has no lease, one that is started again is lost, or groups split without end.
	if err = cmp.Or(atLeast("lease", c.Lease, time.Second), atLeast("grace", c.Grace, time.Second), atLeast("split-rate", c.SplitRate, 1), atLeast("rate", c.Rate, 0)); err != nil {
		return err
	}
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
	if me.Gone {
		return fmt.Errorf("%s says that node %d is gone for good: its replicas are made anew on other nodes, and it must not come back", c.Cluster, node)
	}
	creds, err := transport.LoadCredentials(c.Dir)
	if err != nil {
		return err
	}
	if err = creds.CheckNode(node, time.Now()); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", me.Address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("node %d: another program, or this node a second time, listens at %s: %w. End it, or give the node another address in %s", node, me.Address, err, c.Cluster)
	} else if err != nil {
		return fmt.Errorf("node %d: %w: %s in %s is to be an address of this machine", node, err, me.Address, c.Cluster)
	}
	defer listener.Close()
	peers, former := make(map[uint64]string), make(map[uint64]string)
	if d.Promotion != nil {
		for _, id := range d.Promotion.Lost {
			former[id] = d.Node(id).Address
		}
	}
	for _, n := range d.All() {
		if n.ID != node {
			peers[n.ID] = n.Address
		}
	}
	log := slog.New(slog.NewTextHandler(e.stderr, nil))
	var part atomic.Pointer[nodeMetadata]
	h, err := host.Open(ctx, host.Config{
		Node: node, Cluster: d, Dir: c.Dir, Client: serve.Client, Engine: &engine.Options{MemoryBudget: int64(c.Memory)},
		Logger: log, Clock: func() time.Time { return time.Now().Add(c.ClockOff) },
		Avoid: func(node uint64) bool {
			m := part.Load()
			return m != nil && m.agent.Draining(node)
		},
		Drop: func(ctx context.Context, name string, number uint64) error {
			if m := part.Load(); m != nil {
				return m.agent.DropContainer(ctx, name, number)
			}
			if d.Metadata == nil {
				return fmt.Errorf("container %q: %w: %w", name, errNoMetadata, host.ErrChange)
			}
			return fmt.Errorf("container %q: node %d is starting: %w", name, node, group.ErrBusy)
		},
		Create: func(ctx context.Context, t cluster.Container) error {
			if m := part.Load(); m != nil {
				return m.agent.CreateContainer(ctx, t)
			}
			if d.Metadata == nil {
				return fmt.Errorf("container %q: %w: %w", t.Name, errNoMetadata, host.ErrChange)
			}
			return fmt.Errorf("container %q: node %d is starting: %w", t.Name, node, group.ErrBusy)
		},
		Redefine: func(ctx context.Context, name string, index engine.IndexPolicy) error {
			if m := part.Load(); m != nil {
				return m.agent.SetIndexPolicy(ctx, name, index)
			}
			if d.Metadata == nil {
				return fmt.Errorf("container %q: %w: %w", name, errNoMetadata, host.ErrChange)
			}
			return fmt.Errorf("container %q: node %d is starting: %w", name, node, group.ErrBusy)
		},
		Retime: func(ctx context.Context, name string, seconds int64) error {
			if m := part.Load(); m != nil {
				return m.agent.SetDefaultTTL(ctx, name, seconds)
			}
			if d.Metadata == nil {
				return fmt.Errorf("container %q: %w: %w", name, errNoMetadata, host.ErrChange)
			}
			return fmt.Errorf("container %q: node %d is starting: %w", name, node, group.ErrBusy)
		},
		Claim: func(ctx context.Context, left, right uint64) error {
			if m := part.Load(); m != nil {
				return m.agent.Claim(ctx, left, right)
			}
			if d.Metadata == nil {
				return nil
			}
			return fmt.Errorf("group %d: node %d is starting: %w", left, node, group.ErrBusy)
		},
		Network: func(handler transport.Handler) (host.Network, error) {
			return transport.New(transport.Config{Node: node, Credentials: creds, Incarnation: d.Incarnation, Peers: peers, Former: former, Listener: listener, Handler: handler}), nil
		},
	})
	if errors.Is(err, raftlog.ErrLost) || errors.Is(err, group.ErrBehind) || errors.Is(err, host.ErrIdentity) {
		return fmt.Errorf("%w\nA node that takes its place: pnode add %s --replaces %d", err, filepath.Dir(c.Cluster), node)
	} else if err != nil {
		return err
	}
	m, err := c.joinMetadata(ctx, d, me, h, creds, log)
	if err != nil {
		return errors.Join(err, h.Close())
	}
	part.Store(m)
	if c.HTTP != "" {
		page, err := servePage(c.HTTP, h, m)
		if err != nil {
			return errors.Join(err, m.close(), h.Close())
		}
		defer page.Close()
	}
	fmt.Fprintf(e.stdout, "node %d serves at %s\n", node, me.Address)
	select {
	case <-ctx.Done():
		return errors.Join(m.close(), h.Close())
	case <-h.Failed():
		return errors.Join(h.Failure(), m.close(), h.Close())
	}
}

// startProfile profiles the processor into a file, unless its name is empty.
func startProfile(name string) (stop func() error, err error) {
	if name == "" {
		return func() error { return nil }, nil
	}
	if err = outputfile.OutsideStores(name); err != nil {
		return nil, err
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
