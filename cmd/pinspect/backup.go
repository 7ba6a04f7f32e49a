package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/humanize"
)

type backupCommand struct {
	target
	Out   string `name:"output" short:"o" required:"" placeholder:"FILE" help:"File to write, which must not exist; - is standard output."`
	Since string `xor:"since" placeholder:"FILE" help:"Make an incremental backup after the last one in this file: only segment files that are new since go into it."`

	Readable bool `xor:"since" help:"Of a damaged store: back up what can be read, and list what is left out. A repaired copy of the store is made beside FILE for a while. Its backup is a full one, of another store."`
}

// Help returns the long help text.
func (*backupCommand) Help() string {
	return `Writes the store as it is at one moment to a file, also beside a process that writes to the store (docs/backup.md). Every segment file is verified while it is copied; the file has its name only when it is a whole backup. A damaged store is refused without --readable; with it the exit status is 1 if something is left out. An incremental backup is restored after the full one and those between.

Examples:
  pinspect backup DIR -o monday.backup
  pinspect backup DIR --since monday.backup -o tuesday.backup
  pinspect backup DIR -o - | ssh host 'cat > monday.backup'
  pinspect backup DIR --readable -o rest.backup`
}

type restoreCommand struct {
	Dir   string   `arg:"" help:"Directory of the new store; absent or empty."`
	Files []string `arg:"" help:"A full backup, and the incremental ones that follow it, in their order; - is standard input."`
	Check bool     `help:"Read and check the backups, and restore nothing; DIR is not looked at."`
	JSON  bool     `name:"json" help:"Print JSON: one object a backup."`
}

// Help returns the long help text.
func (*restoreCommand) Help() string {
	return `Makes a store of a full backup and the incremental ones that follow it. Everything is verified while it is written, and the directory gets its name at the end: it is not there, or is the whole store. With --check a first backup may be an incremental one.

Examples:
  pinspect restore DIR monday.backup tuesday.backup
  pinspect restore DIR monday.backup --check`
}

// backupRow describes a backup.
type backupRow struct {
	header
	ID      string    `json:"id"`
	Parent  string    `json:"parent,omitempty"`
	Store   string    `json:"store"`
	Seq     uint64    `json:"seq"`
	Time    time.Time `json:"time"`
	Bytes   int64     `json:"bytes"` // of the stream
	Files   int       `json:"files"` // segment files that belong to it
	Carried int       `json:"files_carried"`
	LeftOut *leftOut  `json:"left_out,omitempty"` // of a damaged store, with --readable
}

// restoredRow says where a backup was restored.
type restoredRow struct {
	header
	Directory string `json:"directory"`
}

func newBackupRow(info *engine.BackupInfo) *backupRow {
	r := &backupRow{
		header: newHeader("backup"), ID: info.ID, Parent: info.Parent, Store: info.Store, Seq: info.Seq, Time: info.Time, Bytes: info.Bytes, Files: len(info.Files),
	}
	for i := range info.Files {
		if info.Files[i].Carried {
			r.Carried++
		}
	}
	return r
}

func (r *backupRow) String() string {
	kind := "full"
	if r.Parent != "" {
		kind = "incremental, after " + r.Parent
	}
	return fmt.Sprintf("backup %s (%s): sequence %s of %s, %s, %d of %s in it",
		r.ID, kind, humanize.Count(int64(r.Seq)), r.Time.Format(time.RFC3339), humanize.Bytes(r.Bytes), r.Carried, humanize.Plural(r.Files, "segment file", "segment files"))
}

// Run runs the command.
func (c *backupCommand) Run(ctx context.Context, env *environment, out *output) error {
	o := new(engine.BackupOptions)
	if c.Since != "" {
		all, err := verifyBackups(ctx, env, []string{c.Since})
		if err != nil {
			return err
		}
		o.Since = &all[len(all)-1]
	}
	dir, lost := c.Dir, new(leftOut)
	if c.Readable {
		beside := filepath.Dir(c.Out)
		if c.Out == "-" {
			beside = os.TempDir()
		}
		copied, err := os.MkdirTemp(beside, ".readable-*")
		if err != nil {
			return err
		}
		defer os.RemoveAll(copied)
		result, err := repair(ctx, env, c.Dir, copied, false)
		if err != nil {
			return err
		}
		dir, lost = copied, &result.leftOut
	}
	db, err := openStore(ctx, dir)
	if err != nil {
		return err
	}
	defer db.Close()
	line := env.newLine()
	defer line.Clear()
	o.Progress = func(p engine.BackupProgress) {
		line.Show(time.Now(), func() string {
			return fmt.Sprintf("backup: %s of %s, %d%%", humanize.Bytes(p.Bytes), humanize.Bytes(p.Total), 100*p.Bytes/max(p.Total, 1))
		})
	}
	var row *backupRow
	write := func(to io.Writer) error {
		info, failed := db.Backup(ctx, to, o)
		line.Clear()
		if errors.Is(failed, engine.ErrWrongParent) {
			return cli.Usage(failed)
		}
		if errors.Is(failed, engine.ErrCorrupt) || errors.Is(failed, engine.ErrMissing) {
			failed = fmt.Errorf("%w; --readable backs up what can be read", failed)
		}
		row = newBackupRow(&info)
		if c.Readable {
			row.LeftOut = lost
		}
		return readFailure(failed)
	}
	if c.Out == "-" {
		if err = write(out.w); err != nil {
			return err
		}
		_, err = fmt.Fprintln(env.stderr, row)
		return errors.Join(err, lost.failure())
	}
	if err = writeNew(c.Out, write); err != nil {
		return err
	}
	if c.JSON {
		err = out.object(row)
	} else {
		out.printf("%s\n", row)
		lost.print(out)
	}
	if err != nil {
		return err
	}
	return lost.failure()
}

// Run runs the command.
func (c *restoreCommand) Run(ctx context.Context, env *environment, out *output) error {
	var all []engine.BackupInfo
	var err error
	if c.Check {
		all, err = verifyBackups(ctx, env, c.Files)
	} else {
		in := newConcatenation(env, "restore", c.Files)
		defer in.close()
		err = engine.Restore(ctx, in, c.Dir)
	}
	if err = backupFailure(err); err != nil {
		return err
	}
	if !c.Check {
		if c.JSON {
			return out.object(restoredRow{newHeader("restored"), c.Dir})
		}
		out.printf("restored into %s\n", c.Dir)
		return nil
	}
	for i := range all {
		row := newBackupRow(&all[i])
		if c.JSON {
			err = errors.Join(err, out.object(row))
		} else {
			out.printf("%s\n", row)
		}
	}
	return err
}

// verifyBackups reads and checks backups.
func verifyBackups(ctx context.Context, env *environment, names []string) ([]engine.BackupInfo, error) {
	in := newConcatenation(env, "check", names)
	defer in.close()
	all, err := engine.VerifyBackup(ctx, in)
	return all, backupFailure(err)
}

// backupError is damage of a backup, of which verify knows nothing.
type backupError struct{ error }

func (e backupError) Unwrap() error { return e.error }

// backupFailure says what a failure to read backups means for the exit status.
func backupFailure(err error) error {
	switch {
	case errors.Is(err, engine.ErrCorrupt):
		return findingError{backupError{err}}
	case errors.Is(err, engine.ErrWrongParent), errors.Is(err, engine.ErrExists):
		return cli.Usage(err)
	}
	return err
}

// concatenation reads files one after the other.
type concatenation struct {
	env   *environment
	doing string
	input string   // all of it, for errors
	names []string // what is left
	name  string   // of the present one
	from  io.Reader
	shut  func() error
	read  int64
	line  *cli.Line
}

func newConcatenation(env *environment, doing string, names []string) *concatenation {
	return &concatenation{env: env, doing: doing, input: strings.Join(names, " + "), names: names, line: env.newLine()}
}

// Name tells errors where the input is.
func (c *concatenation) Name() string { return c.input }

// Read implements io.Reader.
func (c *concatenation) Read(p []byte) (int, error) {
	for {
		if c.from == nil {
			if len(c.names) == 0 {
				return 0, io.EOF
			}
			c.name, c.names = c.names[0], c.names[1:]
			if c.name == "-" {
				c.from, c.shut = c.env.stdin, func() error { return nil }
			} else {
				f, err := os.Open(c.name)
				if err != nil {
					return 0, err
				}
				c.from, c.shut = f, f.Close
			}
		}
		n, err := c.from.Read(p)
		c.read += int64(n)
		c.line.Show(time.Now(), func() string { return c.doing + " " + filepath.Base(c.name) + ": " + humanize.Bytes(c.read) + " read" })
		if err != io.EOF {
			return n, err
		}
		c.close()
		if n > 0 {
			return n, nil
		}
	}
}

// close closes the present file.
func (c *concatenation) close() {
	c.line.Clear()
	if c.from != nil {
		_ = c.shut() // it was only read
		c.from = nil
	}
}
