package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/measure"
	"github.com/cleavestore/cleave/internal/workload"
	"github.com/cleavestore/cleave/partmap"
)

// store is what pbench uses of an open store. Commands see no more of the
// engine than this file shows them.
type store interface {
	// Container returns a container, or errNoContainer.
	Container(name string) (container, error)
	CreateContainer(ctx context.Context, name string, def containerDef) (container, error)
	// Names lists the containers in alphabetical order.
	Names() []string
	Stats() storeStats
	// Flush writes what is in memory to files.
	Flush(ctx context.Context) error
	// Checkpoint makes a copy of linked files in dir.
	Checkpoint(ctx context.Context, dir string) (checkpoint, error)
	// Settle flushes and merges until the store is at rest.
	Settle(ctx context.Context) error
	Close() error
}

// container is what pbench uses of a container. It is safe for concurrent use.
type container interface {
	Def() containerDef
	// SetThroughput provisions so many RU/s; 0: no limit.
	SetThroughput(ctx context.Context, perSecond float64) error
	Stats() containerStats
	// Load upserts documents in input order. committed counts those that are
	// durable. It ends at a document that is refused: an *inputError.
	Load(ctx context.Context, docs iter.Seq2[[]byte, error], o loadOptions) (committed, bytes int64, err error)
	measure.Store
	// With returns the container with another durability of writes.
	With(d durability) measure.Store
	// Split splits the largest physical partition, and returns when that is over.
	Split(ctx context.Context) error
	// Merge merges the first two physical partitions.
	Merge(ctx context.Context) error
	// Keys yields the key and id of each document, in key-space order.
	Keys(ctx context.Context) iter.Seq2[documentName, error]
}

// documentName says which document of a container is meant.
type documentName struct {
	key partmap.Key
	id  string
}

// errNoContainer says that a store has no container of a name.
var errNoContainer = errors.New("no such container")

// errDiskFull says that there is no space for what a store has to write.
var errDiskFull = engine.ErrDiskFull

// noExpiry as the TTL of a container: documents that have one of their own expire.
const noExpiry = engine.NoExpiry

// inputError names the document of a load that was refused.
type inputError struct {
	index int64 // in the input, from 0
	err   error
}

func (e *inputError) Error() string { return fmt.Sprintf("document %d: %v", e.index+1, e.err) }
func (e *inputError) Unwrap() error { return e.err }

type storeOptions struct {
	memoryBudget int64
	durability   durability
	positioned   bool // read files by positioned reads, not through a mapping
	// maxPartitionBytes is where physical partitions split by themselves; 0: the
	// engine's default.
	maxPartitionBytes int64
	splits            *splitLog // is told of splits; nil: nobody is
	logger            *slog.Logger
}

type containerDef struct {
	partitionKey []string // paths
	compression  string
	partitions   int // physical ones to begin with
	noBurst      bool
	index        bool    // all values are indexed
	throughput   float64 // RU/s, of one that exists; 0: unlimited

	ttl          time.Duration
	uniqueKeys   [][]string
	itemBytes    int64 // limits; 0: the engine's defaults
	logicalBytes int64
	batchBytes   int64
}

type loadOptions struct {
	batchBytes int64
	progress   func(committed, bytes int64)
}

type containerStats struct {
	documents int64     // at most: overwritten ones may be counted too
	rawBytes  int64     // of these documents
	consumed  []float64 // RU of each partition, since it was made or the store opened
}

// storeStats counts since the store was opened.
type storeStats struct {
	BufferBytes  int64 // in memory now, to be flushed
	Writes       int64
	WrittenBytes int64 // keys, ids and documents that were written
	LogBytes     int64
	FlushBytes   int64
	MergeBytes   int64
	Syncs        int64
	Flushes      int64
	Merges       int64
	SyncWaits    int64
	Stalls       int64
	ColdReads    int64
	SyncWait     time.Duration
	PressureWait time.Duration
	ColdWait     time.Duration
}

// since returns what was counted after before.
func (s storeStats) since(before storeStats) storeStats {
	return storeStats{
		BufferBytes:  s.BufferBytes,
		Writes:       s.Writes - before.Writes,
		WrittenBytes: s.WrittenBytes - before.WrittenBytes,
		LogBytes:     s.LogBytes - before.LogBytes,
		FlushBytes:   s.FlushBytes - before.FlushBytes,
		MergeBytes:   s.MergeBytes - before.MergeBytes,
		Syncs:        s.Syncs - before.Syncs,
		Flushes:      s.Flushes - before.Flushes,
		Merges:       s.Merges - before.Merges,
		SyncWaits:    s.SyncWaits - before.SyncWaits,
		Stalls:       s.Stalls - before.Stalls,
		ColdReads:    s.ColdReads - before.ColdReads,
		SyncWait:     s.SyncWait - before.SyncWait,
		PressureWait: s.PressureWait - before.PressureWait,
		ColdWait:     s.ColdWait - before.ColdWait,
	}
}

// durability is an engine.Durability as a flag.
type durability struct{ engine.Durability }

// UnmarshalText reads "synced", "buffered" or "interval:100ms".
func (d *durability) UnmarshalText(text []byte) (err error) {
	d.Durability, err = engine.ParseDurability(string(text))
	return err
}

// synced reports whether what was acknowledged is durable.
func (d durability) synced() bool { return d.Durability == engine.Synced }

// openStore opens a store of the engine, making it if dir is empty or absent.
func openStore(ctx context.Context, dir string, o storeOptions) (store, error) {
	opts := engine.Options{MemoryBudget: o.memoryBudget, Durability: o.durability.Durability, Logger: o.logger, MaxPartitionBytes: o.maxPartitionBytes}
	if o.splits != nil {
		opts.Events = &engine.EventListener{Reshaped: func(e engine.ReshapeEvent) { o.splits.note(newReshape(e)) }}
	}
	if o.positioned {
		opts.ReadMode = engine.ReadPositioned
	}
	db, err := engine.Open(ctx, dir, &opts)
	if err != nil {
		return nil, argumentError(err)
	}
	return engineStore{db}, nil
}

func newReshape(e engine.ReshapeEvent) reshape {
	r := reshape{
		kind: e.Kind.String(), swapped: e.Swapped, settle: e.Settle, prepare: e.Prepare, commit: e.Commit,
		pause: e.Pause, inherit: e.Inherit, copied: e.CopiedBytes, err: e.Err,
	}
	for _, id := range e.Parents {
		r.parents = append(r.parents, uint32(id))
	}
	for _, id := range e.Children {
		r.children = append(r.children, uint32(id))
	}
	return r
}

// checkNewContainer refuses, as wrong usage, what the engine would refuse to
// make a container of.
func checkNewContainer(name string, def containerDef) error {
	bad := name == "" || len(name) > 255 || !utf8.ValidString(name)
	if bad || strings.ContainsFunc(name, func(r rune) bool { return r < 0x20 || strings.ContainsRune("/\\#?\uFFFD", r) }) {
		return usagef("container %q: a name has 1 to 255 bytes, and no control characters and none of / \\ # ?", name)
	}
	if _, err := jsondoc.Compile(def.partitionKey); err != nil {
		return cli.Usage(err)
	}
	if _, err := engine.ParseCompression(def.compression); err != nil {
		return cli.Usage(err)
	}
	if def.partitions > maxPartitions {
		return usagef("--partitions %d: at most %d", def.partitions, maxPartitions)
	}
	if def.itemBytes > maxItemBytes {
		return usagef("--item-limit: at most %s", formatBytes(int64(maxItemBytes)))
	}
	if def.batchBytes > maxTransactionBytes {
		return usagef("--batch-limit: at most %s", formatBytes(int64(maxTransactionBytes)))
	}
	for _, paths := range def.uniqueKeys {
		if len(paths) > maxUniquePaths || len(def.uniqueKeys) > maxUniqueKeys {
			return usagef("--unique-key: at most %d, of %d paths each", maxUniqueKeys, maxUniquePaths)
		}
		for _, path := range paths {
			if _, err := jsondoc.Compile([]string{path}); err != nil {
				return cli.Usage(fmt.Errorf("--unique-key: %w", err))
			}
		}
	}
	return nil
}

// What the engine takes of a new container at most.
const (
	maxPartitions       = 1 << 16
	maxItemBytes        = 3 << 20
	maxTransactionBytes = 4 << 20
	maxUniqueKeys       = 10
	maxUniquePaths      = 16
)

// argumentError makes a refused option wrong usage.
func argumentError(err error) error {
	if errors.Is(err, engine.ErrInvalid) {
		return cli.Usage(err)
	}
	return err
}

type engineStore struct{ db *engine.DB }

func (s engineStore) Container(name string) (container, error) {
	c, err := s.db.Container(name)
	if errors.Is(err, engine.ErrNoContainer) {
		return nil, fmt.Errorf("container %q: %w", name, errNoContainer)
	}
	if err != nil {
		return nil, err
	}
	return newEngineContainer(c), nil
}

func (s engineStore) CreateContainer(ctx context.Context, name string, def containerDef) (container, error) {
	compression, err := engine.ParseCompression(def.compression)
	if err != nil {
		return nil, argumentError(err)
	}
	made := engine.ContainerDef{
		PartitionKey: def.partitionKey, Compression: compression, MinPartitions: def.partitions, NoBurst: def.noBurst,
		DefaultTTL: def.ttl, UniqueKeys: def.uniqueKeys,
		Limits: engine.Limits{ItemBytes: def.itemBytes, LogicalPartitionBytes: def.logicalBytes, BatchBytes: def.batchBytes},
	}
	if def.index {
		made.Index = engine.IndexAll()
	}
	c, err := s.db.CreateContainer(ctx, name, made)
	if err != nil {
		return nil, argumentError(err)
	}
	return newEngineContainer(c), nil
}

func (s engineStore) Names() (names []string) {
	for info := range s.db.Containers() {
		names = append(names, info.Name)
	}
	return names
}

func (s engineStore) Stats() storeStats {
	e := s.db.Stats()
	return storeStats{
		BufferBytes: e.BufferBytes,
		Writes:      e.Writes + e.Deletes, WrittenBytes: e.WrittenBytes,
		LogBytes: e.Log.Written, FlushBytes: e.FlushedBytes, MergeBytes: e.CompactedBytes,
		Syncs: e.Log.Syncs, Flushes: e.Flushes, Merges: e.Compactions,
		SyncWaits: e.Log.Waits, SyncWait: e.Log.Waited,
		Stalls: e.Stalls, PressureWait: e.Stalled,
		ColdReads: e.ColdReads, ColdWait: e.ColdWait,
	}
}

func (s engineStore) Flush(ctx context.Context) error  { return s.db.Flush(ctx) }
func (s engineStore) Settle(ctx context.Context) error { return s.db.Compact(ctx) }
func (s engineStore) Close() error                     { return s.db.Close() }
func (s engineStore) Checkpoint(ctx context.Context, dir string) (checkpoint, error) {
	info, err := s.db.Checkpoint(ctx, dir)
	return checkpoint{took: info.Duration(), logSync: info.LogSync}, err
}

type engineContainer struct {
	c      *engine.Container
	parsed *sync.Map // texts of queries to engine.Query
}

func newEngineContainer(c *engine.Container) engineContainer {
	return engineContainer{c, new(sync.Map)}
}

func (c engineContainer) Def() containerDef {
	def := c.c.Def()
	return containerDef{
		partitionKey: def.PartitionKey,
		compression:  compressionNames[def.Compression],
		partitions:   len(c.c.Partitions()),
		noBurst:      def.NoBurst,
		index:        len(def.Index.Include) > 0,
		throughput:   def.Throughput,
		ttl:          def.DefaultTTL,
		uniqueKeys:   def.UniqueKeys,
		itemBytes:    def.Limits.ItemBytes,
		logicalBytes: def.Limits.LogicalPartitionBytes,
		batchBytes:   def.Limits.BatchBytes,
	}
}

func (c engineContainer) SetThroughput(ctx context.Context, perSecond float64) error {
	return argumentError(c.c.SetThroughput(ctx, perSecond))
}

// callError makes an error of a call one that a loop knows.
func callError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, engine.ErrNotFound):
		return measure.ErrNotFound
	case errors.Is(err, engine.ErrThrottled):
		return measure.ErrThrottled
	}
	return err
}

var compressionNames = map[engine.Compression]string{engine.FastCompression: "fast", engine.SmallCompression: "small", engine.NoCompression: "none"}

func (c engineContainer) Stats() (s containerStats) {
	for _, p := range c.c.Partitions() {
		s.documents += p.Items
		s.rawBytes += p.RawBytes
		s.consumed = append(s.consumed, p.Consumed)
	}
	return s
}

func (c engineContainer) Load(ctx context.Context, docs iter.Seq2[[]byte, error], o loadOptions) (committed, bytes int64, err error) {
	opts := engine.LoadOptions{BatchBytes: o.batchBytes}
	if o.progress != nil {
		opts.Progress = func(s engine.LoadStats) { o.progress(s.Committed, s.Bytes) }
	}
	s, err := c.c.Load(ctx, docs, &opts)
	var input *engine.InputError
	if errors.As(err, &input) {
		err = input.Err
		for _, refused := range []error{engine.ErrInvalid, engine.ErrTooLarge, engine.ErrLogicalPartitionFull, workload.ErrLineTooLong} {
			if errors.Is(err, refused) {
				err = &inputError{index: input.Index, err: input.Err}
				break
			}
		}
	}
	return s.Committed, s.Bytes, err
}

func (c engineContainer) Upsert(ctx context.Context, _ partmap.Key, _ string, doc []byte) error {
	_, err := c.c.Upsert(ctx, doc, nil)
	return callError(err)
}

func (c engineContainer) With(d durability) measure.Store {
	return durableContainer{c, &engine.WriteOptions{Durability: d.Durability}}
}

// durableContainer writes with a durability of its own.
type durableContainer struct {
	engineContainer
	options *engine.WriteOptions
}

func (c durableContainer) Upsert(ctx context.Context, _ partmap.Key, _ string, doc []byte) error {
	_, err := c.c.Upsert(ctx, doc, c.options)
	return callError(err)
}

// Split splits the largest partition. One that splits by itself meanwhile is no
// longer there: then it is the turn of another.
func (c engineContainer) Split(ctx context.Context) error {
	for {
		largest := slices.MaxFunc(c.c.Partitions(), func(a, b engine.PartitionStats) int { return cmp.Compare(a.RawBytes, b.RawBytes) })
		job, err := c.c.Split(ctx, largest.ID, nil)
		if err == nil {
			err = job.Wait(ctx)
		}
		if !errors.Is(err, engine.ErrNotFound) {
			return err
		}
	}
}

func (c engineContainer) Merge(ctx context.Context) error {
	parts := c.c.Partitions()
	if len(parts) < 2 {
		return errors.New("there is one physical partition")
	}
	job, err := c.c.Merge(ctx, parts[0].ID, parts[1].ID)
	if err != nil {
		return err
	}
	return job.Wait(ctx)
}

func (c engineContainer) Read(ctx context.Context, key partmap.Key, id string, buf []byte) ([]byte, error) {
	it, err := c.c.ReadInto(ctx, key, id, buf)
	return it.Body, callError(err)
}

func (c engineContainer) Scan(ctx context.Context, key partmap.Key, from string, limit int, visit func(doc []byte)) error {
	for it, err := range c.c.Scan(ctx, key, from, &engine.ScanOptions{Limit: limit, Borrow: true}) {
		if err != nil {
			return callError(err)
		}
		visit(it.Body)
	}
	return nil
}

// Query implements measure.Querier. What no index answers is refused.
func (c engineContainer) Query(ctx context.Context, key partmap.Key, text string, visit func(row []byte)) error {
	known, ok := c.parsed.Load(text)
	if !ok {
		q, err := engine.ParseQuery(text, nil)
		if err != nil {
			return err
		}
		q.NoScan = true
		known, _ = c.parsed.LoadOrStore(text, q)
	}
	scope := engine.AllPartitions()
	if key.Valid() {
		scope = engine.OnePartition(key)
	}
	for it, err := range c.c.Query(ctx, scope, known.(engine.Query)).All() {
		if err != nil {
			return callError(err)
		}
		visit(it.Body)
	}
	return nil
}

func (c engineContainer) Keys(ctx context.Context) iter.Seq2[documentName, error] {
	return func(yield func(documentName, error) bool) {
		var name documentName
		for it, err := range c.c.ScanAll(ctx, nil) {
			if err != nil {
				yield(documentName{}, err)
				return
			}
			// The id and key of a scanned item share memory with its body.
			name.id = strings.Clone(it.ID)
			if it.Key != name.key {
				name.key = it.Key.Clone()
			}
			if !yield(name, nil) {
				return
			}
		}
	}
}
