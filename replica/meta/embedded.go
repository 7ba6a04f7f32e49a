package meta

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
)

// Member is one of the processes within which a cluster's etcd runs.
type Member struct {
	Name string
	Peer string // URL at which the other members reach it
}

// Embedded says how an etcd runs within this process.
type Embedded struct {
	Dir     string // its data; it remains when the process ends
	Name    string // which of Members this process is
	Members []Member
	Client  string // URL at which clients in other processes reach it
	// CA, Cert and Key are files in PEM. Both connections are TLS with certificates on both
	// sides if they are set, as they must be for URLs of https.
	CA, Cert, Key string
}

// Server is an etcd within this process.
type Server struct {
	etcd   *embed.Etcd
	client *clientv3.Client
}

// Start starts an etcd within this process, or takes part again in one. It returns when the
// etcd has a leader. With one or two members nothing can be lost; use three or five.
func Start(ctx context.Context, e Embedded) (*Server, error) {
	i := slices.IndexFunc(e.Members, func(m Member) bool { return m.Name == e.Name })
	if i < 0 {
		return nil, fmt.Errorf("%q is none of the %d members", e.Name, len(e.Members))
	}
	peer, err := url.Parse(e.Members[i].Peer)
	if err != nil {
		return nil, fmt.Errorf("peer address of member %s: %w", e.Name, err)
	}
	client, err := url.Parse(e.Client)
	if err != nil {
		return nil, fmt.Errorf("client address of member %s: %w", e.Name, err)
	}
	if tls := e.Cert != ""; tls != (peer.Scheme == "https") || tls != (client.Scheme == "https") {
		return nil, fmt.Errorf("member %s: addresses %s and %s must both be https with certificates, and both http without", e.Name, peer, client)
	}
	cfg := embed.NewConfig()
	cfg.Dir, cfg.Name, cfg.LogLevel = e.Dir, e.Name, "panic" // what matters reaches the caller as an error
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{*peer}, []url.URL{*peer}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	var members []string
	for _, m := range e.Members {
		members = append(members, m.Name+"="+m.Peer)
	}
	cfg.InitialCluster = strings.Join(members, ",")
	// The map changes with each move; what watchers have not fetched within the hour they read
	// anew.
	cfg.AutoCompactionMode, cfg.AutoCompactionRetention = "periodic", "1h"
	if e.Cert != "" {
		for _, t := range []*struct {
			ca, cert, key *string
			auth          *bool
		}{
			{&cfg.PeerTLSInfo.TrustedCAFile, &cfg.PeerTLSInfo.CertFile, &cfg.PeerTLSInfo.KeyFile, &cfg.PeerTLSInfo.ClientCertAuth},
			{&cfg.ClientTLSInfo.TrustedCAFile, &cfg.ClientTLSInfo.CertFile, &cfg.ClientTLSInfo.KeyFile, &cfg.ClientTLSInfo.ClientCertAuth},
		} {
			*t.ca, *t.cert, *t.key, *t.auth = e.CA, e.Cert, e.Key, true
		}
	}
	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, fmt.Errorf("etcd in %s: %w", e.Dir, err)
	}
	select {
	case <-etcd.Server.ReadyNotify():
		return &Server{etcd, v3client.New(etcd.Server)}, nil
	case err = <-etcd.Err():
	case <-etcd.Server.StopNotify():
		err = errors.New("it has stopped")
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	etcd.Close()
	return nil, fmt.Errorf("etcd in %s is not ready: %w", e.Dir, err)
}

// Client returns a client that needs no network. It ends with Close.
func (s *Server) Client() *clientv3.Client { return s.client }

// Failed tells of an error after which the server must be closed.
func (s *Server) Failed() <-chan error { return s.etcd.Err() }

// Close stops the server.
func (s *Server) Close() error {
	err := s.client.Close()
	if errors.Is(err, context.Canceled) {
		err = nil // its context ends by the call itself
	}
	s.etcd.Close()
	return err
}
