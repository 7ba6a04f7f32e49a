package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/humanize"
)

type repairCommand struct {
	Src   string `arg:"" help:"Directory of the damaged store, which is not changed."`
	Dst   string `arg:"" help:"Directory of the store to make: empty or absent."`
	Older bool   `help:"Write documents too of which a newer version, or a delete, may lie in what is damaged."`
	JSON  bool   `name:"json" help:"Print JSON: one object."`
}

// Help returns the long help text.
func (*repairCommand) Help() string {
	return `Writes what can be read of a store into a new one, and lists what could not be read: the file, the offset and the part of the key space. Documents keep their keys, ids and when they expire; etags and times of modification are new. A document of which a newer version may lie in what is damaged is left out without --older. A store whose own manifest or log is damaged cannot be repaired so.

A repair that is interrupted, or fails, leaves NEW with a part of the documents: remove NEW and begin again.

Exit status 0: everything was read; 1: something is lost, see the list.

Examples:
  pinspect repair DIR NEW
  pinspect repair DIR NEW --older --json`
}

// repairResult is what repair prints.
type repairResult struct {
	header
	Documents int64 `json:"documents"`
	Bytes     int64 `json:"bytes"`
	leftOut
}

// leftOut is what a copy of a damaged store lacks.
type leftOut struct {
	Uncertain int64        `json:"uncertain"` // documents of which a newer version may be lost
	Refused   []string     `json:"refused,omitempty"`
	Lost      []damageInfo `json:"lost,omitempty"`
}

// print lists what is left out.
func (l *leftOut) print(out *output) {
	if l.Uncertain > 0 {
		out.printf("! %s documents may have a newer version in what is damaged\n", humanize.Count(l.Uncertain))
	}
	for _, text := range l.Refused {
		out.printf("! not written: %s\n", printable(text))
	}
	printDamage(out, l.Lost, len(l.Lost))
}

// failure is the error of a command that has made such a copy; nil: nothing is lost.
func (l *leftOut) failure() error {
	if len(l.Lost)+len(l.Refused) == 0 {
		return nil
	}
	return findingError{fmt.Errorf("%w: %s", errDamagedParts, humanize.Plural(len(l.Lost), "place", "places"))}
}

// repair makes the store dst of what can be read of src.
func repair(ctx context.Context, env *environment, src, dst string, older bool) (*repairResult, error) {
	line := env.newLine()
	defer line.Clear()
	report, err := engine.Repair(ctx, src, dst, &engine.RepairOptions{Older: older, Progress: func(r engine.RepairReport) {
		line.Show(time.Now(), func() string { return humanize.Count(r.Documents) + " documents written" })
	}})
	if errors.Is(err, engine.ErrExists) || errors.Is(err, engine.ErrNotStore) {
		err = cli.Usage(err)
	}
	if err != nil {
		return nil, err
	}
	result := &repairResult{header: newHeader("repaired"), Documents: report.Documents, Bytes: report.Bytes}
	result.Uncertain, result.Lost = report.Uncertain, describeDamage(report.Lost)
	for _, refused := range report.Refused {
		result.Refused = append(result.Refused, refused.Error())
	}
	return result, nil
}

// unfinishedError says that a command has left a store that is not whole.
type unfinishedError struct {
	err error
	dir string
}

// Error implements error.
func (e unfinishedError) Error() string { return e.err.Error() + "\n" + e.advice() }

// Unwrap returns why the command ended.
func (e unfinishedError) Unwrap() error { return e.err }

// advice says what to do with the store.
func (e unfinishedError) advice() string {
	return fmt.Sprintf("%s has only a part of the documents: remove it before you repair again", printable(e.dir))
}

// holdsFiles says whether there is something in a directory.
func holdsFiles(dir string) bool {
	entries, err := os.ReadDir(dir)
	return err == nil && len(entries) > 0
}

// Run runs the command.
func (c *repairCommand) Run(ctx context.Context, env *environment, out *output) error {
	before := holdsFiles(c.Dst) // then it is not what this command has left
	result, err := repair(ctx, env, c.Src, c.Dst, c.Older)
	if err != nil && !before && holdsFiles(c.Dst) {
		return unfinishedError{err, c.Dst}
	}
	if err != nil {
		return err
	}
	if c.JSON {
		err = out.object(result)
	} else {
		out.printf("%s, %s, written to %s\n", humanize.Plural(result.Documents, "document", "documents"), humanize.Bytes(result.Bytes), printable(c.Dst))
		result.print(out)
	}
	if err != nil {
		return err
	}
	return result.failure()
}
