// Server keeps the notes of its users and serves them over HTTP: a program that
// embeds the engine.
//
//	go run ./examples/server
//
// README.md beside this file tries everything with curl. What is where:
//
//	main.go   opening, serving, shutting down in the right order
//	notes.go  the handlers
//	status.go which error is which status code
//	debug.go  metrics and profiles, on an address of their own
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/cleavestore/cleave/engine"
)

// config is what the command line says.
type config struct {
	addr       string
	debug      string
	dir        string
	throughput float64
	user       engine.KeyLimits
	grace      time.Duration
}

func main() {
	// The first signal ends ctx, and with it the server, in order. A second one
	// ends the process at once: a store takes no harm from that.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "server:", err)
		os.Exit(1)
	}
}

// run is the program; it returns when ctx has ended and everything is closed.
func run(ctx context.Context, args []string, out io.Writer) (err error) {
	var cfg config
	flags := flag.NewFlagSet("server", flag.ContinueOnError)
	flags.StringVar(&cfg.addr, "addr", "localhost:8080", "`address` to listen on")
	flags.StringVar(&cfg.debug, "debug", "", "`address` to serve metrics and profiles on; without it they are not served")
	flags.StringVar(&cfg.dir, "dir", "", "`directory` of the store; without it a temporary one, removed at the end")
	flags.Float64Var(&cfg.throughput, "throughput", 0, "request units a second that may be used, 0: without limit")
	flags.Float64Var(&cfg.user.Throughput, "user-throughput", 0, "request units a second that each user may use, 0: without limit")
	flags.Int64Var(&cfg.user.Bytes, "user-bytes", 64<<20, "`bytes` that the notes of each user may have")
	flags.DurationVar(&cfg.grace, "grace", 10*time.Second, "`time` that running requests have at the end")
	if err = flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%q: flags only", flags.Arg(0))
	}
	if cfg.dir == "" {
		if cfg.dir, err = os.MkdirTemp("", "notes"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(cfg.dir)) }()
	}

	// Open replays what the log has of a process that was killed. One process at
	// a time writes to a store: a second server gets ErrLocked here.
	db, err := engine.Open(ctx, cfg.dir, &engine.Options{Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	// Deferred, Close comes after everything that uses the store, whichever way
	// run ends.
	defer func() { err = errors.Join(err, db.Close()) }()
	notes, err := openNotes(ctx, db, cfg.throughput, cfg.user)
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", cfg.addr)
	if err != nil {
		return err
	}
	if cfg.debug != "" {
		debug, debugErr := new(net.ListenConfig).Listen(ctx, "tcp", cfg.debug)
		if debugErr != nil {
			return errors.Join(debugErr, listener.Close())
		}
		// It ends with the program, and before the store is closed.
		inspect := &http.Server{Handler: newDebugHandler(db), ReadHeaderTimeout: 5 * time.Second}
		go func() { _ = inspect.Serve(debug) }()
		defer inspect.Close()
		slog.Info("metrics and profiles", "url", "http://"+debug.Addr().String()+"/debug/vars")
	}
	fmt.Fprintf(out, "serving %s on http://%s, until Ctrl-C\n", cfg.dir, listener.Addr())
	err = serve(ctx, listener, newHandler(db, notes), cfg.grace)
	fmt.Fprintln(out, "closing the store")
	return err
}

// uncapped is a throughput that no user reaches, in request units a second.
const uncapped = 1e9

// openNotes returns the container of the notes, made if there is none.
func openNotes(ctx context.Context, db *engine.DB, throughput float64, user engine.KeyLimits) (*engine.Container, error) {
	notes, err := db.EnsureContainer(ctx, "notes", engine.ContainerDef{
		// All notes of a user lie together. Users whose notes share a physical
		// partition share its request units.
		PartitionKey: []string{"/user"},
		Index:        engine.IndexPolicy{Include: []string{"/tags/*", "/title/?"}},
		// Without bursts the limit can be met by hand. With them, the default,
		// partitions save up what they do not use.
		NoBurst: true,
	})
	if err != nil {
		return nil, err
	}
	// What a container may consume is kept with it, and changed while it serves.
	if notes.Def().Throughput != throughput {
		if err = notes.SetThroughput(ctx, throughput); err != nil {
			return nil, err
		}
	}
	// So are the limits of each user. One that nothing reaches has consumption counted.
	if user.Throughput == 0 {
		user.Throughput = uncapped
	}
	return notes, notes.SetDefaultKeyLimits(ctx, user)
}

// serve answers requests until ctx ends, then lets those that run finish.
func serve(ctx context.Context, listener net.Listener, handler http.Handler, grace time.Duration) error {
	server := &http.Server{
		Handler: handler,
		// There is no WriteTimeout, as a stream may be long. Its end is that of
		// the connection: the context of the request ends with it, and the scan
		// with the context.
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       30 * time.Second,
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err // it could not go on
	case <-ctx.Done():
	}
	// No new connections from here on. ctx has ended, so the time that is left
	// needs a context of its own.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if err := server.Shutdown(last); err != nil {
		return errors.Join(fmt.Errorf("requests were broken off: %w", err), server.Close())
	}
	return nil
}
