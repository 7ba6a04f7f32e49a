// Command pserve serves a store to clients of Azure Cosmos DB: see docs/gateway.md.
package main

import (
	"context"
	"crypto/tls"
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
	"strings"
	"syscall"
	"time"

	"github.com/cleavestore/cleave/console"
	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/gateway"
	"github.com/cleavestore/cleave/gateway/control"
	"github.com/cleavestore/cleave/gateway/internal/unread"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "pserve:", err)
		os.Exit(1)
	}
}

// options are what the command line says.
type options struct {
	db, listen, quirks  string
	control             string
	key                 string
	cert, certKey       string
	logLevel            string
	durability          string
	drain               time.Duration
	handler             gateway.Options
	partitionBytes      int64
	partitionThroughput float64
}

func parse(args []string, stderr io.Writer) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("pserve", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() {
		fmt.Fprint(stderr, "Usage: pserve --db DIR [flags]\n\nServes the store in DIR, which is made if it is absent, to clients of Azure Cosmos DB.\n\n")
		f.PrintDefaults()
	}
	f.StringVar(&o.db, "db", "", "directory of the store")
	f.StringVar(&o.listen, "listen", "127.0.0.1:8081", "`address` to serve, HTTP and HTTPS; port 0 takes a free one")
	f.StringVar(&o.quirks, "listen-quirks", "", "second `address`, which refuses some item ids in paths as the older front end of the service does")
	f.StringVar(&o.control, "control", "", "`address` of the control port with its page, such as 127.0.0.1:8091; port 0 takes a free one. Default: none. Beyond loopback it wants the key of --key")
	f.StringVar(&o.key, "key", "", "master key in base64; or PSERVE_KEY in the environment. Default: the key of emulators, on loopback addresses only")
	f.StringVar(&o.cert, "cert", "", "`file` with a certificate in PEM. Default: one that is made once and kept in DIR-tls")
	f.StringVar(&o.certKey, "cert-key", "", "`file` with the private key of --cert in PEM")
	f.StringVar(&o.handler.Endpoint, "endpoint", "", "`address` that clients are told, such as https://db.test:8081/, or a host alone. Default: the one that they used")
	f.StringVar(&o.handler.Region, "region", "", "name of the only region (default Local)")
	f.StringVar(&o.handler.Consistency, "consistency", "", "default consistency that clients are told; reads are always strong (default Session)")
	f.BoolVar(&o.handler.Throttle, "throttle", false, "answer 429 to what goes beyond the provisioned throughput")
	f.BoolVar(&o.handler.LiberalQueries, "liberal", false, "answer queries over several logical partitions that the service leaves to its clients")
	f.BoolVar(&o.handler.KeyOrder, "key-order", false, "never give results without ORDER BY in the order of creation")
	f.BoolVar(&o.handler.CreationOrder, "creation-order", false, "give results without ORDER BY in the order of creation, also in containers of more than 10,000 documents, which have an index for it")
	f.Int64Var(&o.partitionBytes, "partition-bytes", 0, "`size` past which a physical partition splits by itself (default 50 GiB)")
	f.Float64Var(&o.partitionThroughput, "partition-throughput", 0, "`RU/s` past which a physical partition splits by itself (default: never)")
	f.StringVar(&o.durability, "durability", "synced", "synced, buffered or interval:100ms")
	f.DurationVar(&o.drain, "drain", 10*time.Second, "how long requests under way may take when the server is told to end")
	f.StringVar(&o.logLevel, "log", "warn", "`level` of messages on standard error: debug, info, warn or error")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("%q: flags only; see --help", f.Arg(0))
	}
	if o.db == "" {
		return nil, errors.New("--db DIR is missing: the directory of the store")
	}
	if (o.cert == "") != (o.certKey == "") {
		return nil, errors.New("--cert and --cert-key are given together")
	}
	if o.key == "" {
		o.key = os.Getenv("PSERVE_KEY")
	}
	return o, o.checkAddresses()
}

// checkAddresses refuses to serve others than this host with a key that everybody knows.
func (o *options) checkAddresses() error {
	if o.key != "" && o.key != gateway.EmulatorKey {
		return nil
	}
	for _, address := range []string{o.listen, o.quirks, o.control} {
		if address == "" {
			continue
		}
		local, err := isLoopback(address)
		if err != nil {
			return err
		}
		if !local {
			return fmt.Errorf("address %q is reached from other hosts: give --key, since everybody knows the key of emulators", address)
		}
	}
	return nil
}

// isLoopback says whether an address is reached from this host only.
func isLoopback(address string) (bool, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false, fmt.Errorf("address %q: %w", address, err)
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback(), nil
}

// ready is the line that is printed when requests are served.
type ready struct {
	Ready    bool     `json:"ready"`
	HTTP     []string `json:"http"`
	HTTPS    []string `json:"https"`
	Control  string   `json:"control,omitempty"`
	Cert     string   `json:"certificate"`
	Emulator bool     `json:"emulator_key"` // the key is that of emulators
	PID      int      `json:"pid"`
	Millis   float64  `json:"start_ms"`
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	begun := time.Now()
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	var level slog.Level
	if err = level.UnmarshalText([]byte(o.logLevel)); err != nil {
		return fmt.Errorf("--log: %w", err)
	}
	logger := slog.New(slog.NewJSONHandler(stderr, &slog.HandlerOptions{Level: level}))
	durability, err := engine.ParseDurability(o.durability)
	if err != nil {
		return fmt.Errorf("--durability: %w", err)
	}
	o.handler.Key, o.handler.Logger = o.key, logger
	settings := control.Options{
		Gateway: o.handler, Uncontrolled: o.control == "", Title: filepath.Base(o.db),
		Engine: engine.Options{
			Durability: durability, Logger: logger, MaxPartitionBytes: o.partitionBytes, MaxPartitionThroughput: o.partitionThroughput,
		},
	}
	hc, err := o.listenControl(ctx, &settings)
	if err != nil {
		return err
	}
	if hc != nil {
		defer hc.Close()
	}
	h, err := control.Open(ctx, o.db, &settings)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	pair, certFile, err := o.certificate()
	if err != nil {
		return err
	}
	s := &server{host: h, logger: logger, tls: &tls.Config{Certificates: []tls.Certificate{*pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}}
	defer s.close()
	line := ready{Ready: true, Cert: certFile, Emulator: o.key == "" || o.key == gateway.EmulatorKey, PID: os.Getpid()}
	for _, at := range []struct {
		address string
		handler http.Handler
	}{{o.listen, h}, {o.quirks, h.Quirks()}} {
		if at.address == "" {
			continue
		}
		address, failed := s.listen(ctx, at.address, s.routes(at.handler, certFile))
		if failed != nil {
			return failed
		}
		line.HTTP, line.HTTPS = append(line.HTTP, "http://"+address+"/"), append(line.HTTPS, "https://"+address+"/")
	}
	if hc != nil {
		line.Control = "http://" + hc.Addr().String() + "/"
		s.serve(hc, h.Control())
	}
	line.Millis = float64(time.Since(begun).Microseconds()) / 1000
	if err = json.NewEncoder(stdout).Encode(&line); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case err = <-s.failed:
	}
	drain, cancel := context.WithTimeout(context.Background(), o.drain)
	defer cancel()
	return errors.Join(err, s.shutdown(drain))
}

// listenControl listens at the address of the control port, nil without one, and sets what it is
// guarded by.
func (o *options) listenControl(ctx context.Context, settings *control.Options) (net.Listener, error) {
	if o.control == "" {
		return nil, nil //nolint:nilnil // no listener is wanted
	}
	local, err := isLoopback(o.control)
	if err != nil {
		return nil, err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", o.control)
	if err != nil {
		return nil, err
	}
	if local {
		settings.Hosts = console.LocalHosts(l.Addr().String())
	} else {
		settings.Key = o.key
	}
	return l, nil
}

// certificate returns the certificate of the server, and the file that holds it.
func (o *options) certificate() (*tls.Certificate, string, error) {
	if o.cert != "" {
		pair, err := tls.LoadX509KeyPair(o.cert, o.certKey)
		return &pair, o.cert, err
	}
	return keptCertificate(filepath.Clean(o.db) + "-tls")
}

// routes returns what is served at an address: the protocol, and pages without a
// signature that tell nothing of the data. The pages read no body.
func (s *server) routes(h http.Handler, certFile string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodGet && r.URL.Path == "/healthz":
			unread.HangUp(w, r)
			s.health(w, r)
		case r.Method == http.MethodGet && r.URL.Path == "/metrics":
			unread.HangUp(w, r)
			s.metrics(w, r)
		case r.Method == http.MethodGet && strings.EqualFold(r.URL.Path, "/_explorer/emulator.pem"):
			unread.HangUp(w, r)
			w.Header().Set("Content-Type", "application/x-pem-file")
			text, err := os.ReadFile(certFile)
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			w.Write(text) //nolint:errcheck // the client has gone
		default:
			h.ServeHTTP(w, r)
		}
	})
}
