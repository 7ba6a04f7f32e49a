package edit

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/cleavestore/cleave/cmd/pinspect/internal/command"
	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/humanize"
	"github.com/cleavestore/cleave/restore"
)

// RestoreKey brings a logical partition back from a backup.
type RestoreKey struct {
	containerTarget
	Key     string   `arg:"" help:"Partition key: a JSON scalar, or an array of them for several levels."`
	Files   []string `arg:"" help:"A full backup, and the incremental ones that follow it, in their order; - is standard input."`
	Replace bool     `help:"Delete and overwrite what the logical partition has now and the backup has not. Without this flag such a restore is refused."`
	DryRun  bool     `help:"Count what would change, and change nothing; also beside a process that writes to the store."`
	Temp    string   `placeholder:"DIR" help:"Where segment files of the backup are written for a while; default is the directory in which the store lies."`
}

// Help returns the long help text.
func (*RestoreKey) Help() string {
	return `Makes one logical partition, a tenant, what it is in a backup. All others stay as they are. What is restored are new writes, with new etags; documents that are equal already are not written. Documents expire when they would have expired; what has expired is left out.

If what differs fits into one transaction of the container, it is restored at once. If not, and the command is broken off, the logical partition is partly restored: the same command completes it. --dry-run says which it will be.

A process that has the store open calls restore.LogicalPartition instead. docs/multi-tenancy.md has more.

Examples:
  pinspect restore-key DIR notes '"acme"' monday.backup tuesday.backup --dry-run
  pinspect restore-key DIR notes '"acme"' monday.backup tuesday.backup --replace`
}

// RestoredKey is what the command prints as JSON.
type RestoredKey struct {
	command.Header
	DryRun bool `json:"dry_run"` // it says what would be done
	restore.Result
}

// Run runs the command.
func (c *RestoreKey) Run(ctx context.Context, env *command.Environment) error {
	key, err := command.ParseKey(c.Key)
	if err != nil {
		return err
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return err
	}
	o := &restore.Options{Replace: c.Replace, DryRun: c.DryRun, TempDir: c.Temp}
	if o.TempDir == "" {
		o.TempDir = filepath.Dir(dir)
	}
	o.Progress = func(p restore.Progress) {
		if p.Total > 0 {
			env.Line.Show(time.Now(), func() string {
				return fmt.Sprintf("restore: %s of %s", humanize.Count(p.Items), humanize.Plural(p.Total, "document", "documents"))
			})
		}
	}
	defer env.Line.Clear()
	in := command.NewConcatenation(env, "restore", c.Files)
	defer in.Close()
	var result restore.Result
	change := c.change
	if c.DryRun {
		change = c.look
	}
	err = change(ctx, func(_ *engine.DB, container *engine.Container) (err error) {
		if result, err = restore.LogicalPartition(ctx, container, key, in, o); err == nil {
			return nil
		}
		if damage, ok := errors.AsType[*engine.CorruptionError](err); ok && !strings.HasPrefix(damage.File, dir+string(filepath.Separator)) {
			return command.BackupFailure(err) // not of the store
		}
		if errors.Is(err, engine.ErrExists) {
			err = fmt.Errorf("%w (--replace; with --dry-run it only counts)", err)
		}
		if errors.Is(err, engine.ErrWrongParent) {
			return cli.Usage(err)
		}
		return err
	})
	env.Line.Clear()
	if err != nil {
		return err
	}
	if c.JSON {
		return env.Object(RestoredKey{command.Header{V: env.V, Type: "restored_key"}, c.DryRun, result})
	}
	did, how := "restored", "in one transaction"
	if c.DryRun {
		did = "to restore"
	}
	if !result.Atomic {
		how = "in several transactions"
	}
	return env.Printf("%s in %q: %s %s: %s created, %s replaced, %s deleted, %s unchanged; %s, %s\n",
		key, c.Container, humanize.Plural(result.Items, "document", "documents"), did, humanize.Count(result.Created), humanize.Count(result.Replaced),
		humanize.Count(result.Deleted), humanize.Count(result.Unchanged), humanize.Bytes(result.Bytes), how)
}

// look opens the store for reading, also beside a writer, and closes it after do.
func (t *containerTarget) look(ctx context.Context, do func(db *engine.DB, c *engine.Container) error) error {
	db, err := engine.Open(ctx, t.Dir, &engine.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	c, err := db.Container(t.Container)
	if err == nil {
		err = do(db, c)
	}
	return errors.Join(asUsage(err), db.Close())
}
