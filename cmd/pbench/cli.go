package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"reflect"
	"time"

	"github.com/alecthomas/kong"

	"github.com/cleavestore/cleave/internal/cli"
)

// environment is what commands use of the outside.
type environment struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	width          int // columns of the terminal that stderr is; 0: it is none
	open           func(ctx context.Context, dir string, o storeOptions) (store, error)
	args           []string
	self           func(ctx context.Context, args ...string) (*exec.Cmd, error) // this program
	trial          trialTimes
}

// selfCommand prepares a process of this program.
func selfCommand(ctx context.Context, args ...string) (*exec.Cmd, error) {
	name, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return exec.CommandContext(ctx, name, args...), nil
}

// trialTimes say how long to try something out before it is measured.
type trialTimes struct {
	calibration time.Duration // of the clock
	maximum     time.Duration // the closed loop that finds a rate
}

var trialsOfUsers = trialTimes{calibration: time.Second, maximum: 4 * time.Second}

// Exit statuses beside those of package cli.
const (
	exitFailed = 1
	exitFull   = 3 // there is no space for the store
)

// errInterrupted says that the user ended the command; what was measured until
// then is printed.
var errInterrupted = errors.New("interrupted")

type commands struct {
	Demo    demoCommand    `cmd:"" default:"withargs" help:"Load generated documents into a temporary directory, run YCSB-B, split a partition meanwhile, print the figures (the default; half a minute)."`
	Load    loadCommand    `cmd:"" help:"Load generated documents, or NDJSON, into a container."`
	Run     runCommand     `cmd:"" help:"Run a workload on a container, at a rate or as fast as it goes, and print throughput and latencies."`
	Sweep   sweepCommand   `cmd:"" help:"Find the greatest rate at which latencies stay within bounds."`
	Splits  splitsCommand  `cmd:"" help:"Split partitions of some sizes under a steady load, and say what that cost and whether the bounds were kept."`
	Cold    coldCommand    `cmd:"" help:"Read a store larger than memory at random, beside a bare loop of reads of its files."`
	Feed    feedCommand    `cmd:"" help:"Follow the change feed beside buffered puts, through a split and a kill: how far behind it is, and whether every change comes once."`
	CatchUp catchUpCommand `cmd:"" name:"catchup" help:"Read the change feed of a store from the start, a time or a position: how fast, and with how much memory."`
	Copy    copyCommand    `cmd:"" help:"Give a container another partition key: copy it, and let the copy take its place."`
	Compare compareCommand `cmd:"" help:"Say what differs between the results of two runs."`
	List    listCommand    `cmd:"" help:"List generators, workloads and key distributions."`

	FeedLife feedLifeCommand `cmd:"" hidden:""`
}

const description = `Load and measure Cleave stores. Without a command: a demonstration of at most half a minute.

Exit status: 0 success, 1 something failed, 2 wrong usage, 3 the disk is full, 130 interrupted.`

func usagef(format string, args ...any) error { return cli.Usagef(format, args...) }

// execute runs one command line and returns the exit status.
func execute(ctx context.Context, args []string, env *environment) int {
	env.args = args
	out := &watchedOutput{w: env.stdout}
	env.stdout = out
	defer func() { env.stdout = out.w }()
	err := cli.Run("pbench", new(commands), args,
		kong.Description(description),
		kong.Writers(env.stdout, env.stderr),
		kong.NamedMapper("directory", kong.MapperFunc(decodeDirectory)),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(env),
	)
	if err == nil {
		err = out.err
	}
	if err == nil {
		return cli.ExitOK
	}
	if errors.Is(err, context.Canceled) && !errors.Is(err, errInterrupted) {
		err = errInterrupted // before anything was measured
	}
	cli.PrintError(env.stderr, "pbench", err)
	switch {
	case errors.Is(err, errInterrupted):
		return cli.ExitInterrupted
	case errors.As(err, new(*cli.UsageError)):
		return cli.ExitUsage
	case errors.Is(err, errDiskFull):
		return exitFull
	}
	return exitFailed
}

// watchedOutput remembers the first failure of a writer.
type watchedOutput struct {
	w   io.Writer
	err error
}

// Write implements io.Writer.
func (o *watchedOutput) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// decodeDirectory reads a flag that names a directory.
func decodeDirectory(ctx *kong.DecodeContext, target reflect.Value) error {
	var name string
	if err := ctx.Scan.PopValueInto("directory", &name); err != nil {
		return err
	}
	if name == "" {
		return errors.New("the name of the directory is empty")
	}
	if info, err := os.Stat(name); err == nil && !info.IsDir() {
		return fmt.Errorf("%s is a file: want the directory of a store", name)
	}
	target.SetString(name)
	return nil
}

// notef prints a message for people.
func (e *environment) notef(format string, args ...any) {
	fmt.Fprintf(e.stderr, "pbench: "+format+"\n", args...)
}

// logger returns where the engine logs to: nowhere, unless asked for.
func (e *environment) logger(on bool) *slog.Logger {
	if !on {
		return nil
	}
	return slog.New(slog.NewTextHandler(e.stderr, nil))
}
