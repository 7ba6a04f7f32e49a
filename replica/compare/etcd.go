package main

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// etcd runs with its default settings. All keys are in one Raft group.
var etcd = &system{
	name: "etcd", title: "etcd 3.7.3, 1 group", durability: "the log of two of three, by fdatasync",
	serve: serveEtcd, connect: connectEtcd,
}

func serveEtcd(ctx context.Context, p *plan, node int) error {
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir, cfg.LogLevel = fmt.Sprint("n", node), filepath.Join(p.Dir, fmt.Sprint("node", node)), "error"
	peer, at := url.URL{Scheme: "http", Host: p.Peers[node]}, url.URL{Scheme: "http", Host: p.Addresses[node]}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{at}, []url.URL{at}
	var members []string
	for i, a := range p.Peers {
		members = append(members, fmt.Sprintf("n%d=http://%s", i, a))
	}
	cfg.InitialCluster = strings.Join(members, ",")
	cfg.QuotaBackendBytes = 8 << 30 // it keeps all versions, and refuses puts when it is full
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return err
	}
	defer e.Close()
	select {
	case <-ctx.Done():
		return nil
	case err = <-e.Err():
		return err
	}
}

type etcdClient struct{ c *clientv3.Client }

func connectEtcd(ctx context.Context, p *plan) (client, error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: p.Addresses[:], DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
	return etcdClient{c}, err
}

func (c etcdClient) put(ctx context.Context, key string, doc []byte) error {
	_, err := c.c.Put(ctx, key, string(doc))
	return err
}

func (c etcdClient) get(ctx context.Context, key string) ([]byte, error) {
	r, err := c.c.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	if len(r.Kvs) == 0 {
		return nil, errMissing
	}
	return r.Kvs[0].Value, nil
}

func (c etcdClient) close() { _ = c.c.Close() } // nothing is under way
