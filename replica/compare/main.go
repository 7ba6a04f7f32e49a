// Command compare starts replicated stores on this machine, one after the other, and writes the
// same documents to each: Cleave, etcd, NATS JetStream, and dragonboat with Cleave's engine; and what is left of Cleave
// without Raft and without its engine. Each store runs as three processes
// with three replicas; the clients are in the process of the command. It prints a table in
// Markdown: acknowledged puts per second, how long a put takes, what it costs of the processors,
// and what is synced to disks before a put is acknowledged.
//
//	compare                               all stores
//	compare --systems 'cleave,etcd'       some of them
//	compare --loss                        kill all three processes while clients write, start them, and count what is lost
//	compare --power                       the same, and what was not synced is lost with them; only for root on Linux
//
// Exit status: 0 success, 1 something failed, 2 wrong usage, 130 interrupted. That a store has lost
// writes is a result, not a failure.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/replica/compare/powercut"
)

type commands struct {
	Run  runCommand  `cmd:"" default:"withargs" help:"Compare the stores."`
	Node nodeCommand `cmd:"" hidden:"" help:"Be one process of a store."`
}

// environment is what commands work with.
type environment struct {
	stdout, stderr io.Writer
}

func main() {
	os.Exit(execute(cli.Interruptible(), os.Args[1:], &environment{os.Stdout, os.Stderr}))
}

func execute(ctx context.Context, args []string, e *environment) int {
	err := cli.Run("compare", new(commands), args,
		kong.Description("Replicated stores on this machine, with the same work."),
		kong.Writers(e.stdout, e.stderr), kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(e))
	if err == nil {
		return cli.ExitOK
	}
	var usage *cli.UsageError
	switch {
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return cli.ExitInterrupted
	case errors.As(err, &usage):
		cli.PrintError(e.stderr, "compare", err)
		return cli.ExitUsage
	}
	cli.PrintError(e.stderr, "compare", err)
	return 1
}

type runCommand struct {
	Dir         string        `help:"Directory for the stores; what is in it is kept. It must be on a disk. Default: a temporary one in the working directory, which is removed." type:"path"`
	Systems     []string      `help:"Stores to compare. Default: all."`
	Clients     []int         `help:"Clients at the same time, one measurement for each number." default:"64,1"`
	Connections int           `help:"Connected clients of the store that the clients share." default:"1"`
	Size        int           `help:"Size of a document, in bytes." default:"1024"`
	Keys        int           `help:"Keys to which documents are put." default:"10000"`
	Time        time.Duration `help:"How long each measurement takes." default:"5s"`
	Loss        bool          `help:"Kill all processes of each store instead, start them again, and count acknowledged writes that are lost."`
	Power       bool          `help:"The same with a power cut: what was not synced is lost. Only for root on Linux, with /dev/fuse."`
}

// Run implements the command.
func (c *runCommand) Run(ctx context.Context, e *environment) error {
	chosen := systems
	if len(c.Systems) > 0 {
		chosen = nil
		for _, name := range c.Systems {
			i := slices.IndexFunc(systems, func(s *system) bool { return s.name == name })
			if i < 0 {
				return cli.Usagef("system %q: known are %s", name, strings.Join(names(), ", "))
			}
			chosen = append(chosen, systems[i])
		}
	}
	if c.Loss || c.Power {
		named := len(chosen)
		chosen = slices.DeleteFunc(slices.Clone(chosen), func(s *system) bool { return s.keepsNothing })
		if len(c.Systems) > 0 && len(chosen) < named {
			return cli.Usagef("one of the systems keeps nothing when its processes end: there is nothing to lose")
		}
	}
	if c.Connections < 1 || c.Keys < 1 || c.Size < 64 || slices.ContainsFunc(c.Clients, func(n int) bool { return n < 1 }) {
		return cli.Usagef("there must be a client, a connection and a key, and documents must have 64 bytes")
	}
	base := c.Dir
	if base == "" {
		// Not where temporary files are: that may be memory, where a sync costs nothing.
		dir, err := os.MkdirTemp(".", "compare-*.tmp")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		if base, err = filepath.Abs(dir); err != nil {
			return err
		}
	} else if err := os.MkdirAll(base, 0o700); err != nil {
		return err
	}
	if kind := volatile(base); kind != "" {
		fmt.Fprintf(e.stderr, "compare: %s is on %s: syncs cost nothing there, so the figures say nothing\n", base, kind)
	}
	var rows []row
	for i, s := range chosen {
		fmt.Fprintf(e.stderr, "%s\n", s.name)
		got, err := c.one(ctx, s, filepath.Join(base, fmt.Sprint(i)))
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		rows = append(rows, got...)
	}
	if c.Loss || c.Power {
		printLoss(e.stdout, rows, c.Power)
	} else {
		printFigures(e.stdout, rows)
	}
	return nil
}

// one starts a store, measures it, and ends it.
func (c *runCommand) one(ctx context.Context, s *system, dir string) (rows []row, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var disk *powercut.Disk
	if c.Power {
		backing := dir + ".disk"
		if err = errors.Join(os.Mkdir(backing, 0o700), os.Mkdir(dir, 0o700)); err != nil {
			return nil, err
		}
		if disk, err = powercut.Mount(backing, dir); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, disk.Close()) }()
		dir = filepath.Join(dir, "store")
	}
	t, err := start(ctx, s, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	if disk != nil {
		disk.Settle() // what the processes begin with
	}
	w := &work{trial: t, size: c.Size, keys: c.Keys, disk: disk}
	defer w.close()
	if err = w.connect(ctx, c.Connections); err != nil {
		return nil, err
	}
	if c.Loss || c.Power {
		r, err := w.lose(ctx, c.Clients[0], c.Time)
		return []row{{system: s, clients: c.Clients[0], loss: r}}, err
	}
	for _, n := range c.Clients {
		// What the caches and the connections need first is not measured.
		if _, err = w.measure(ctx, n, min(c.Time/5, time.Second)); err != nil {
			return nil, err
		}
		f, err := w.measure(ctx, n, c.Time)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row{system: s, clients: n, figure: f})
	}
	return rows, w.check(ctx)
}

// row is a line of the table.
type row struct {
	system  *system
	clients int
	figure  figure
	loss    loss
}

func printFigures(to io.Writer, rows []row) {
	fmt.Fprintf(to, "| store | clients | puts/s | p50 | p99 | processor per put | synced before a put is acknowledged |\n|---|---:|---:|---:|---:|---:|---|\n")
	for _, r := range rows {
		f := r.figure
		fmt.Fprintf(to, "| %s | %d | %.0f | %v | %v | %v | %s |\n", r.system.title, r.clients, float64(f.count)/f.took.Seconds(),
			f.p50.Round(time.Microsecond), f.p99.Round(time.Microsecond), (f.processor / time.Duration(f.count)).Round(100*time.Nanosecond), r.system.durability)
	}
}

func printLoss(to io.Writer, rows []row, power bool) {
	fmt.Fprintf(to, "| store | acknowledged puts | read back | lost | unsynced bytes that were taken | synced before a put is acknowledged |\n|---|---:|---:|---:|---:|---|\n")
	for _, r := range rows {
		fmt.Fprintf(to, "| %s | %d | %d | %d | %d | %s |\n", r.system.title, r.loss.acknowledged, r.loss.acknowledged-r.loss.lost, r.loss.lost, r.loss.unsynced, r.system.durability)
	}
	if power {
		fmt.Fprintf(to, "\nAll three processes were killed with `kill -9` at once, and their disks lost what was not synced, as by a power cut.\n")
		return
	}
	fmt.Fprintf(to, "\nAll three processes were killed with `kill -9` at once. What a process had written, the system still had in memory:\nthis finds writes that a process kept to itself, not what a power cut would take.\n")
}
