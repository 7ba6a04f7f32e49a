// Package importer is the command import of pinspect: it brings documents from files and
// from other stores into a container.
//
// NDJSON and exports of Cosmos DB are read here. For other stores the companion program
// cleave-migrate is run, a module of its own, which reads them and prints a line of JSON
// for each document: see Line.
//
// Invariants:
//
//  1. The source is never written to.
//  2. A document is written as the source has it, or it is a reject with the place and the
//     reason; none is passed over in silence.
//  3. An import that is run again writes the same documents: they are put by key and id.
//  4. All that was written is durable when the command has ended.
package importer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/cleavestore/cleave/cmd/pinspect/internal/command"
	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/humanize"
)

// Import brings documents into a container.
type Import struct {
	Source       string   `arg:"" help:"File or directory to read; - is standard input."`
	From         string   `default:"ndjson" enum:"ndjson,cosmos-export,bbolt,badger,sqlite" help:"What the source is: ${enum}."`
	DB           string   `name:"db" required:"" placeholder:"DIR" help:"Directory of the store, made if it is absent."`
	Container    string   `required:"" placeholder:"NAME" help:"Container to write to, made if it is absent."`
	PartitionKey []string `sep:"none" placeholder:"/PATH" help:"Path of the partition key of a container that is made; repeated for up to three levels."`
	With         []string `sep:"none" placeholder:"NAME=VALUE" help:"How bbolt, badger or sqlite is read: see cleave-migrate --help. May be repeated."`
	KeepSystem   bool     `help:"Keep _rid, _self, _etag, _ts, _attachments and _lsn of an export of Cosmos DB."`
	SkipExisting bool     `help:"Leave documents alone that the container has. Without it they are replaced."`
	DryRun       bool     `help:"Write to a temporary store and tell what would come of it."`
	Rejects      string   `type:"path" placeholder:"FILE" help:"Write what is refused here as NDJSON: place, reason, document."`
	JSON         bool     `name:"json" help:"Print JSON: one object."`
}

// Help returns the long help text.
func (*Import) Help() string {
	return `Writes the documents of a source into a container. What the container refuses is counted, and goes to the file of --rejects; the rest is written. To go on after an interrupt, run the command again: documents are put by key and id. The store must not be open elsewhere; the source may be in use, as the pages docs/from-….md tell for each kind.

NDJSON and exports may be compressed by gzip or zstd. An export of Cosmos DB is a JSON array, NDJSON, or answers of the REST interface with "Documents".

Examples:
  pinspect import cities.ndjson.zst --db DIR --container cities --partition-key /country
  pinspect import export.json --from cosmos-export --db DIR --container orders --partition-key /customer --dry-run
  pinspect import my.db --from bbolt --db DIR --container users --partition-key /tenant --with bucket=users`
}

// Done is what the command prints as JSON.
type Done struct {
	command.Header
	Read      int64 `json:"read"`    // documents of the source
	Written   int64 `json:"written"` // of them
	Skipped   int64 `json:"skipped"` // that the container had
	Rejected  int64 `json:"rejected"`
	Bytes     int64 `json:"bytes"` // of the documents written
	DryRun    bool  `json:"dry_run,omitempty"`
	Keys      int64 `json:"keys"`        // partition keys of the documents written
	MoreKeys  bool  `json:"more_keys"`   // keys were counted up to a limit
	MostOfKey int64 `json:"most_of_key"` // documents of the key that has most
}

// RejectedError says that some documents were refused.
type RejectedError struct {
	Rejected int64
	First    error
}

// Error implements error.
func (e *RejectedError) Error() string {
	return fmt.Sprintf("%s refused, the first: %v", humanize.Plural(e.Rejected, "document was", "documents were"), e.First)
}

// Unwrap returns the reason of the first.
func (e *RejectedError) Unwrap() error { return e.First }

// document is one of a source.
type document struct {
	at   string // where the source has it
	body []byte // valid until the next document
	err  error  // why it is none
}

// source is the documents of a source. An error is its end.
type source = iter.Seq2[document, error]

// Run runs the command.
func (c *Import) Run(ctx context.Context, env *command.Environment) (err error) {
	docs, err := c.open(ctx, env)
	if err != nil {
		return err
	}
	dir := c.DB
	if c.DryRun {
		if dir, err = os.MkdirTemp("", "pinspect-import"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	w := &writing{Import: c, env: env, keys: make(map[engine.PartitionKey]int64)}
	w.done.Header, w.done.DryRun = env.Header("imported"), c.DryRun
	if c.Rejects != "" {
		if w.rejects, err = os.OpenFile(c.Rejects, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
			return fmt.Errorf("--rejects: %w", err)
		}
	}
	err = w.run(ctx, dir, docs)
	env.Line.Clear()
	if w.rejects != nil {
		err = errors.Join(err, w.rejects.Close())
	}
	if err != nil {
		return fmt.Errorf("%w (%s written before)", err, humanize.Plural(w.done.Written, "document", "documents"))
	}
	if err = w.print(); err == nil && w.done.Rejected > 0 {
		err = &RejectedError{Rejected: w.done.Rejected, First: w.first}
	}
	return err
}

// open opens the source.
func (c *Import) open(ctx context.Context, env *command.Environment) (source, error) {
	switch c.From {
	case "ndjson", "cosmos-export":
		if len(c.With) > 0 {
			return nil, cli.Usagef("--with is for bbolt, badger and sqlite")
		}
		return c.file(ctx, env)
	}
	return c.companion(ctx)
}

// countedKeys bounds the memory for counting partition keys.
const countedKeys = 1 << 20

// writing is an import under way.
type writing struct {
	*Import
	env     *command.Environment
	rejects *os.File
	done    Done
	keys    map[engine.PartitionKey]int64
	first   error
}

// run writes the documents into the store in dir.
func (w *writing) run(ctx context.Context, dir string, docs source) (err error) {
	db, err := engine.Open(ctx, dir, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }() // makes durable what is buffered
	container, err := w.container(ctx, db)
	if err != nil {
		return err
	}
	for doc, err := range docs {
		if err == nil {
			err = w.take(ctx, container, &doc)
		}
		if err != nil {
			return err
		}
		if w.done.Read%256 == 0 {
			w.env.Line.Show(time.Now(), w.progress)
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
	return nil
}

func (w *writing) progress() string {
	return fmt.Sprintf("importing %s: %s, %s", w.Source, humanize.Plural(w.done.Read, "document", "documents"), humanize.Plural(w.done.Rejected, "reject", "rejects"))
}

// container returns the container to write to.
func (w *writing) container(ctx context.Context, db *engine.DB) (*engine.Container, error) {
	container, err := db.Container(w.Container)
	if errors.Is(err, engine.ErrNoContainer) {
		if len(w.PartitionKey) == 0 {
			return nil, cli.Usagef("container %q is not there: --partition-key says how to make it", w.Container)
		}
		container, err = db.CreateContainer(ctx, w.Container, engine.ContainerDef{PartitionKey: w.paths()})
		if errors.Is(err, engine.ErrInvalid) {
			err = cli.Usage(err)
		}
	}
	if err != nil {
		return nil, err
	}
	if def := container.Def(); def.Kind != engine.JSON || len(w.PartitionKey) > 0 && !slices.Equal(def.PartitionKey, w.paths()) {
		return nil, cli.Usagef("container %q has the partition key %s, or holds no JSON", w.Container, def.KeyText())
	}
	return container, nil
}

func (w *writing) paths() (paths []string) {
	for _, p := range w.PartitionKey {
		paths = append(paths, strings.Split(p, ",")...)
	}
	return paths
}

// take writes one document, or rejects it.
func (w *writing) take(ctx context.Context, container *engine.Container, doc *document) error {
	w.done.Read++
	if doc.err != nil {
		return w.reject(doc, doc.err)
	}
	write := container.Upsert
	if w.SkipExisting {
		write = container.Create
	}
	meta, err := write(ctx, doc.body, &engine.WriteOptions{Durability: engine.Buffered})
	for throttled := (*engine.ThrottledError)(nil); errors.As(err, &throttled); {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(throttled.RetryAfter):
		}
		meta, err = write(ctx, doc.body, &engine.WriteOptions{Durability: engine.Buffered})
	}
	switch {
	case err == nil:
		w.done.Written++
		w.done.Bytes += int64(len(doc.body))
		n, counted := w.keys[meta.Key]
		if counted || len(w.keys) < countedKeys {
			w.keys[meta.Key] = n + 1
			w.done.MostOfKey = max(w.done.MostOfKey, n+1)
		} else {
			w.done.MoreKeys = true
		}
	case w.SkipExisting && errors.Is(err, engine.ErrExists):
		w.done.Skipped++
	case errors.Is(err, engine.ErrInvalid), errors.Is(err, engine.ErrTooLarge), errors.Is(err, engine.ErrUniqueKey), errors.Is(err, engine.ErrLogicalPartitionFull):
		return w.reject(doc, err)
	default:
		return fmt.Errorf("%s: %w", doc.at, err)
	}
	return nil
}

// print says what was done.
func (w *writing) print() error {
	w.done.Keys = int64(len(w.keys))
	if w.JSON {
		return w.env.Object(w.done)
	}
	verb, more := "written", ""
	if w.DryRun {
		verb = "would be written"
	}
	if w.done.MoreKeys {
		more = "more than "
	}
	return w.env.Printf("%s read, %s %s with %s%s (%s at most of one), %s skipped, %s refused\n",
		humanize.Plural(w.done.Read, "document", "documents"), humanize.Count(w.done.Written), verb, more,
		humanize.Plural(w.done.Keys, "partition key", "partition keys"), humanize.Count(w.done.MostOfKey), humanize.Count(w.done.Skipped), humanize.Count(w.done.Rejected))
}
