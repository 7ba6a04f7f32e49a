package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/cleavestore/cleave/console"
	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
)

type serveCommand struct {
	Dir     string        `arg:"" help:"Directory of the store."`
	Addr    string        `default:"localhost:8080" placeholder:"HOST:PORT" help:"Address to listen on (${default}); port 0 takes a free one."`
	Host    []string      `placeholder:"HOST:PORT" help:"Also serve requests with this Host header."`
	Refresh time.Duration `default:"5s" help:"Look for what a process beside has written, at most this often and only while somebody looks (${default}); 0: never."`
}

// Help returns the long help text.
func (*serveCommand) Help() string {
	return `Serves a page about the store, until interrupted: the key space with its physical partitions, splits, keys, documents, queries with their plans, memory, disk. The store is open for reading only, and a process may write to it meanwhile. The load of a process shows only on a page that it serves itself, with package console.

Anyone who can reach the address can read all documents. The default is reached from this machine only, and requests with other Host headers than that of the address are refused.

Examples:
  pinspect serve DIR
  pinspect serve DIR --addr localhost:9000 --refresh 1s`
}

// Run runs the command.
func (c *serveCommand) Run(ctx context.Context, env *environment) (err error) {
	if c.Refresh < 0 {
		return cli.Usagef("--refresh %v: must not be negative", c.Refresh)
	}
	db, err := openStore(ctx, c.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", c.Addr)
	if err != nil {
		return cli.Usage(err)
	}
	handler := console.Handler(db, &console.Options{
		Hosts:        c.hosts(listener.Addr().String()),
		RefreshEvery: c.Refresh,
		Refresh:      func(ctx context.Context) (*engine.DB, error) { return db, db.Refresh(ctx) },
	})
	fmt.Fprintf(env.stderr, "pinspect: serving %s on http://%s, until interrupted\n", printable(c.Dir), listener.Addr())
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err = server.Serve(listener); errors.Is(err, http.ErrServerClosed) {
		err = nil // interrupted: that is how it ends
	}
	return err
}

// hosts returns the Host headers that are served: those of the address that was asked for
// and of the one that was got.
func (c *serveCommand) hosts(addr string) []string {
	hosts := append(console.LocalHosts(addr), c.Host...)
	_, port, err := net.SplitHostPort(addr)
	if host, _, splitErr := net.SplitHostPort(c.Addr); err == nil && splitErr == nil && host != "" {
		hosts = append(hosts, console.LocalHosts(net.JoinHostPort(host, port))...)
	}
	return hosts
}
