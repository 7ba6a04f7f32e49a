package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/alecthomas/kong"

	"github.com/cleavestore/cleave/cmd/pinspect/internal/command"
	"github.com/cleavestore/cleave/cmd/pinspect/internal/edit"
	"github.com/cleavestore/cleave/cmd/pinspect/internal/importer"
	"github.com/cleavestore/cleave/cmd/pinspect/internal/space"
	"github.com/cleavestore/cleave/cmd/pinspect/internal/storediff"
	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
)

// environment is what commands use of the outside.
type environment struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	width          int // columns of the terminal that stderr is; 0: it is none
}

// Exit statuses beside those of package cli.
const (
	exitFindings   = 1
	exitCannotOpen = 3 // or cannot write the output
)

type commands struct {
	Info       infoCommand       `cmd:"" default:"withargs" help:"What the store holds: containers, documents, bytes, state (the default)."`
	Tree       treeCommand       `cmd:"" help:"Containers, physical partitions, runs and segment files as a tree."`
	Partitions partitionsCommand `cmd:"" help:"Physical partitions with their ranges and sizes, and the largest logical ones."`
	Top        topCommand        `cmd:"" help:"The largest logical partitions, and how near they are to their limit."`
	Hot        hotCommand        `cmd:"" help:"The logical partitions in which the most documents were written lately."`
	Map        mapCommand        `cmd:"" help:"The key space of each container as a bar, or as a picture."`
	History    historyCommand    `cmd:"" help:"Splits, merges and moves of boundaries: which physical partition came from which."`
	Segments   segmentsCommand   `cmd:"" help:"Segment files: items, compression, sequences, dictionaries, sections."`
	Index      indexCommand      `cmd:"" help:"Secondary indexes: paths, terms, postings by kind, bytes, largest terms."`
	Wal        walCommand        `cmd:"" help:"Files of the log: records by type and stream, synced-up-to mark, torn tail."`
	Get        getCommand        `cmd:"" help:"Print one document."`
	Export     exportCommand     `cmd:"" aliases:"dump" help:"Write the documents of a container as NDJSON."`
	Query      queryCommand      `cmd:"" help:"Answer a query: SELECT … FROM c WHERE …"`
	Advise     adviseCommand     `cmd:"" help:"Which partition key to take for documents in a file or a store, and why."`
	Serve      serveCommand      `cmd:"" help:"Serve a live page about the store, for a browser."`
	Backup     backupCommand     `cmd:"" help:"Write the store to a file, in full or what is new since another backup."`
	Restore    restoreCommand    `cmd:"" help:"Make a store of backups, or check them."`
	Repair     repairCommand     `cmd:"" help:"Write what can be read of a damaged store into a new one."`
	Verify     verifyCommand     `cmd:"" help:"Check every checksum, order, range and locator entry."`
	Space      space.Command     `cmd:"" help:"What takes the space: live, dead, what compactions would give back, and what keeps them from it."`
	Diff       storediff.Command `cmd:"" help:"Compare the documents of two stores."`
	Create     edit.Create       `cmd:"" group:"change" help:"Make a container."`
	Drop       edit.Drop         `cmd:"" group:"change" help:"Remove a container."`
	Put        edit.Put          `cmd:"" group:"change" help:"Write documents."`
	Delete     edit.Delete       `cmd:"" group:"change" help:"Delete a document or a logical partition."`
	Alter      edit.Alter        `cmd:"" group:"change" help:"Change the throughput or the indexes of a container."`
	RestoreKey edit.RestoreKey   `cmd:"" group:"change" help:"Bring a logical partition back from a backup."`
	Import     importer.Import   `cmd:"" group:"change" help:"Bring documents from files, Cosmos DB, bbolt, Badger or SQLite."`
	Compact    edit.Compact      `cmd:"" group:"change" help:"Give back the space of overwritten and deleted documents."`
	Shell      shellCommand      `cmd:"" help:"Type queries and commands about one store."`
	Version    versionCommand    `cmd:"" help:"The version of this program, and the file formats that it writes and reads."`
	Completion cli.Completion    `cmd:"" help:"Print a script that completes commands and flags in a shell."`
	Man        cli.Man           `cmd:"" help:"Print the manual page."`
}

const description = `Look into a Cleave store, also beside a process that writes to it. No store is changed, except by the commands under "Commands that change a store", which need it closed; restore and repair make a new one.

Exit status: 0 clean, 1 something is damaged or a document is not found, 2 wrong usage or no such container or partition, 3 the store cannot be opened or the output not be written, 130 interrupted.`

// target names the store and the form of the output.
type target struct {
	Dir  string `arg:"" help:"Directory of the store."`
	JSON bool   `name:"json" help:"Print JSON: one object, or one a line where there are several."`
}

// findingError is something wrong that was met in a store that could be
// opened.
type findingError struct{ error }

func (e findingError) Unwrap() error { return e.error }

// errFound ends a command whose output shows what it found.
var errFound = errors.New("something was found")

// execute runs one command line and returns the exit status.
func execute(ctx context.Context, args []string, env *environment) int {
	out := &output{w: bufio.NewWriterSize(outputWriter{env.stdout}, 64<<10)}
	err := cli.Run("pinspect", new(commands), args,
		kong.Description(description),
		kong.Writers(env.stdout, env.stderr),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(env, out),
		kong.Bind(&command.Environment{Stdin: cli.Input(ctx, env.stdin), Stdout: out.w, Stderr: env.stderr, Line: env.newLine(), V: jsonVersion}),
		kong.ExplicitGroups([]kong.Group{{Key: "change", Title: "Commands that change a store:"}}),
	)
	if flushErr := out.w.Flush(); flushErr != nil && (err == nil || errors.Is(err, errFound) || errors.As(err, new(command.DiffersError))) {
		err = flushErr // an earlier failure to write is met again
	}
	return env.fail(err)
}

// fail prints an error and returns the exit status that goes with it.
func (e *environment) fail(err error) int {
	if ended, ok := errors.AsType[endedError](err); ok {
		return int(ended)
	}
	switch {
	case err == nil:
		return cli.ExitOK
	case errors.Is(err, errFound), errors.As(err, new(command.DiffersError)):
		return exitFindings
	case errors.Is(err, context.Canceled):
		text := "interrupted"
		if left, ok := errors.AsType[unfinishedError](err); ok {
			text += "\n" + left.advice()
		}
		cli.PrintError(e.stderr, "pinspect", errors.New(text))
		return cli.ExitInterrupted
	}
	cli.PrintError(e.stderr, "pinspect", err)
	if errors.As(err, new(*cli.UsageError)) {
		return cli.ExitUsage
	}
	if (errors.Is(err, errDamaged) || errors.Is(err, engine.ErrCorrupt)) && !errors.As(err, new(command.BackupError)) {
		fmt.Fprintf(e.stderr, "The command verify lists all that is wrong with a store; %s.\n", remedy(err))
	}
	if errors.As(err, new(findingError)) || errors.As(err, new(command.BackupError)) || errors.As(err, new(*importer.RejectedError)) || errors.As(err, new(*importer.BadRecordError)) || errors.Is(err, engine.ErrNotFound) {
		return exitFindings
	}
	return exitCannotOpen
}

// remedy says what helps against damage. A store whose manifest or log is damaged does not open,
// for repair neither; what is damaged in a partition, in p/NUMBER, is left out.
func remedy(err error) string {
	if at, ok := errors.AsType[*engine.CorruptionError](err); ok && filepath.Base(filepath.Dir(filepath.Dir(at.File))) != "p" {
		return "repair cannot read this one: restore a backup"
	}
	return "repair writes what can be read into a new one"
}

// wrote says what a command has written into a file.
func (e *environment) wrote(name, what string) {
	fmt.Fprintf(e.stderr, "pinspect: %s written to %s\n", what, printable(name))
}

// newLine returns a line for the progress of a command.
func (e *environment) newLine() *cli.Line { return cli.NewLine(e.stderr, e.width, time.Now()) }
