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
	etcd, err := connectMetadata(d.Metadata, creds, c.EtcdCA, c.EtcdCert, c.EtcdKey)
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
	}
	m := &nodeMetadata{client: etcd, nodes: client.New(client.Config{Cluster: d, Credentials: creds})}
	policy := c.policy()
	policy.Voters = min(cmp.Or(d.Replicas, 3), len(d.Nodes))
	m.agent = agent.New(agent.Config{
		Store: store, Host: h, TTL: c.Lease, Policy: policy, Every: c.Every, Logger: log,
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

// connectMetadata makes a client of the metadata store.
func connectMetadata(d *cluster.Metadata, creds *transport.Credentials, ca, cert, key string) (*clientv3.Client, error) {
	if len(d.Endpoints) == 0 {
		var at []string
		for _, m := range d.Members {
			at = append(at, "https://"+m.Client)
		}
		return meta.Connect(at, creds.Metadata())
	}
	if !strings.HasPrefix(d.Endpoints[0], "https://") {
		return meta.Connect(d.Endpoints, nil)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		b, err := os.ReadFile(ca)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(b) {
			return nil, fmt.Errorf("%s has no certificate", ca)
		}
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return meta.Connect(d.Endpoints, config)
}
