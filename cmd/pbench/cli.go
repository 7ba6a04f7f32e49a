package main

import (
	"context"

	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/harness"
)

type commands struct {
	Demo       demoCommand    `cmd:"" default:"withargs" help:"Load generated documents into a temporary directory, run YCSB-B, split a partition meanwhile, print the figures (the default; half a minute)."`
	Load       loadCommand    `cmd:"" help:"Load generated documents, or NDJSON, into a container."`
	Run        runCommand     `cmd:"" help:"Run a workload on a container, at a rate or as fast as it goes, and print throughput and latencies."`
	Sweep      sweepCommand   `cmd:"" help:"Find the greatest rate at which latencies stay within bounds."`
	Reopen     reopenCommand  `cmd:"" help:"Time how long a store takes to open, to read a first document and to close."`
	Copy       copyCommand    `cmd:"" help:"Give a container another partition key: copy it, and let the copy take its place."`
	Compare    compareCommand `cmd:"" help:"Say what differs between the results of two runs."`
	Report     reportCommand  `cmd:"" help:"Draw a run, or two beside each other, as a page of HTML."`
	List       listCommand    `cmd:"" help:"List generators, workloads and key distributions."`
	Version    versionCommand `cmd:"" help:"The version of this program, and the file formats that it writes and reads."`
	Completion cli.Completion `cmd:"" help:"Print a script that completes commands and flags in a shell."`
	Man        cli.Man        `cmd:"" help:"Print the manual page."`
}

const description = `Load and measure Cleave stores. Without a command: a demonstration of at most half a minute.

Exit status: 0 success, 1 something failed, 2 wrong usage, 3 the disk is full, 130 interrupted.`

// execute runs one command line and returns the exit status.
func execute(ctx context.Context, args []string, env *harness.Environment) int {
	return env.Execute(ctx, "pbench", description, new(commands), args)
}
