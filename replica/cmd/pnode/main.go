// Command pnode runs a node of a cluster of Cleave, and shows what a cluster does.
//
//	pnode init DIR        makes the description of a cluster, its certificates, and a directory for each node
//	pnode serve DIR/node1 runs a node
//	pnode status DIR      shows all nodes and groups
//	pnode demo            starts three nodes, kills leaders, splits a partition and adds a node while writes go on, and reads back what was acknowledged
//	pnode changes DIR orders  shows what was written to a container
//	pnode promote DIR --region R  makes the readers of a region voters, when that of the voters is lost
//	pnode bench           starts three nodes and measures them
//
// Exit status: 0 success, 1 something failed or was lost, 2 wrong usage, 130 interrupted.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/alecthomas/kong"

	"github.com/cleavestore/cleave/internal/cli"
)

type commands struct {
	Init      initCommand      `cmd:"" help:"Make a new cluster: its description, certificates, and directories of nodes."`
	Serve     serveCommand     `cmd:"" help:"Run a node."`
	Add       addCommand       `cmd:"" help:"Add a node to a cluster: its id, certificate and directory."`
	Renew     renewCommand     `cmd:"" help:"Give all certificates of a cluster new times."`
	Drain     drainCommand     `cmd:"" help:"Have a node lose its replicas, and show how far that is."`
	Move      moveCommand      `cmd:"" help:"Move a replica of a group from one node to another."`
	Container containerCommand `cmd:"" help:"Make a container while the cluster runs."`
	Index     indexCommand     `cmd:"" help:"Change what is indexed of a container."`
	TTL       ttlCommand       `cmd:"" name:"ttl" help:"Change the default time to live of a container."`
	Drop      dropCommand      `cmd:"" help:"Drop a container with all its items, for good."`
	Backup    backupCommand    `cmd:"" help:"Back up every group of a cluster, each from one replica."`
	Restore   restoreCommand   `cmd:"" help:"Write a backup to another cluster."`
	Changes   changesCommand   `cmd:"" help:"Show what was written to a container, from a position on."`
	Promote   promoteCommand   `cmd:"" help:"Make the readers of a region voters, after the region of the voters was lost for good."`
	Status    statusCommand    `cmd:"" help:"Show the nodes and groups of a cluster."`
	Demo      demoCommand      `cmd:"" help:"Run three nodes on this machine, kill leaders while writes go on, and check every acknowledged write."`
	Bench     benchCommand     `cmd:"" help:"Run three nodes on this machine and measure them."`
}

// environment is what commands work with.
type environment struct {
	stdout, stderr io.Writer
}

func main() {
	os.Exit(execute(cli.Interruptible(), os.Args[1:], &environment{os.Stdout, os.Stderr}))
}

// unfinished is the error of a command that has begun something and ends before that does. What has become of it
// is said also if the command was interrupted.
type unfinished struct {
	so  string
	err error
}

// Error implements error.
func (u *unfinished) Error() string { return u.so + ": " + u.err.Error() }

// Unwrap returns the cause.
func (u *unfinished) Unwrap() error { return u.err }

// atLeast returns a usage error for a flag with a value below the least one that means something. NaN is below all.
func atLeast[T int | float64 | time.Duration](flag string, value, least T) error {
	if value >= least {
		return nil
	}
	return cli.Usage(fmt.Errorf("--%s is %v: it is at least %v", flag, value, least))
}

func execute(ctx context.Context, args []string, e *environment) int {
	err := cli.Run("pnode", new(commands), args,
		kong.Description("Nodes of a cluster of Cleave: physical partitions as Raft groups."),
		kong.Writers(e.stdout, e.stderr), kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(e))
	if err == nil {
		return cli.ExitOK
	}
	var usage *cli.UsageError
	var rest *unfinished
	switch {
	case errors.As(err, &rest) && ctx.Err() != nil:
		cli.PrintError(e.stderr, "pnode", err)
		return cli.ExitInterrupted
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return cli.ExitInterrupted
	case errors.As(err, &usage):
		cli.PrintError(e.stderr, "pnode", err)
		return cli.ExitUsage
	}
	cli.PrintError(e.stderr, "pnode", err)
	return 1
}
