package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// nodes is how many processes each store has, and how many replicas.
const nodes = 3

// system is a store that is compared.
type system struct {
	name       string // on the command line
	title      string // in the table
	durability string // what is synced before a put is acknowledged
	// keepsNothing says that it has nothing after a start, so its losses are not asked for.
	keepsNothing bool
	setup        func(p *plan) error
	serve        func(ctx context.Context, p *plan, node int) error // one process, until the context ends
	connect      func(ctx context.Context, p *plan) (client, error)
}

// client is a connected client of a store. Its methods are safe for concurrent use.
type client interface {
	put(ctx context.Context, key string, doc []byte) error
	get(ctx context.Context, key string) ([]byte, error) // errMissing: there is none
	close()
}

var errMissing = errors.New("there is no such key")

// plan is what the processes of a store must know.
type plan struct {
	System    string
	Dir       string
	Peers     [nodes]string // addresses at which the processes reach each other, host:port
	Addresses [nodes]string // and at which clients reach them
}

// systems are all that are known, in the order of the table.
var systems = []*system{
	cleave("cleave", "Cleave, 8 groups", 8), cleave("cleave-1", "Cleave, 1 group", 1), etcd,
	natsKV("nats", "NATS 2.15.2, 1 group", "nothing: logs of two of three are written, and synced every two minutes", false),
	natsKV("nats-always", "NATS 2.15.2, 1 group, `sync_interval: always`", "the log of two of three, by fsync or O_SYNC", true),
	dragonboatEngine(), copying(),
}

func names() (out []string) {
	for _, s := range systems {
		out = append(out, s.name)
	}
	return out
}

type nodeCommand struct {
	Plan string `arg:"" help:"File with the plan of the store."`
	Node int    `arg:"" help:"Which process, from 0."`
}

// Run implements the command.
func (c *nodeCommand) Run(ctx context.Context) error {
	ctx, cancel := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer cancel()
	b, err := os.ReadFile(c.Plan)
	if err != nil {
		return err
	}
	var p plan
	if err = json.Unmarshal(b, &p); err != nil {
		return err
	}
	for _, s := range systems {
		if s.name == p.System {
			return s.serve(ctx, &p, c.Node)
		}
	}
	return errors.New("the plan names no store: " + p.System)
}
