package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// natsKV returns NATS JetStream with a key-value bucket of three replicas, which is one Raft group.
func natsKV(name, title, durability string, always bool) *system {
	return &system{
		name: name, title: title, durability: durability,
		serve:   func(ctx context.Context, p *plan, node int) error { return serveNATS(ctx, p, node, always) },
		connect: connectNATS,
	}
}

func serveNATS(ctx context.Context, p *plan, node int, always bool) error {
	o := &server.Options{
		ServerName: fmt.Sprint("n", node), JetStream: true, StoreDir: filepath.Join(p.Dir, fmt.Sprint("node", node)),
		SyncAlways: always, // else SyncInterval has its default
		NoLog:      true, NoSigs: true,
		Cluster: server.ClusterOpts{Name: "compare"},
	}
	var err error
	if o.Host, o.Port, err = split(p.Addresses[node]); err != nil {
		return err
	}
	if o.Cluster.Host, o.Cluster.Port, err = split(p.Peers[node]); err != nil {
		return err
	}
	for i, a := range p.Peers {
		if i != node {
			o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: a})
		}
	}
	s, err := server.NewServer(o)
	if err != nil {
		return err
	}
	s.Start()
	<-ctx.Done()
	s.Shutdown()
	s.WaitForShutdown()
	return nil
}

func split(address string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, err
	}
	port, err = strconv.Atoi(text)
	return host, port, err
}

type natsClient struct {
	c  *nats.Conn
	kv jetstream.KeyValue
}

func connectNATS(ctx context.Context, p *plan) (client, error) {
	c, err := nats.Connect(strings.Join(p.Addresses[:], ","))
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(c)
	if err == nil {
		each, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		var kv jetstream.KeyValue
		if kv, err = js.CreateOrUpdateKeyValue(each, jetstream.KeyValueConfig{Bucket: container, Replicas: nodes, Storage: jetstream.FileStorage}); err == nil {
			return natsClient{c, kv}, nil
		}
	}
	c.Close()
	return nil, err
}

func (c natsClient) put(ctx context.Context, key string, doc []byte) error {
	_, err := c.kv.Put(ctx, key, doc)
	return err
}

func (c natsClient) get(ctx context.Context, key string) ([]byte, error) {
	e, err := c.kv.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, errMissing
	}
	if err != nil {
		return nil, err
	}
	return e.Value(), nil
}

func (c natsClient) close() { c.c.Close() }
