// Console shows a live page about a store in which one tenant is hot: a physical partition
// splits while one watches.
//
//	go run ./examples/console
//
// README.md beside this file says what to look at.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/cleavestore/cleave/console"
	"github.com/cleavestore/cleave/engine"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "console:", err)
		os.Exit(1)
	}
}

// run is the program; it returns when ctx has ended and everything is closed.
func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("console", flag.ContinueOnError)
	addr := flags.String("addr", "localhost:8080", "`address` to listen on")
	size := flags.Int64("split-bytes", 4<<20, "`bytes` of documents past which a physical partition splits")
	if err = flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%q: flags only", flags.Arg(0))
	}
	dir, err := os.MkdirTemp("", "console")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	events := new(console.Events)
	db, err := engine.Open(ctx, dir, &engine.Options{Events: events.Listener(nil), MaxPartitionBytes: *size, Durability: engine.Buffered})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	orders, err := db.EnsureContainer(ctx, "orders", engine.ContainerDef{
		PartitionKey: []string{"/tenant"},
		Index:        engine.IndexPolicy{Include: []string{"/total/?"}},
	})
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", *addr)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "watch http://%s, until Ctrl-C\n", listener.Addr())
	server := &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: console.Handler(db, &console.Options{
		Title: "orders of many tenants", Events: events, AllowSplit: true, Hosts: console.LocalHosts(listener.Addr().String()),
	})}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	load := make(chan error, 1)
	go func() { load <- order(ctx, orders) }()
	defer func() {
		cancel()
		err = errors.Join(err, <-load)
	}()
	if err = server.Serve(listener); errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return err
}

// order writes orders and reads some, until ctx ends: half of them are of one tenant.
func order(ctx context.Context, orders *engine.Container) error {
	note := make([]byte, 400)
	for i := 0; ctx.Err() == nil; i++ {
		for k := range note {
			note[k] = 'a' + byte(rand.IntN(26))
		}
		tenant := "hot"
		if i%2 == 0 {
			tenant = fmt.Sprintf("tenant %d", rand.IntN(500))
		}
		id := fmt.Sprint(rand.IntN(20_000))
		_, err := orders.Upsert(ctx, fmt.Appendf(nil, `{"id":%q,"tenant":%q,"total":%d,"note":%q}`, id, tenant, rand.IntN(1000), note), nil)
		if err == nil {
			if _, err = orders.Read(ctx, engine.StringKey("hot"), id); errors.Is(err, engine.ErrNotFound) {
				err = nil
			}
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Millisecond):
		}
	}
	return nil
}
