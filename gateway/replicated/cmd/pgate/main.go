// Command pgate serves a cluster of replicas to clients of Azure Cosmos DB: see docs/replicas.md.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/cleavestore/cleave/gateway"
	"github.com/cleavestore/cleave/gateway/internal/httpserver"
	"github.com/cleavestore/cleave/gateway/replicated"
	"github.com/cleavestore/cleave/replica/client"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/transport"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "pgate:", err)
		os.Exit(1)
	}
}

// options are what the command line says.
type options struct {
	dir, listen   string
	cert, certKey string
	wait, drain   time.Duration
	handler       gateway.Options
}

func parse(args []string, stderr io.Writer) (*options, error) {
	o := &options{handler: gateway.Options{KeyOrder: true}}
	f := flag.NewFlagSet("pgate", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() {
		fmt.Fprint(stderr, "Usage: pgate [flags] DIR\n\nServes a cluster to clients of Azure Cosmos DB. DIR is what pnode init has made: cluster.json and the directory client.\n\n")
		f.PrintDefaults()
	}
	f.StringVar(&o.listen, "listen", "127.0.0.1:8081", "`address` to serve; port 0 takes a free one")
	f.StringVar(&o.handler.Key, "key", os.Getenv("PSERVE_KEY"), "master key in base64; or PSERVE_KEY in the environment. Default: the key of emulators, on loopback addresses only")
	f.StringVar(&o.cert, "cert", "", "`file` with a certificate in PEM, to serve HTTPS. Default: HTTP")
	f.StringVar(&o.certKey, "cert-key", "", "`file` with the private key of --cert in PEM")
	f.StringVar(&o.handler.Endpoint, "endpoint", "", "`address` that clients are told, such as https://db.test:8081/. Default: the one that they used")
	f.StringVar(&o.handler.Region, "region", "", "name of the only region (default Local)")
	f.StringVar(&o.handler.Consistency, "consistency", "", "Strong, BoundedStaleness, Session, ConsistentPrefix or Eventual: the level of reads that ask for none (default Session)")
	f.DurationVar(&o.wait, "wait", 10*time.Second, "how long a request waits for the cluster")
	f.DurationVar(&o.drain, "drain", 10*time.Second, "how long requests under way may take when the program is told to end")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() != 1 {
		return nil, errors.New("one directory is wanted; see --help")
	}
	if o.dir = f.Arg(0); (o.cert == "") != (o.certKey == "") {
		return nil, errors.New("--cert and --cert-key are given together")
	}
	host, _, err := net.SplitHostPort(o.listen)
	if err != nil {
		return nil, fmt.Errorf("address %q: %w", o.listen, err)
	}
	if ip := net.ParseIP(host); (o.handler.Key == "" || o.handler.Key == gateway.EmulatorKey) && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("address %q is reached from other hosts: give --key, since everybody knows the key of emulators", o.listen)
	}
	return o, nil
}

// ready is the line that is printed when requests are served.
type ready struct {
	Ready bool   `json:"ready"`
	URL   string `json:"url"`
	PID   int    `json:"pid"`
}

// openTime bounds how long the start waits for the cluster.
const openTime = time.Minute

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	o.handler.Logger = slog.New(slog.NewJSONHandler(stderr, nil))
	d, err := cluster.Load(filepath.Join(o.dir, "cluster.json"))
	if err != nil {
		return err
	}
	credentials, err := transport.LoadCredentials(filepath.Join(o.dir, "client"))
	if err != nil {
		return err
	}
	c := client.New(client.Config{Cluster: d, Credentials: credentials})
	defer c.Close()
	s, err := replicated.Open(ctx, replicated.Config{Client: c, Wait: o.wait})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	opening, opened := context.WithTimeout(ctx, openTime)
	h, err := gateway.Over(opening, s, &o.handler)
	opened()
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", o.listen)
	if err != nil {
		return err
	}
	watching, stop := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		s.Watch(watching)
	}()
	defer func() { stop(); <-watched }()
	return o.serve(ctx, h, s, listener, stdout)
}

// serve serves until ctx ends or the store cannot go on.
func (o *options) serve(ctx context.Context, h http.Handler, s *replicated.Store, l net.Listener, stdout io.Writer) error {
	server := httpserver.New(h, o.handler.Logger)
	failed := make(chan error, 1)
	scheme := "http"
	if o.cert != "" {
		scheme = "https"
	}
	go func() {
		if o.cert != "" {
			failed <- server.ServeTLS(l, o.cert, o.certKey)
			return
		}
		failed <- server.Serve(l)
	}()
	var err error
	if err = json.NewEncoder(stdout).Encode(&ready{true, scheme + "://" + l.Addr().String() + "/", os.Getpid()}); err == nil {
		select {
		case <-ctx.Done():
		case <-s.Ended():
			err = s.Err()
		case err = <-failed:
		}
	}
	drain, cancel := context.WithTimeout(context.Background(), o.drain)
	defer cancel()
	return errors.Join(err, server.Shutdown(drain))
}
