package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/cleavestore/cleave/cmd/pinspect/internal/command"
	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/humanize"
)

type backupCommand struct {
	target
	Out   string `name:"output" short:"o" required:"" placeholder:"FILE" help:"File to write, which must not exist; - is standard output: what the command tells then goes to standard error."`
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
func (c *backupCommand) Run(ctx context.Context, env *environment, shared *command.Environment, out *output) error {
	if c.Out != "-" {
		if err := checkNew(c.Out); err != nil {
			return err
		}
	}
	o := new(engine.BackupOptions)
	if c.Since != "" {
		all, err := verifyBackups(ctx, shared, []string{c.Since})
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
			signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // a write that nobody reads fails, and does not end the program
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
	told := out
	if c.Out == "-" { // standard output is the backup
		told = &output{w: bufio.NewWriter(env.stderr)}
		if err = write(out.w); err == nil {
			err = out.w.Flush()
		}
	} else {
		err = writeNew(c.Out, write)
	}
	if err != nil {
		return err
	}
	if c.JSON {
		err = told.object(row)
	} else {
		told.printf("%s\n", row)
		lost.print(told)
	}
	if c.Out == "-" {
		err = errors.Join(err, told.w.Flush())
	}
	if err != nil {
		return err
	}
	return lost.failure()
}

// Run runs the command.
func (c *restoreCommand) Run(ctx context.Context, shared *command.Environment, out *output) error {
	var all []engine.BackupInfo
	var err error
	if c.Check {
		all, err = verifyBackups(ctx, shared, c.Files)
	} else {
		in := command.NewConcatenation(shared, "restore", c.Files)
		defer in.Close()
		err = engine.Restore(ctx, in, c.Dir)
	}
	if err = command.BackupFailure(err); err != nil {
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
func verifyBackups(ctx context.Context, env *command.Environment, names []string) ([]engine.BackupInfo, error) {
	in := command.NewConcatenation(env, "check", names)
	defer in.Close()
	all, err := engine.VerifyBackup(ctx, in)
	return all, command.BackupFailure(err)
}
