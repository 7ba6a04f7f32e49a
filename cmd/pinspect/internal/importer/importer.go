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
//     After an interruption it goes on behind the last note: see note. With unique keys a record
//     may be refused then whose values a later one has taken: docs/importing.md has the case.
//  4. All that was written is durable when the command has ended.
//  5. A record that cannot be written ends the import, unless bad records are to be
//     skipped: then each is counted.
package importer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/cleavestore/cleave/cmd/pinspect/internal/command"
	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/definition"
	"github.com/cleavestore/cleave/internal/humanize"
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/keyadvice"
	"github.com/cleavestore/cleave/internal/outputfile"
	"github.com/cleavestore/cleave/internal/storedir"
	"github.com/cleavestore/cleave/internal/vfs"
)

// Import brings documents into a container.
type Import struct {
	Source       string   `arg:"" help:"File or directory to read; - is standard input."`
	From         string   `default:"ndjson" enum:"ndjson,cosmos-export,bbolt,badger,sqlite" help:"What the source is: ${enum}."`
	DB           string   `name:"db" placeholder:"DIR" help:"Directory of the store, made if it is absent. Needed unless --dry-run is given."`
	Container    string   `required:"" placeholder:"NAME" help:"Container to write to, made if it is absent."`
	PartitionKey []string `sep:"none" placeholder:"/PATH" help:"Path of the partition key of a container that is made; repeated for up to three levels."`
	With         []string `sep:"none" placeholder:"NAME=VALUE" help:"How bbolt, badger or sqlite is read: see cleave-migrate --help. May be repeated."`
	Opaque       bool     `help:"Values of bbolt or badger are bytes: write them as they are into an opaque container. --with key=NAME divides the key of the source into partition key and id."`
	KeepSystem   bool     `help:"Keep _rid, _self, _etag, _ts, _attachments and _lsn of an export of Cosmos DB."`
	SkipExisting bool     `help:"Leave documents alone that the container has. Without it they are replaced."`
	SkipBad      bool     `help:"Count records that cannot be written, and go on. Without it the first one ends the import."`
	Rejects      string   `type:"path" placeholder:"FILE" help:"Write records that cannot be written here as NDJSON: place, reason, document. Implies --skip-bad."`
	Restart      bool     `help:"Begin with the first record, also where an import was interrupted."`
	DryRun       bool     `help:"Write nothing into DIR. Tell what would come of it, and judge the partition key."`
	JSON         bool     `name:"json" help:"Print JSON: one object."`
}

// Help returns the long help text.
func (*Import) Help() string {
	return `Writes the documents of a source into a container. The store must not be open elsewhere; the source may be in use, as the pages docs/from-….md tell for each kind.

After an interruption, also by kill -9, run the same command again: it says where it goes on. The file import.json of the store says how far an import is, and is removed at its end. If the source has changed meanwhile, the import begins with the first record. Standard input, and an import with --skip-existing, always begin there. Documents are put by key and id, so none is there twice.

A record that cannot be written ends the import, with its place and the reason. With --skip-bad such records are counted, and the exit status is 1.

--dry-run counts what cannot be written, and judges the partition key by all documents, as pinspect advise does. Without --partition-key it proposes some. If the container of --db is there, documents are checked by its definition, and against the documents that it has: with --skip-existing by their ids, and by unique keys. Limits of logical partitions are not checked against them.

NDJSON and exports may be compressed by gzip or zstd. An export of Cosmos DB is a JSON array, NDJSON, or answers of the REST interface with "Documents".

Examples:
  pinspect import export.json --from cosmos-export --container orders --dry-run
  pinspect import cities.ndjson.zst --db DIR --container cities --partition-key /country
  pinspect import my.db --from bbolt --db DIR --container users --partition-key /tenant --with bucket=users
  pinspect import my.db --from bbolt --db DIR --container blobs --opaque --with bucket=blobs --with key=owner`
}

// Done is what the command prints as JSON.
type Done struct {
	command.Header
	Read     int64 `json:"read"`    // records of the source
	Written  int64 `json:"written"` // of them
	Skipped  int64 `json:"skipped"` // that the container had
	Rejected int64 `json:"rejected"`
	Bytes    int64 `json:"bytes"`       // of the documents written
	Keyless  int64 `json:"without_key"` // documents written that lack a value of the partition key
	// ResumedAfter is how many records earlier runs of this import had read.
	ResumedAfter int64 `json:"resumed_after,omitempty"`
	DryRun       bool  `json:"dry_run,omitempty"`
	Keys         int64 `json:"keys"`        // partition keys of the documents that this run wrote
	MoreKeys     bool  `json:"more_keys"`   // keys were counted up to a limit
	MostOfKey    int64 `json:"most_of_key"` // documents of the key that has most

	Advice *keyadvice.Report `json:"advice,omitempty"` // of a dry run
}

// RejectedError says that some documents were refused.
type RejectedError struct {
	Rejected int64
	First    error // of this run; nil: they were refused before the import was interrupted
}

// Error implements error.
func (e *RejectedError) Error() string {
	refused := humanize.Plural(e.Rejected, "document was", "documents were") + " refused"
	if e.First == nil {
		return refused + ", in a run before this one"
	}
	return fmt.Sprintf("%s, the first: %v", refused, e.First)
}

// Unwrap returns the reason of the first.
func (e *RejectedError) Unwrap() error { return e.First }

// BadRecordError says that an import has ended at a record that cannot be written.
type BadRecordError struct {
	At     string // the place in the source
	Reason error
}

// Error implements error.
func (e *BadRecordError) Error() string {
	return fmt.Sprintf("%s: %v. Correct it and run the command again; or skip such records by --skip-bad, and keep them by --rejects FILE", e.At, e.Reason)
}

// Unwrap returns the reason.
func (e *BadRecordError) Unwrap() error { return e.Reason }

// document is one of a source.
type document struct {
	at   string              // where the source has it
	body []byte              // valid until the next document
	key  engine.PartitionKey // of opaque documents only, as id
	id   string
	err  error // why it is none
}

// source is the documents of a source. An error is its end.
type source = iter.Seq2[document, error]

// Run runs the command.
func (c *Import) Run(ctx context.Context, env *command.Environment) (err error) {
	if err = c.check(); err != nil {
		return err
	}
	docs, err := c.open(ctx, env)
	if err == nil {
		err = c.checkContainer()
	}
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
	w := &writing{Import: c, env: env, dir: dir, keys: make(map[engine.PartitionKey]int64)}
	w.done.Header, w.done.DryRun = env.Header("imported"), c.DryRun
	if err = w.identify(); err != nil {
		return err
	}
	err = w.run(ctx, docs)
	env.Line.Clear()
	if w.rejects != nil {
		err = errors.Join(err, w.rejects.Close())
	}
	if err != nil {
		return fmt.Errorf("%w (%s written before)", err, humanize.Plural(w.done.Written, "document", "documents"))
	}
	if w.state != "" {
		if err = removeNote(dir); err != nil {
			return err
		}
	}
	if err = w.print(); err == nil && w.done.Rejected > 0 {
		err = &RejectedError{Rejected: w.done.Rejected, First: w.first}
	}
	return err
}

// check looks at the flags.
func (c *Import) check() error {
	switch {
	case c.DB == "" && !c.DryRun:
		return cli.Usagef("--db DIR says where the store is")
	case c.Opaque && c.From != "bbolt" && c.From != "badger":
		return cli.Usagef("--opaque is for bbolt and badger: documents of %s are JSON", c.From)
	case c.Opaque && !slices.ContainsFunc(c.With, func(with string) bool { return strings.HasPrefix(with, "key=") }):
		return cli.Usagef("--opaque needs --with key=NAME: the part of each key before the separator becomes the partition key, the rest the id")
	case c.Opaque && len(c.PartitionKey) > 0:
		return cli.Usagef("--opaque and --partition-key exclude each other: bytes have no members")
	}
	if c.Rejects != "" {
		if err := outputfile.OutsideStores(c.Rejects, c.DB); err != nil {
			return cli.Usagef("--rejects: %w", err)
		}
	}
	return nil
}

// checkContainer refuses what no container can be made of, before a store is made for it.
func (c *Import) checkContainer() error {
	def := definition.Def{PartitionKey: c.paths()}
	if c.Opaque {
		def = definition.Def{PartitionKey: []string{opaqueKey}, Kind: definition.Kind(engine.Opaque)}
	}
	if len(def.PartitionKey) == 0 {
		fresh := false
		err := files(c.DB, func(root vfs.FS) error {
			fresh = storedir.Fresh(root)
			return nil
		})
		if !c.DryRun && (fresh || errors.Is(err, fs.ErrNotExist)) {
			return c.needsPartitionKey()
		}
		return nil
	}
	err := def.Check(c.Container)
	if err == nil {
		_, err = def.Compile()
	}
	if err != nil {
		return cli.Usagef("container %q: %w", c.Container, err)
	}
	return nil
}

// opaqueKey stands for a path in the definition of an opaque container.
const opaqueKey = "/key"

func (c *Import) needsPartitionKey() error {
	return cli.Usagef("container %q is not there: --partition-key says how to make it, and --dry-run proposes one", c.Container)
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

// These bound the memory for counting partition keys: so many are counted, with so many bytes.
const (
	countedKeys     = 1 << 20
	countedKeyBytes = 64 << 20
)

// writing is an import under way.
type writing struct {
	*Import
	env      *command.Environment
	dir      string // of the store
	rejects  *os.File
	done     Done
	keys     map[engine.PartitionKey]int64
	keyBytes int // of them
	first    error
	identity string // see note
	state    string // of the source; "": no notes are written
	at       string // of the newest record that was taken
	keyText  string // the partition key of the container
	survey   *keyadvice.Survey
	there    *there // of a dry run; nil: the container is not there

	last     engine.Meta // of the newest document written
	lastSeq  uint64
	unsynced bool // documents were written after the last synced one
	records  int  // since the last note
	bytes    int64
}

// identify finds out what the source is, before it is read: a change that comes later is
// seen when the import goes on.
func (w *writing) identify() (err error) {
	if w.Source == "-" || w.SkipExisting || w.DryRun {
		return nil
	}
	w.identity = w.Import.identity()
	w.state, err = sourceState(w.Source)
	return err
}

// run writes the documents into the store.
func (w *writing) run(ctx context.Context, docs source) (err error) {
	db, err := engine.Open(ctx, w.dir, nil)
	if err != nil {
		return err
	}
	defer func() {
		closeErr := db.Close() // makes durable what is buffered
		if closeErr == nil && (errors.As(err, new(*BadRecordError)) || ctx.Err() != nil) {
			w.unsynced = false
			closeErr = w.note()
		}
		err = errors.Join(err, closeErr)
	}()
	err = w.openThere(ctx)
	defer func() { err = errors.Join(err, w.there.close()) }()
	if err != nil {
		return err
	}
	container, err := w.container(ctx, db)
	if err != nil {
		return err
	}
	after, err := w.resume(ctx, db, container)
	if err != nil {
		return err
	}
	judged := container
	if w.DryRun && !w.Opaque {
		w.survey = keyadvice.NewSurvey(keyadvice.Options{})
		if w.there != nil {
			if err = w.there.apart(ctx, db); err != nil {
				return err
			}
			judged = cmp.Or(w.there.judged, container)
		}
	}
	passed := int64(0)
	for doc, err := range docs {
		if ctx.Err() != nil {
			return ctx.Err() // which has ended the companion program, too
		}
		if err != nil {
			return err
		}
		if after != nil && passed < after.Read {
			if passed++; passed == after.Read && doc.at != after.At {
				return fmt.Errorf("record %s of %s is %s, and was %s when the import was interrupted: --restart begins with the first record", humanize.Count(passed), w.Source, doc.at, after.At)
			}
			continue
		}
		if err = w.take(ctx, container, &doc); err == nil {
			err = w.noteIfDue()
		}
		if err != nil {
			return err
		}
		if w.done.Read%256 == 0 {
			w.env.Line.Show(time.Now(), w.progress)
		}
	}
	if after != nil && passed < after.Read {
		return fmt.Errorf("%s ends after %s, and had %d when the import was interrupted: --restart begins with the first record", w.Source, humanize.Plural(passed, "record", "records"), after.Read)
	}
	if w.survey != nil {
		return w.judge(ctx, judged)
	}
	return nil
}

// resume returns the note behind which the import goes on; nil: it begins with the first
// record. A note that is of no use goes only when the import can begin.
func (w *writing) resume(ctx context.Context, db *engine.DB, container *engine.Container) (n *note, err error) {
	if w.state != "" {
		n, err = readNote(w.dir)
	}
	if err != nil {
		return nil, err
	}
	if n == nil {
		return nil, w.openRejects("", 0)
	}
	why := "--restart is given"
	if !w.Restart {
		if why, err = n.valid(ctx, db, container, w.identity, w.state); err != nil {
			return nil, err
		}
	}
	if why != "" {
		known := ""
		if n.Import == w.identity {
			known = n.Rejects
		}
		if err = w.openRejects(known, 0); err == nil && w.rejects == nil {
			err = removeNote(w.dir)
		}
		if err == nil {
			fmt.Fprintf(w.env.Stderr, "pinspect: an import of %s was interrupted behind record %s. This one begins with the first record: %s\n", n.Source, humanize.Count(n.Read), why)
		}
		return nil, err
	}
	n.At = w.Source + strings.TrimPrefix(n.At, n.Source) // the command may name the source otherwise now
	d := &w.done
	d.Read, d.Written, d.Rejected, d.Bytes, d.Keyless, d.ResumedAfter = n.Read, n.Written, n.Rejected, n.Bytes, n.Keyless, n.Read
	w.at, w.lastSeq, w.last.ID = n.At, n.Seq, n.ID
	if n.ID != "" {
		w.last.Key, err = engine.ParseKey(n.Key)
	}
	if err == nil {
		err = w.openRejects(n.Rejects, n.RejectsBytes)
	}
	if err == nil && n.Read > 0 {
		fmt.Fprintf(w.env.Stderr, "pinspect: the import goes on behind record %s (%s)\n", humanize.Count(n.Read), n.At)
	}
	return n, err
}

// openRejects opens the file of rejects. One that a note of this import knows keeps its first
// size bytes. A new one gets into a note at once, by which the same command knows it after an
// interruption; if that comes before the note, the file is empty.
func (w *writing) openRejects(known string, size int64) (err error) {
	if w.Rejects == "" {
		return nil
	}
	flags := os.O_WRONLY | os.O_CREATE
	there, statErr := os.Lstat(w.Rejects)
	switch {
	case known != w.Rejects:
		size = 0
		if statErr != nil || !there.Mode().IsRegular() || there.Size() > 0 {
			flags |= os.O_EXCL
		}
	case size > 0 && (statErr != nil || there.Size() < size):
		return cli.Usagef("--rejects: %s is not what it was when the import was interrupted: --restart begins with the first record", w.Rejects)
	}
	if w.rejects, err = os.OpenFile(w.Rejects, flags, 0o600); errors.Is(err, fs.ErrExist) {
		return cli.Usagef("--rejects: %s exists: name another file", w.Rejects)
	}
	if err == nil {
		_, err = w.rejects.Seek(size, io.SeekStart)
	}
	if err != nil {
		return fmt.Errorf("--rejects: %w", err)
	}
	// The note comes first: whatever it says of the file is still there.
	if err = w.note(); err == nil {
		err = w.rejects.Truncate(size)
	}
	return err
}

// due tells whether a note is to be written.
func (w *writing) due() bool {
	return w.state != "" && (w.records >= noteRecords || w.bytes >= noteBytes)
}

// noteIfDue writes a note from time to time.
func (w *writing) noteIfDue() error {
	if !w.due() || w.unsynced {
		return nil // the next document is written synced
	}
	return w.note()
}

// note writes a note for the present position. All documents before it are durable.
func (w *writing) note() error {
	if w.state == "" || w.unsynced || w.last.ID == "" && w.rejects == nil {
		return nil
	}
	n := note{
		V: noteVersion, Import: w.identity, Source: w.Source, State: w.state, Container: w.Container,
		Read: w.done.Read, Written: w.done.Written, Rejected: w.done.Rejected, Bytes: w.done.Bytes, Keyless: w.done.Keyless,
		At: w.at, ID: w.last.ID, Seq: w.lastSeq,
	}
	if n.ID != "" {
		n.Key = w.last.Key.String()
	}
	if w.rejects != nil {
		if err := w.rejects.Sync(); err != nil {
			return fmt.Errorf("--rejects: %w", err)
		}
		size, err := w.rejects.Seek(0, io.SeekCurrent)
		if err != nil {
			return fmt.Errorf("--rejects: %w", err)
		}
		n.Rejects, n.RejectsBytes = w.Rejects, size
	}
	w.records, w.bytes = 0, 0
	return n.write(w.dir)
}

func (w *writing) progress() string {
	return fmt.Sprintf("importing %s: %s, %s", w.Source, humanize.Plural(w.done.Read, "document", "documents"), humanize.Plural(w.done.Rejected, "reject", "rejects"))
}

// container returns the container to write to.
func (w *writing) container(ctx context.Context, db *engine.DB) (*engine.Container, error) {
	container, err := db.Container(w.Container)
	if errors.Is(err, engine.ErrNoContainer) {
		wanted := engine.ContainerDef{PartitionKey: w.paths()}
		switch {
		case w.there != nil:
			wanted = w.there.def()
		case w.Opaque:
			wanted = engine.ContainerDef{Kind: engine.Opaque, PartitionKey: []string{opaqueKey}}
		case len(wanted.PartitionKey) == 0 && w.DryRun:
			wanted.PartitionKey = []string{"/id"} // only to see which documents are refused
		case len(wanted.PartitionKey) == 0:
			return nil, w.needsPartitionKey()
		}
		container, err = db.CreateContainer(ctx, w.Container, wanted)
		if errors.Is(err, engine.ErrInvalid) {
			err = cli.Usage(err)
		}
	}
	if err != nil {
		return nil, err
	}
	def := container.Def()
	switch {
	case def.Synthetic != nil && def.Synthetic.Suffixes > 0 && def.Synthetic.SuffixOf == "":
		return nil, cli.Usagef("container %q: %w: an import that is run again could not find the documents that it has written", w.Container, engine.ErrRandomSuffix)
	case def.Kind != engine.JSON && !w.Opaque:
		return nil, cli.Usagef("container %q is opaque: --opaque writes bytes into it", w.Container)
	case def.Kind == engine.JSON && w.Opaque:
		return nil, cli.Usagef("container %q holds JSON documents: --opaque needs an opaque one", w.Container)
	case w.Opaque && len(def.PartitionKey) > 1:
		return nil, cli.Usagef("container %q has partition keys of %d levels, and those of an import have one", w.Container, len(def.PartitionKey))
	case len(w.PartitionKey) > 0 && !jsondoc.SamePaths(def.PartitionKey, w.paths()):
		return nil, cli.Usagef("container %q has the partition key %s, and --partition-key says %s: leave it out, or take another container", w.Container, def.KeyText(), jsondoc.JoinPaths(w.paths()))
	}
	w.keyText = def.KeyText()
	return container, nil
}

func (c *Import) paths() []string { return jsondoc.SplitPaths(c.PartitionKey...) }

// take writes one document, or rejects it.
func (w *writing) take(ctx context.Context, container *engine.Container, doc *document) error {
	meta, err := engine.Meta{}, doc.err
	refused := err != nil
	if !refused {
		meta, err = w.put(ctx, container, doc)
	}
	w.records++
	w.bytes += int64(len(doc.body))
	switch {
	case err == nil:
		w.done.Written++
		w.done.Bytes += int64(len(doc.body))
		w.count(meta)
		if w.survey != nil {
			if err = w.survey.Add(doc.body); err != nil {
				return fmt.Errorf("%s: %w", doc.at, err)
			}
		}
	case w.SkipExisting && errors.Is(err, engine.ErrExists):
		w.done.Skipped++
	case refused, errors.Is(err, engine.ErrInvalid), errors.Is(err, engine.ErrTooLarge), errors.Is(err, engine.ErrUniqueKey), errors.Is(err, engine.ErrLogicalPartitionFull):
		if !w.SkipBad && w.Rejects == "" && !w.DryRun {
			return &BadRecordError{doc.at, err}
		}
		if err = w.reject(doc, err); err != nil {
			return err
		}
	default:
		return fmt.Errorf("%s: %w", doc.at, err)
	}
	w.done.Read++
	w.at = doc.at
	return nil
}

// write writes a document, and waits where the container is throttled.
func (w *writing) write(ctx context.Context, container *engine.Container, doc *document) (meta engine.Meta, err error) {
	options := &engine.WriteOptions{Durability: engine.Buffered}
	if w.due() {
		options.Durability = engine.Synced
	}
	absent := false // an earlier try has found that the document does not exist
	for {
		switch {
		case w.Opaque && w.SkipExisting && !absent:
			if _, err = container.Read(ctx, doc.key, doc.id); err == nil {
				err = engine.ErrExists
			} else if absent = errors.Is(err, engine.ErrNotFound); absent { // nobody else writes
				continue
			}
		case w.Opaque:
			meta, err = container.Put(ctx, doc.key, doc.id, doc.body, options)
		case w.SkipExisting:
			meta, err = container.Create(ctx, doc.body, options)
		default:
			meta, err = container.Upsert(ctx, doc.body, options)
		}
		var throttled *engine.ThrottledError
		if !errors.As(err, &throttled) {
			break
		}
		select {
		case <-ctx.Done():
			return meta, ctx.Err()
		case <-time.After(throttled.RetryAfter):
		}
	}
	if err == nil {
		w.last, w.unsynced = meta, options.Durability == engine.Buffered
		w.lastSeq = max(w.lastSeq, meta.Seq)
	}
	return meta, err
}

// count counts the key of a document that was written.
func (w *writing) count(meta engine.Meta) {
	if !w.Opaque && lacksValue(meta.Key) {
		w.done.Keyless++
	}
	n, counted := w.keys[meta.Key]
	if counted || len(w.keys) < countedKeys && w.keyBytes < countedKeyBytes {
		if !counted {
			w.keyBytes += len(meta.Key.Encoded())
		}
		w.keys[meta.Key] = n + 1
		w.done.MostOfKey = max(w.done.MostOfKey, n+1)
	} else {
		w.done.MoreKeys = true
	}
}

// lacksValue tells whether a level of a key is undefined.
func lacksValue(key engine.PartitionKey) bool {
	quoted := false
	text := key.String()
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '"':
			quoted = !quoted
		case quoted && text[i] == '\\':
			i++
		case !quoted && strings.HasPrefix(text[i:], "undefined"):
			return true
		}
	}
	return false
}

// print says what was done.
func (w *writing) print() error {
	w.done.Keys = int64(len(w.keys))
	if w.JSON {
		return w.env.Object(w.done)
	}
	verb := "written"
	if w.DryRun {
		verb = "would be written"
	}
	keys := fmt.Sprintf(" with %s (%s at most of one)", humanize.Plural(w.done.Keys, "partition key", "partition keys"), humanize.Count(w.done.MostOfKey))
	switch {
	case w.DryRun && len(w.PartitionKey) == 0, w.done.ResumedAfter > 0:
		keys = "" // earlier runs have counted others
	case w.done.MoreKeys:
		keys = strings.Replace(keys, " with ", " with more than ", 1)
	}
	err := w.env.Printf("%s read, %s %s%s, %s skipped, %s refused\n",
		humanize.Plural(w.done.Read, "document", "documents"), humanize.Count(w.done.Written), verb, keys, humanize.Count(w.done.Skipped), humanize.Count(w.done.Rejected))
	if err == nil && w.done.Keyless > 0 {
		err = w.env.Printf("%s no value at %s. Is the path right? Documents without a value lie together\n", humanize.Plural(w.done.Keyless, "document has", "documents have"), w.keyText)
	}
	if err == nil && w.done.Advice != nil {
		err = w.printAdvice(w.done.Advice)
	}
	return err
}
