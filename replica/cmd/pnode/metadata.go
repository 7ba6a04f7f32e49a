package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/replica/client"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/host"
	"github.com/cleavestore/cleave/replica/meta"
	"github.com/cleavestore/cleave/replica/meta/agent"
	"github.com/cleavestore/cleave/replica/topology"
	"github.com/cleavestore/cleave/replica/transport"
)

// metadataDir is where an etcd within a node has its files, in the directory of the node.
const metadataDir = "etcd"

// etcdRetry is how long a node waits before it starts its etcd again.
const etcdRetry = 2 * time.Second

// nodeMetadata is the part that a node takes in the metadata store. A node serves without it.
type nodeMetadata struct {
	agent  *agent.Agent
	client *clientv3.Client
	nodes  *client.Client // asks other nodes
	end    context.CancelFunc
	tasks  sync.WaitGroup
	stop   context.CancelFunc // of the etcd within the node
	etcd   sync.WaitGroup
}

// joinMetadata has a node take part in the metadata store of its cluster; nil if it has none.
func (c *serveCommand) joinMetadata(ctx context.Context, d *cluster.Cluster, me *cluster.Node, h *host.Host, creds *transport.Credentials, log *slog.Logger) (*nodeMetadata, error) {
	if d.Metadata == nil {
		return nil, nil
	}
	way, err := accessMetadata(d.Metadata, creds, &c.etcdFlags)
	if err != nil {
		return nil, err
	}
	etcd, err := way.connect()
	if err != nil {
		return nil, err
	}
	store, err := meta.New(etcd, d.Metadata.Name)
	if err != nil {
		return nil, errors.Join(err, etcd.Close())
	}
	store.BeginAt(d.FirstID())
	size := int64(c.Disk)
	if size == 0 {
		if size, err = freeOn(c.Dir); err != nil {
			return nil, errors.Join(err, etcd.Close())
		}
		s := h.Status()
		size = roomOf(size, &s)
	}
	m := &nodeMetadata{client: etcd, nodes: client.New(client.Config{Cluster: d, Credentials: creds})}
	policy := c.policy()
	policy.Voters = min(cmp.Or(d.Replicas, 3), len(d.Nodes))
	m.agent = agent.New(agent.Config{
		Store: store, Host: h, TTL: c.Lease, Policy: policy, Every: c.Every, Logger: log, Why: way.trouble,
		Self: meta.Node{ID: topology.NodeID(me.ID), Address: me.Address, Zone: me.Zone, Region: me.Region, Bytes: size, Load: c.Rate},
		Ask: func(ctx context.Context, n meta.Node) (host.Status, error) {
			return m.nodes.StatusAt(ctx, uint64(n.ID), n.Address)
		},
	})
	alone, stop := context.WithCancel(context.WithoutCancel(ctx))
	m.stop = stop
	ctx, m.end = context.WithCancel(alone)
	for i := range d.Metadata.Members {
		if d.Metadata.Members[i].Node == me.ID {
			m.etcd.Go(func() { runEtcd(alone, d, &d.Metadata.Members[i], c.Dir, log) })
		}
	}
	m.tasks.Go(func() { m.agent.Run(ctx) })
	return m, nil
}

// close ends the node's part. The lease goes at once if the store answers.
func (m *nodeMetadata) close() error {
	if m == nil {
		return nil
	}
	m.end()
	m.tasks.Wait() // while the etcd can still take the lease back
	m.nodes.Close()
	err := m.client.Close()
	m.stop()
	m.etcd.Wait()
	return err
}

// roomOf returns how much a node can have, of whose disk some is free: what its groups have counts too.
func roomOf(free int64, s *host.Status) int64 {
	for i := range s.Groups {
		free += s.Groups[i].Bytes
	}
	return free
}

// freeOn returns how much room the file system of a directory has.
func freeOn(dir string) (int64, error) {
	fs, err := vfs.CreateRoot(dir)
	if err != nil {
		return 0, err
	}
	n, err := fs.Free()
	return int64(min(n, 1<<62)), err
}

// runEtcd runs the etcd within a node until ctx ends. If it fails, the node goes on, and the etcd is
// started again.
func runEtcd(ctx context.Context, d *cluster.Cluster, me *cluster.Member, dir string, log *slog.Logger) {
	data := metadataDir
	if d.Incarnation > 0 { // that of before has other members
		data = fmt.Sprint(metadataDir, "-", d.Incarnation)
	}
	name := func(node uint64) string { return fmt.Sprint("node", node) }
	e := meta.Embedded{
		Dir: filepath.Join(dir, data), Name: name(me.Node), Client: "https://" + me.Client, ServerName: transport.AnyNode,
		CA: filepath.Join(dir, transport.AuthorityFile), Cert: filepath.Join(dir, transport.CertificateFile), Key: filepath.Join(dir, transport.KeyFile),
	}
	for _, o := range d.Metadata.Members {
		e.Members = append(e.Members, meta.Member{Name: name(o.Node), Peer: "https://" + o.Peer})
	}
	for ctx.Err() == nil {
		s, err := meta.Start(ctx, e)
		if err == nil {
			log.Info("etcd runs", "node", me.Node, "clients", me.Client)
			select {
			case err = <-s.Failed():
			case <-ctx.Done():
			}
			err = errors.Join(err, s.Close())
		}
		if ctx.Err() == nil {
			log.Error("etcd does not run; the groups of the node go on, and it is started again", "node", me.Node, "err", err)
			select {
			case <-ctx.Done():
			case <-time.After(etcdRetry):
			}
		}
	}
}

// access is how the metadata store is reached.
type access struct {
	endpoints []string
	config    *tls.Config // nil: without TLS
}

// accessMetadata says how the metadata store is reached.
func accessMetadata(d *cluster.Metadata, creds *transport.Credentials, f *etcdFlags) (a access, err error) {
	if len(d.Endpoints) == 0 {
		if f.EtcdCA+f.EtcdCert+f.EtcdKey != "" {
			return a, cli.Usage(errors.New("the etcd is within the nodes, so --etcd-ca, --etcd-cert and --etcd-key do not belong to it"))
		}
		for _, m := range d.Members {
			a.endpoints = append(a.endpoints, "https://"+m.Client)
		}
		a.config = creds.Metadata()
		return a, nil
	}
	a.endpoints = d.Endpoints
	if (f.EtcdCert == "") != (f.EtcdKey == "") {
		return a, cli.Usage(errors.New("--etcd-cert and --etcd-key belong together"))
	}
	if !strings.HasPrefix(d.Endpoints[0], "https://") {
		if f.EtcdCA+f.EtcdCert != "" {
			return a, cli.Usage(fmt.Errorf("%s has no TLS, so --etcd-ca, --etcd-cert and --etcd-key do not belong to it", d.Endpoints[0]))
		}
		return a, nil
	}
	a.config = &tls.Config{MinVersion: tls.VersionTLS12}
	if f.EtcdCA != "" {
		b, failed := os.ReadFile(f.EtcdCA)
		if failed != nil {
			return a, fmt.Errorf("--etcd-ca: %w", failed)
		}
		a.config.RootCAs = x509.NewCertPool()
		if !a.config.RootCAs.AppendCertsFromPEM(b) {
			return a, fmt.Errorf("--etcd-ca: %s has no certificate", f.EtcdCA)
		}
	}
	if f.EtcdCert != "" {
		pair, failed := tls.LoadX509KeyPair(f.EtcdCert, f.EtcdKey)
		if failed != nil {
			return a, fmt.Errorf("--etcd-cert and --etcd-key: %w", failed)
		}
		a.config.Certificates = []tls.Certificate{pair}
	}
	return a, nil
}

func (a *access) connect() (*clientv3.Client, error) { return meta.Connect(a.endpoints, a.config) }

// trouble says what is amiss with the endpoints, and what may help; nil: nothing.
func (a *access) trouble(ctx context.Context) error {
	err := meta.Diagnose(ctx, a.endpoints, a.config)
	switch {
	case errors.Is(err, meta.ErrServerCertificate):
		return fmt.Errorf("%w. The authority of an etcd that exists is given by --etcd-ca", err)
	case errors.Is(err, meta.ErrClientCertificate):
		return fmt.Errorf("%w. A certificate for an etcd that exists is given by --etcd-cert and --etcd-key", err)
	}
	return err
}
