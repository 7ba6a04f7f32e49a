package meta

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
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
	// Name of the members in their certificates, if these do not name the hosts of the URLs.
	ServerName string
}

// Server is an etcd within this process.
type Server struct {
	etcd   *embed.Etcd
	client *clientv3.Client
	failed chan error
}

// closeTime bounds how long Close waits for an etcd that has failed.
const closeTime = 5 * time.Second

// OnWrite is called where etcd would end the process: it ends the goroutine, and tells of it. So an
// etcd whose disk has failed does not take the groups of the node with it.
func (s *Server) OnWrite(e *zapcore.CheckedEntry, fields []zapcore.Field) {
	text := zapcore.NewMapObjectEncoder()
	for _, f := range fields {
		f.AddTo(text)
	}
	select {
	case s.failed <- fmt.Errorf("etcd: %s: %v", e.Message, text.Fields["error"]):
	default:
	}
	runtime.Goexit()
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
	s := &Server{failed: make(chan error, 1)}
	cfg := embed.NewConfig()
	cfg.Dir, cfg.Name = e.Dir, e.Name
	// What matters reaches the caller as an error.
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop().WithOptions(zap.WithFatalHook(s), zap.WithPanicHook(s)))
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
		// The certificates name nodes, no hosts: any that the authority has signed will do.
		for _, t := range []*transport.TLSInfo{&cfg.PeerTLSInfo, &cfg.ClientTLSInfo} {
			t.ServerName, t.SkipClientSANVerify = e.ServerName, e.ServerName != ""
		}
	}
	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, fmt.Errorf("etcd in %s: %w", e.Dir, err)
	}
	select {
	case <-etcd.Server.ReadyNotify():
		s.etcd, s.client = etcd, v3client.New(etcd.Server)
		return s, nil
	case err = <-etcd.Err():
	case err = <-s.failed:
	case <-etcd.Server.StopNotify():
		err = errors.New("it has stopped")
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	bounded(etcd.Close)
	return nil, fmt.Errorf("etcd in %s is not ready: %w", e.Dir, err)
}

// Client returns a client that needs no network. It ends with Close.
func (s *Server) Client() *clientv3.Client { return s.client }

// Failed tells of an error after which the server must be closed.
func (s *Server) Failed() <-chan error {
	out := make(chan error, 1)
	go func() {
		select {
		case err := <-s.failed:
			out <- err
		case err := <-s.etcd.Err():
			out <- err
		case <-s.etcd.Server.StopNotify():
		}
	}()
	return out
}

// Close stops the server.
func (s *Server) Close() error {
	err := s.client.Close()
	if errors.Is(err, context.Canceled) {
		err = nil // its context ends by the call itself
	}
	bounded(s.etcd.Close)
	return err
}

// bounded calls f, which may not return after a failure, and waits for it for a while.
func bounded(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(closeTime):
	}
}

// Connect returns a client of an etcd that may be away: its calls wait for it until their
// contexts end. tls is nil for endpoints of http.
func Connect(endpoints []string, tls *tls.Config) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{
		Endpoints: endpoints, TLS: tls, Logger: zap.NewNop(),
		DialKeepAliveTime: 2 * time.Second, DialKeepAliveTimeout: 2 * time.Second,
	})
}
