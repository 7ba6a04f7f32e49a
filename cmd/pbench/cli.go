package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"strings"

	"github.com/alecthomas/kong"
)

// environment is what commands use of the outside.
type environment struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	width          int // columns of the terminal that stderr is; 0: it is none
	open           func(ctx context.Context, dir string, o storeOptions) (store, error)
	args           []string
}

// Exit statuses.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

// errInterrupted says that the user ended the command; what was measured until
// then is printed.
var errInterrupted = errors.New("interrupted")

type commands struct {
	Demo demoCommand `cmd:"" default:"withargs" help:"Load generated documents into a temporary directory, run YCSB-B, print the figures (the default; under a minute)."`
	Load loadCommand `cmd:"" help:"Load generated documents, or NDJSON, into a container."`
	Run  runCommand  `cmd:"" help:"Run a workload on a container and print throughput and latencies."`
	List listCommand `cmd:"" help:"List generators, workloads and key distributions."`
}

const description = `Load and measure Cleave stores. Without a command: a demonstration of at most a minute.

Exit status: 0 success, 1 something failed, 2 wrong usage, 130 interrupted.`

// usageError is a mistake in the arguments that the parser does not see.
type usageError struct{ error }

// Unwrap returns the mistake.
func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// exited carries the status out of the parser, which ends the program itself
// after printing help.
type exited int

// execute runs one command line and returns the exit status.
func execute(ctx context.Context, args []string, env *environment) (status int) {
	defer func() {
		if code, ok := recover().(exited); ok {
			status = int(code)
		}
	}()
	env.args = args
	var c commands
	parser, err := kong.New(&c,
		kong.Name("pbench"),
		kong.Description(description),
		kong.Writers(env.stdout, env.stderr),
		kong.Exit(func(code int) { panic(exited(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.NamedMapper("directory", kong.MapperFunc(decodeDirectory)),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(env),
	)
	if err != nil {
		return env.fail("", err)
	}
	parsed, err := parser.Parse(args)
	if err != nil {
		command := ""
		var parseErr *kong.ParseError
		if errors.As(err, &parseErr) && parseErr.Context.Selected() != nil {
			command = parseErr.Context.Selected().Name
		}
		return env.fail(command, usageError{err})
	}
	return env.fail(parsed.Selected().Name, parsed.Run())
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
	target.SetString(name)
	return nil
}

// fail prints an error and returns the exit status that goes with it.
func (e *environment) fail(command string, err error) int {
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(e.stderr, "pbench: %v\n", err)
	if errors.Is(err, errInterrupted) {
		return exitInterrupted
	}
	if !errors.As(err, new(usageError)) {
		return exitFailed
	}
	if command == "demo" {
		command = ""
	}
	fmt.Fprintf(e.stderr, "See %s --help.\n", strings.TrimSpace("pbench "+command))
	return exitUsage
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
