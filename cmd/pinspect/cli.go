package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/cleavestore/cleave/engine"
)

// environment is what commands use of the outside.
type environment struct {
	stdout, stderr io.Writer
	width          int // columns of the terminal that stderr is; 0: it is none
}

// Exit statuses.
const (
	exitClean       = 0
	exitFindings    = 1
	exitUsage       = 2
	exitCannotOpen  = 3
	exitInterrupted = 130
)

type commands struct {
	Info       infoCommand       `cmd:"" default:"withargs" help:"What the store holds: containers, documents, bytes, state (the default)."`
	Tree       treeCommand       `cmd:"" help:"Containers, physical partitions, runs and segment files as a tree."`
	Partitions partitionsCommand `cmd:"" help:"Physical partitions with their ranges and sizes, and the largest logical ones."`
	Segments   segmentsCommand   `cmd:"" help:"Segment files: items, compression, sequences, dictionaries, sections."`
	Wal        walCommand        `cmd:"" help:"Files of the log: records by type and stream, synced-up-to mark, torn tail."`
	Get        getCommand        `cmd:"" help:"Print one document."`
	Dump       dumpCommand       `cmd:"" help:"Print the documents of a container as NDJSON."`
	Verify     verifyCommand     `cmd:"" help:"Check every checksum, order, range and locator entry."`
}

const description = `Look into a Cleave store, also beside a process that writes to it. Nothing on disk is changed.

Exit status: 0 clean, 1 something is damaged or a document is not found, 2 wrong usage or no such container or partition, 3 the store cannot be opened, 130 interrupted.`

// target names the store and the form of the output.
type target struct {
	Dir  string `arg:"" help:"Directory of the store."`
	JSON bool   `name:"json" help:"Print JSON: one object, or one a line where there are several."`
}

// usageError is a mistake in the arguments.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// findingError is something wrong that was met in a store that could be
// opened.
type findingError struct{ error }

func (e findingError) Unwrap() error { return e.error }

// errFound ends a command whose output shows what it found.
var errFound = errors.New("something was found")

// exited carries the status out of the parser, which ends the program itself
// after printing help.
type exited int

// execute runs one command line and returns the exit status.
func execute(ctx context.Context, args []string, env *environment) (status int) {
	defer func() {
		if r := recover(); r != nil {
			code, ok := r.(exited)
			if !ok {
				panic(r)
			}
			status = int(code)
		}
	}()
	var c commands
	out := &output{w: bufio.NewWriterSize(env.stdout, 64<<10)}
	parser, err := kong.New(&c,
		kong.Name("pinspect"),
		kong.Description(description),
		kong.Writers(env.stdout, env.stderr),
		kong.Exit(func(code int) { panic(exited(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(env, out),
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
	err = parsed.Run()
	if flushErr := out.w.Flush(); flushErr != nil {
		err = fmt.Errorf("write: %w", flushErr)
	}
	return env.fail(parsed.Selected().Name, err)
}

// fail prints an error and returns the exit status that goes with it.
func (e *environment) fail(command string, err error) int {
	if err == nil {
		return exitClean
	}
	if errors.Is(err, errFound) {
		return exitFindings
	}
	if errors.Is(err, context.Canceled) {
		fmt.Fprintln(e.stderr, "pinspect: interrupted")
		return exitInterrupted
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(e.stderr, "pinspect: %s\n", strings.TrimSuffix(line, "\n"))
	}
	if damaged := errors.Is(err, errDamaged) || errors.Is(err, engine.ErrCorrupt); damaged && !errors.As(err, new(usageError)) {
		fmt.Fprintln(e.stderr, "The command verify lists all that is wrong with a store.")
	}
	switch {
	case errors.As(err, new(usageError)):
		if command == "info" {
			command = ""
		}
		fmt.Fprintf(e.stderr, "See %s --help.\n", strings.TrimSpace("pinspect "+command))
		return exitUsage
	case errors.As(err, new(findingError)):
		return exitFindings
	}
	return exitCannotOpen
}
