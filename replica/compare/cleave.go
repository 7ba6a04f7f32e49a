package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/cleavestore/cleave/engine"
	replicaclient "github.com/cleavestore/cleave/replica/client"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/host"
	"github.com/cleavestore/cleave/replica/protocol"
	"github.com/cleavestore/cleave/replica/serve"
	"github.com/cleavestore/cleave/replica/transport"
)

const container = "items"

// cleave returns Cleave with a number of physical partitions, each a Raft group. Its processes do
// what `pnode serve` does.
func cleave(name, title string, groups int) *system {
	return &system{
		name: name, title: title, durability: "the Raft log of two of three, by fdatasync; one sync for all groups; TLS",
		setup:   func(p *plan) error { return setupCleave(p, groups) },
		serve:   serveCleave,
		connect: connectCleave,
	}
}

func nodeDir(p *plan, node int) string { return filepath.Join(p.Dir, fmt.Sprint("node", node)) }

func clientDir(p *plan) string { return filepath.Join(p.Dir, "client") }

func description(p *plan) string { return filepath.Join(p.Dir, "cluster.json") }

func setupCleave(p *plan, groups int) error {
	d := &cluster.Cluster{Containers: []cluster.Container{{Name: container, PartitionKey: []string{"/k"}, Partitions: groups}}}
	now := time.Now()
	authority, err := transport.NewAuthority(p.Dir, now)
	if err != nil {
		return err
	}
	for i, a := range p.Peers {
		id := uint64(i + 1)
		d.Nodes = append(d.Nodes, cluster.Node{ID: id, Address: a})
		if err = host.Init(nodeDir(p, i), id); err != nil {
			return err
		}
		if err = authority.IssueNode(nodeDir(p, i), id, now); err != nil {
			return err
		}
	}
	if err = os.Mkdir(clientDir(p), 0o700); err != nil {
		return err
	}
	if err = authority.IssueClient(clientDir(p), now); err != nil {
		return err
	}
	b, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return os.WriteFile(description(p), b, 0o600)
}

func serveCleave(ctx context.Context, p *plan, node int) error {
	d, err := cluster.Load(description(p))
	if err != nil {
		return err
	}
	creds, err := transport.LoadCredentials(nodeDir(p, node))
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", p.Peers[node])
	if err != nil {
		return err
	}
	defer listener.Close()
	id, peers := d.Nodes[node].ID, make(map[uint64]string)
	for _, n := range d.Nodes {
		if n.ID != id {
			peers[n.ID] = n.Address
		}
	}
	h, err := host.Open(ctx, host.Config{
		Node: id, Cluster: d, Dir: nodeDir(p, node), Client: serve.Client, Engine: &engine.Options{MemoryBudget: 256 << 20},
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		Network: func(handler transport.Handler) (host.Network, error) {
			return transport.New(transport.Config{Node: id, Credentials: creds, Peers: peers, Listener: listener, Handler: handler}), nil
		},
	})
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return h.Close()
	case <-h.Failed():
		return errors.Join(h.Failure(), h.Close())
	}
}

type cleaveClient struct{ c *replicaclient.Client }

func connectCleave(_ context.Context, p *plan) (client, error) {
	d, err := cluster.Load(description(p))
	if err != nil {
		return nil, err
	}
	creds, err := transport.LoadCredentials(clientDir(p))
	if err != nil {
		return nil, err
	}
	return cleaveClient{replicaclient.New(replicaclient.Config{Cluster: d, Credentials: creds})}, nil
}

func (c cleaveClient) put(ctx context.Context, key string, doc []byte) error {
	_, err := c.c.Upsert(ctx, container, engine.StringKey(key), doc)
	if errors.Is(err, replicaclient.ErrResults) {
		return nil // carried out: nothing refuses such a put
	}
	return err
}

func (c cleaveClient) get(ctx context.Context, key string) ([]byte, error) {
	item, err := c.c.Read(ctx, protocol.Strong, container, engine.StringKey(key), key)
	if errors.Is(err, engine.ErrNotFound) {
		return nil, errMissing
	}
	return item.Body, err
}

func (c cleaveClient) close() { c.c.Close() }
