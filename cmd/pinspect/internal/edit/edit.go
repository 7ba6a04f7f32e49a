// Package edit holds the commands of pinspect that change a store: containers and their
// settings, documents, space. They take the store's lock as any writer does, so they
// refuse a store that another process has open. Each change is durable when its command
// has ended with status 0, or says that the change is made.
package edit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cleavestore/cleave/cmd/pinspect/internal/command"
	"github.com/cleavestore/cleave/cmd/pinspect/internal/layout"
	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/definition"
	"github.com/cleavestore/cleave/internal/humanize"
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/workload"
)

// Done is what a command of this package prints as JSON.
type Done struct {
	command.Header
	// Documents is how many documents were written or deleted.
	Documents   int64   `json:"documents,omitempty"`
	Charge      float64 `json:"charge,omitempty"`
	BytesBefore int64   `json:"bytes_before,omitempty"` // of the store on disk
	BytesAfter  int64   `json:"bytes_after,omitempty"`
}

// target is the store that a command changes.
type target struct {
	Dir  string `arg:"" help:"Directory of the store."`
	JSON bool   `name:"json" help:"Print JSON: one object."`
}

// containerTarget is the container that a command changes.
type containerTarget struct {
	target
	Container string `arg:"" help:"Name of the container."`
}

// print says what was done, as a sentence or as JSON.
func (t *target) print(env *command.Environment, done Done, format string, args ...any) error {
	if t.JSON {
		done.V = env.V
		return env.Object(done)
	}
	return env.Printf(format+"\n", args...)
}

// change opens the store, which exists, and closes it after do.
func (t *target) change(ctx context.Context, do func(db *engine.DB) error) error {
	f, err := layout.Open(t.Dir)
	if err != nil {
		return err
	}
	_, _, err = f.LoadStore(ctx) // refuses a directory without a store, in which Open would make one
	f.Close()
	if err != nil {
		return err
	}
	return open(ctx, t.Dir, do)
}

func open(ctx context.Context, dir string, do func(db *engine.DB) error) error {
	db, err := engine.Open(ctx, dir, nil)
	if err != nil {
		return err
	}
	err = asUsage(patiently(ctx, func() error { return do(db) }))
	closeErr := db.Close()
	if err == nil && closeErr != nil { // it is in the log, or in a manifest
		return fmt.Errorf("the change is made, and the store was not closed in order: %w", closeErr)
	}
	return errors.Join(err, closeErr)
}

// change opens the store and the container, and closes the store after do.
func (t *containerTarget) change(ctx context.Context, do func(db *engine.DB, c *engine.Container) error) error {
	return t.target.change(ctx, func(db *engine.DB) error {
		c, err := db.Container(t.Container)
		if err != nil {
			return err
		}
		return do(db, c)
	})
}

// patiently tries again what was refused because the container has used up its throughput:
// nothing was done then.
func patiently(ctx context.Context, do func() error) error {
	for {
		err := do()
		var throttled *engine.ThrottledError
		if !errors.As(err, &throttled) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(throttled.RetryAfter):
		}
	}
}

// asUsage marks errors that the command line has caused.
func asUsage(err error) error {
	for _, cause := range []error{engine.ErrInvalid, engine.ErrTooLarge, engine.ErrNoContainer, engine.ErrExists, engine.ErrUniqueKey, engine.ErrLogicalPartitionFull} {
		if errors.Is(err, cause) {
			return cli.Usage(err)
		}
	}
	return err
}

// Create makes a container.
type Create struct {
	containerTarget
	PartitionKey []string      `required:"" sep:"none" placeholder:"/PATH" help:"Path of the partition key; repeated or separated by commas for up to three levels."`
	Opaque       bool          `help:"The documents are bytes, not JSON; the paths of the key then only tell how many levels it has."`
	Index        bool          `help:"Index all values."`
	IndexPath    []string      `sep:"none" placeholder:"/PATH/*" help:"Index these values: /PATH/? for a scalar, /PATH/* for all that is below; may be repeated."`
	Composite    []string      `sep:"none" placeholder:"/PATH [desc],..." help:"Index the values at these paths together, in this order; may be repeated."`
	UniqueKey    []string      `sep:"none" placeholder:"/PATH,..." help:"Paths whose values no two documents of a logical partition may share; may be repeated."`
	TTL          time.Duration `name:"ttl" placeholder:"TIME" help:"How long documents live after their last write, such as 24h; default for ever."`
	Throughput   float64       `placeholder:"RU" help:"Request units a second; default unlimited."`
	Partitions   int           `placeholder:"N" help:"Physical partitions to begin with; default 1."`
}

// Help returns the long help text.
func (*Create) Help() string {
	return `Makes a container. A directory that is absent or empty becomes a store.

Examples:
  pinspect create DIR cities --partition-key /country --index
  pinspect create DIR events --partition-key /tenant,/user --ttl 720h`
}

// Run runs the command.
func (c *Create) Run(ctx context.Context, env *command.Environment) error {
	def := engine.ContainerDef{PartitionKey: jsondoc.SplitPaths(c.PartitionKey...), DefaultTTL: c.TTL, Throughput: c.Throughput, MinPartitions: c.Partitions}
	for _, paths := range c.UniqueKey {
		def.UniqueKeys = append(def.UniqueKeys, jsondoc.SplitPaths(paths))
	}
	if c.Opaque {
		def.Kind = engine.Opaque
	}
	policy, err := policyOf(c.Index, c.IndexPath, c.Composite)
	if err != nil {
		return err
	}
	def.Index = policy
	if err = c.check(&def); err != nil {
		return err
	}
	err = open(ctx, c.Dir, func(db *engine.DB) error {
		_, made := db.CreateContainer(ctx, c.Container, def)
		return made
	})
	if err != nil {
		return err
	}
	return c.print(env, Done{Header: command.Header{Type: "created"}}, "container %q created", c.Container)
}

// check looks at a definition before anything is done for it.
func (t *containerTarget) check(def *engine.ContainerDef) error {
	d := definition.Def{
		PartitionKey: def.PartitionKey, Kind: definition.Kind(def.Kind), MinPartitions: def.MinPartitions, DefaultTTL: def.DefaultTTL,
		Throughput: def.Throughput, Index: index.Policy(def.Index), UniqueKeys: def.UniqueKeys,
	}
	err := d.Check(t.Container)
	if err == nil {
		if _, err = d.Compile(); err != nil {
			err = fmt.Errorf("container %q: %w", t.Container, err)
		}
	}
	if err != nil {
		return cli.Usagef("%w: %w", engine.ErrInvalid, err)
	}
	return nil
}

// Drop removes a container.
type Drop struct {
	containerTarget
	Yes bool `help:"Do it. Without this flag the command says what would be lost."`
}

// Help returns the long help text.
func (*Drop) Help() string {
	return `Removes a container with all its documents. Without --yes nothing is removed. Make a backup first: pinspect backup DIR -o FILE.

Example:
  pinspect drop DIR cities --yes`
}

// Run runs the command.
func (c *Drop) Run(ctx context.Context, env *command.Environment) error {
	var documents int64
	err := c.change(ctx, func(db *engine.DB, container *engine.Container) error {
		for _, p := range container.Partitions() {
			documents += p.Items
		}
		if !c.Yes {
			return cli.Usagef("container %q has %s at most; --yes removes it with all of them", c.Container, humanize.Plural(documents, "document", "documents"))
		}
		return db.DropContainer(ctx, c.Container)
	})
	if err != nil {
		return err
	}
	return c.print(env, Done{Header: command.Header{Type: "dropped"}}, "container %q removed", c.Container)
}

// Put writes documents.
type Put struct {
	containerTarget
	Document *string `arg:"" optional:"" help:"The document; - or none: NDJSON on standard input. Of an opaque container standard input is the document."`
	Key      string  `placeholder:"KEY" help:"Partition key as JSON; for an opaque container."`
	ID       string  `name:"id" placeholder:"ID" help:"Id; for an opaque container."`
	Create   bool    `help:"Refuse a document whose id exists in its logical partition. For one document."`
}

// Help returns the long help text.
func (*Put) Help() string {
	return `Writes one document, or each line of standard input. A document with the same key and id is replaced.

Examples:
  pinspect put DIR cities '{"id":"oslo","country":"NO"}'
  zstdcat cities.ndjson.zst | pinspect put DIR cities -
  pinspect put DIR blobs --key '"a"' --id picture < picture.png`
}

// Run runs the command.
func (c *Put) Run(ctx context.Context, env *command.Environment) error {
	if c.Document != nil && *c.Document == "" {
		return cli.Usagef("the document is empty, perhaps a shell variable that is not set: give a document, or - to read standard input")
	}
	done := Done{Header: command.Header{Type: "written"}}
	err := c.change(ctx, func(_ *engine.DB, container *engine.Container) error {
		if container.Def().Kind == engine.Opaque {
			return c.putOpaque(ctx, env, container, &done)
		}
		if c.Key != "" || c.ID != "" {
			return cli.Usagef("a JSON document says its key and its id itself: no --key, no --id")
		}
		if c.standardInput() {
			return c.load(ctx, env, container, &done)
		}
		write := container.Upsert
		if c.Create {
			write = container.Create
		}
		meta, err := write(ctx, []byte(*c.Document), nil)
		if errors.Is(err, engine.ErrExists) {
			return fmt.Errorf("a document with this key and id: %w", err)
		}
		done.Documents, done.Charge = 1, meta.Charge
		return err
	})
	if err != nil {
		return err
	}
	return c.print(env, done, "%s written to %q", humanize.Plural(done.Documents, "document", "documents"), c.Container)
}

func (c *Put) putOpaque(ctx context.Context, env *command.Environment, container *engine.Container, done *Done) error {
	if c.ID == "" || c.Key == "" {
		return cli.Usagef("container %q is opaque: --key and --id name the document", c.Container)
	}
	key, err := command.ParseKey(c.Key)
	if err != nil {
		return err
	}
	var body []byte
	if c.standardInput() {
		limit := container.Def().Limits.ItemBytes
		if body, err = io.ReadAll(io.LimitReader(env.Stdin, limit+1)); err != nil {
			return err
		}
	} else {
		body = []byte(*c.Document)
	}
	return patiently(ctx, func() error { // not all of the command: standard input is read once
		if c.Create { // this process has the store's lock: nobody writes in between
			switch _, err := container.Read(ctx, key, c.ID); {
			case err == nil:
				return fmt.Errorf("a document with this key and id: %w", engine.ErrExists)
			case !errors.Is(err, engine.ErrNotFound):
				return err
			}
		}
		meta, err := container.Put(ctx, key, c.ID, body, nil)
		done.Documents, done.Charge = 1, meta.Charge
		return err
	})
}

// standardInput says whether the documents come from standard input.
func (c *Put) standardInput() bool { return c.Document == nil || *c.Document == "-" }

// load writes the lines of standard input.
func (c *Put) load(ctx context.Context, env *command.Environment, container *engine.Container, done *Done) error {
	if c.Create {
		return cli.Usagef("--create is for one document")
	}
	defer env.Line.Clear()
	lines := workload.NewLines(env.Stdin, "standard input", 0)
	defer lines.Close()
	docs := func(yield func([]byte, error) bool) {
		for doc, err := range lines.All() {
			env.Line.Show(time.Now(), func() string { return "line " + humanize.Count(lines.Line()) })
			if !yield(doc, err) {
				return
			}
		}
	}
	stats, err := container.Load(ctx, docs, nil)
	done.Documents = stats.Committed
	var refused *engine.InputError
	if errors.As(err, &refused) {
		err = lines.Refused(err)
		if errors.As(err, new(*jsondoc.Error)) || errors.Is(err, workload.ErrLineTooLong) {
			err = cli.Usage(err) // as what asUsage finds; not a read that failed, a full disk
		}
	}
	if err != nil {
		return fmt.Errorf("%s written, then: %w", humanize.Plural(stats.Committed, "document", "documents"), err)
	}
	return nil
}

// Delete removes a document or a logical partition.
type Delete struct {
	containerTarget
	Key string `arg:"" help:"Partition key: a JSON scalar, or an array of them for several levels."`
	ID  string `arg:"" optional:"" name:"id" help:"Id of the document."`
	All bool   `help:"Delete the whole logical partition."`
}

// Help returns the long help text.
func (*Delete) Help() string {
	return `Deletes a document, or with --all everything that has the key. Exit status 1: there is no such document.

Examples:
  pinspect delete DIR cities '"NO"' oslo
  pinspect delete DIR orders '["acme",2024]' --all`
}

// Run runs the command.
func (c *Delete) Run(ctx context.Context, env *command.Environment) error {
	key, err := command.ParseKey(c.Key)
	if err != nil {
		return err
	}
	if c.All == (c.ID != "") {
		return cli.Usagef("give the id of a document, or --all")
	}
	done := Done{Header: command.Header{Type: "deleted"}}
	err = c.change(ctx, func(_ *engine.DB, container *engine.Container) error {
		if !c.All {
			done.Documents = 1
			deleteErr := container.Delete(ctx, key, c.ID, nil)
			if errors.Is(deleteErr, engine.ErrNotFound) {
				return fmt.Errorf("%w: container %q, key %s, id %q", deleteErr, c.Container, key, c.ID)
			}
			return deleteErr
		}
		return container.DeleteLogicalPartition(ctx, key, nil)
	})
	if err != nil {
		return err
	}
	what := "document"
	if c.All {
		what = "logical partition"
	}
	return c.print(env, done, "%s deleted", what)
}

// Alter changes the settings of a container.
type Alter struct {
	containerTarget
	Throughput *float64 `placeholder:"RU" help:"Request units a second; 0: unlimited."`
	Index      bool     `xor:"index" help:"Index all values."`
	NoIndex    bool     `xor:"index" help:"Index nothing."`
	IndexPath  []string `xor:"index" sep:"none" placeholder:"/PATH/*" help:"Index these values and no others: /PATH/? for a scalar, /PATH/* for all that is below; may be repeated."`
	Composite  []string `sep:"none" placeholder:"/PATH [desc],..." help:"Index also the values at these paths together, in this order; may be repeated. Without --index or --index-path nothing else is indexed."`
}

// policyOf returns the index policy that flags ask for.
func policyOf(all bool, paths, composite []string) (p engine.IndexPolicy, err error) {
	if p.Include = paths; all {
		p = engine.IndexAll()
	}
	for _, text := range composite {
		x, err := index.ParseComposite(text)
		if err != nil {
			return p, cli.Usagef("--composite: %v", err)
		}
		p.Composite = append(p.Composite, x)
	}
	return p, nil
}

// Help returns the long help text.
func (*Alter) Help() string {
	return `Changes the throughput or the indexes of a container. A new index is built before the command ends, and serves from then on.

Examples:
  pinspect alter DIR cities --throughput 4000
  pinspect alter DIR cities --index-path /name/? --index-path /tags/*`
}

// Run runs the command.
func (c *Alter) Run(ctx context.Context, env *command.Environment) error {
	reindex := c.Index || c.NoIndex || len(c.IndexPath)+len(c.Composite) > 0
	if c.NoIndex && len(c.Composite) > 0 {
		return cli.Usagef("--no-index and --composite exclude each other")
	}
	if c.Throughput == nil && !reindex {
		return cli.Usagef("nothing to change: see --help")
	}
	policy, wrong := policyOf(c.Index, c.IndexPath, c.Composite)
	if wrong != nil {
		return wrong
	}
	err := c.change(ctx, func(_ *engine.DB, container *engine.Container) error {
		def := container.Def()
		if reindex {
			def.Index = policy
		}
		if c.Throughput != nil {
			def.Throughput = *c.Throughput
		}
		if err := c.check(&def); err != nil { // of both, before either is changed
			return err
		}
		if c.Throughput != nil {
			if err := container.SetThroughput(ctx, *c.Throughput); err != nil {
				return err
			}
		}
		if !reindex {
			return nil
		}
		job, err := container.SetIndexPolicy(ctx, policy)
		if err != nil {
			return err
		}
		return c.wait(ctx, env, job)
	})
	if err != nil {
		return err
	}
	return c.print(env, Done{Header: command.Header{Type: "altered"}}, "container %q changed", c.Container)
}

// wait shows the progress of an index job until it ends.
func (c *Alter) wait(ctx context.Context, env *command.Environment, job *engine.IndexJob) error {
	defer env.Line.Clear()
	return watch(ctx, job.Wait, func() {
		p := job.Progress()
		env.Line.Show(time.Now(), func() string {
			return fmt.Sprintf("building indexes: %s and %s left", humanize.Plural(p.FilesLeft, "file", "files"), humanize.Bytes(p.BytesLeft))
		})
	})
}

// watch calls show several times a second until do returns.
func watch(ctx context.Context, do func(context.Context) error, show func()) error {
	ended := make(chan error, 1)
	go func() { ended <- do(ctx) }()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case <-tick.C:
			show()
		}
	}
}

// Compact gives space back.
type Compact struct {
	target
}

// Help returns the long help text.
func (*Compact) Help() string {
	return `Writes all of a store's files anew that hold overwritten, deleted or expired documents, so that it takes as little space as it can. A store does this by itself as it is written to; the command is for one that is not. It needs free space for the largest partition meanwhile. What it waits for is shown.

Example:
  pinspect compact DIR`
}

// Run runs the command.
func (c *Compact) Run(ctx context.Context, env *command.Environment) error {
	done := Done{Header: command.Header{Type: "compacted"}}
	var err error
	if done.BytesBefore, err = c.size(ctx); err != nil {
		return err
	}
	err = c.change(ctx, func(db *engine.DB) error {
		defer env.Line.Clear()
		return watch(ctx, db.Compact, func() {
			s := db.Stats()
			env.Line.Show(time.Now(), func() string {
				return fmt.Sprintf("compacting: %s flushed, %s written in %s", humanize.Bytes(s.FlushedBytes), humanize.Bytes(s.CompactedBytes+s.TrimmedBytes),
					humanize.Plural(s.Compactions+s.Trims, "file", "files"))
			})
		})
	})
	if err != nil {
		return err
	}
	if done.BytesAfter, err = c.size(ctx); err != nil {
		return err
	}
	return c.print(env, done, "%s before, %s after", humanize.Bytes(done.BytesBefore), humanize.Bytes(done.BytesAfter))
}

// size returns what the files of the store take on disk. A file with several names counts
// once.
func (c *Compact) size(ctx context.Context) (int64, error) {
	f, err := layout.Open(c.Dir)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	space, err := f.DiskSpace(ctx)
	return space.Total, err
}
