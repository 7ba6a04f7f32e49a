package harness

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
	"github.com/cleavestore/cleave/internal/humanize"
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/measure"
	"github.com/cleavestore/cleave/internal/uniquekey"
	"github.com/cleavestore/cleave/internal/workload"
	"github.com/cleavestore/cleave/partmap"
)

// Store is what commands use of an open store. Commands see no more of the
// engine than this file shows them.
type Store interface {
	// Container returns a container, or ErrNoContainer.
	Container(name string) (Container, error)
	CreateContainer(ctx context.Context, name string, def ContainerDef) (Container, error)
	// Names lists the containers in alphabetical order.
	Names() []string
	Stats() StoreStats
	// Flush writes what is in memory to files.
	Flush(ctx context.Context) error
	// Checkpoint makes a copy of linked files in dir.
	Checkpoint(ctx context.Context, dir string) (Checkpoint, error)
	// Settle flushes and compacts until the store is at rest.
	Settle(ctx context.Context) error
	Close() error
}

// Container is what commands use of a container. It is safe for concurrent use.
type Container interface {
	Def() ContainerDef
	// SetThroughput provisions so many RU/s; 0: no limit.
	SetThroughput(ctx context.Context, perSecond float64) error
	Stats() ContainerStats
	// Load upserts documents in input order. committed counts those that are
	// durable. It ends at a document that is refused: an *InputError.
	Load(ctx context.Context, docs iter.Seq2[[]byte, error], o LoadOptions) (committed, bytes int64, err error)
	measure.Store
	// With returns the container with another durability of writes.
	With(d Durability) measure.Store
	// Expiring returns the container with a time to live of what is written.
	Expiring(ttl time.Duration) measure.Store
	// Split splits the largest physical partition, and returns when that is over.
	Split(ctx context.Context) error
	// Merge merges the first two physical partitions.
	Merge(ctx context.Context) error
	// Keys yields the key and id of each document, in key-space order.
	Keys(ctx context.Context) iter.Seq2[DocumentName, error]
}

// DocumentName says which document of a container is meant.
type DocumentName struct {
	Key partmap.Key
	ID  string
}

// ErrNoContainer says that a store has no container of a name.
var ErrNoContainer = errors.New("no such container")

// ErrDiskFull says that there is no space for what a store has to write.
var ErrDiskFull = engine.ErrDiskFull

// NoExpiry as the TTL of a container: documents that have one of their own expire.
const NoExpiry = engine.NoExpiry

// InputError names the document of a load that was refused.
type InputError struct {
	Index int64 // in the input, from 0
	Err   error
}

// Error implements error.
func (e *InputError) Error() string { return fmt.Sprintf("document %d: %v", e.Index+1, e.Err) }

// Unwrap returns why.
func (e *InputError) Unwrap() error { return e.Err }

// Checkpoint is one that was made.
type Checkpoint struct {
	Took    time.Duration // all of it
	LogSync time.Duration // of that, the sync of the log, which the disk and what was written decide
}

// StoreOptions say how to open a store.
type StoreOptions struct {
	MemoryBudget, ScanCacheBytes int64
	durability                   Durability
	positioned                   bool // read files by positioned reads, not through a mapping
	// maxPartitionBytes is where physical partitions split by themselves; 0: the
	// engine's default.
	maxPartitionBytes int64
	Splits            *SplitLog // is told of splits; nil: nobody is
	Work              *WorkLog  // is told of flushes and compactions; nil: nobody is
	logger            *slog.Logger
}

// ContainerDef is what commands know of the definition of a container.
type ContainerDef struct {
	PartitionKey []string // paths
	Compression  string
	Partitions   int // physical ones to begin with
	NoBurst      bool
	Index        bool    // all values are indexed
	Throughput   float64 // RU/s, of one that exists; 0: unlimited

	TTL          time.Duration
	UniqueKeys   [][]string
	ItemBytes    int64 // limits; 0: the engine's defaults
	LogicalBytes int64
	BatchBytes   int64
}

// LoadOptions say how to load.
type LoadOptions struct {
	batchBytes int64
	Progress   func(committed, bytes int64)
}

// ContainerStats are figures of a container.
type ContainerStats struct {
	Documents int64     // at most: overwritten ones may be counted too
	RawBytes  int64     // of these documents
	Consumed  []float64 // RU of each partition, since it was made or the store opened
	// Partitions are the physical ones, in key-space order.
	Partitions []PartitionBounds
}

// PartitionBounds says which part of the key space a physical partition has.
type PartitionBounds struct {
	ID  uint32 `json:"id"`
	Min string `json:"min"` // hexadecimal digits, inclusive
	Max string `json:"max"` // exclusive
}

// StoreStats counts since the store was opened.
type StoreStats struct {
	BufferBytes     int64 // in memory now, to be flushed
	Writes          int64
	WrittenBytes    int64 // keys, ids and documents that were written
	LogBytes        int64
	FlushBytes      int64
	CompactionBytes int64
	Syncs           int64
	Flushes         int64
	Compactions     int64
	SyncWaits       int64
	Stalls          int64
	ColdReads       int64
	SyncWait        time.Duration
	PressureWait    time.Duration
	ColdWait        time.Duration
}

// Since returns what was counted after before.
func (s StoreStats) Since(before StoreStats) StoreStats {
	return StoreStats{
		BufferBytes:     s.BufferBytes,
		Writes:          s.Writes - before.Writes,
		WrittenBytes:    s.WrittenBytes - before.WrittenBytes,
		LogBytes:        s.LogBytes - before.LogBytes,
		FlushBytes:      s.FlushBytes - before.FlushBytes,
		CompactionBytes: s.CompactionBytes - before.CompactionBytes,
		Syncs:           s.Syncs - before.Syncs,
		Flushes:         s.Flushes - before.Flushes,
		Compactions:     s.Compactions - before.Compactions,
		SyncWaits:       s.SyncWaits - before.SyncWaits,
		Stalls:          s.Stalls - before.Stalls,
		ColdReads:       s.ColdReads - before.ColdReads,
		SyncWait:        s.SyncWait - before.SyncWait,
		PressureWait:    s.PressureWait - before.PressureWait,
		ColdWait:        s.ColdWait - before.ColdWait,
	}
}

// Durability is an engine.Durability as a flag.
type Durability struct{ engine.Durability }

// UnmarshalText reads "synced", "buffered" or "interval:100ms".
func (d *Durability) UnmarshalText(text []byte) (err error) {
	d.Durability, err = engine.ParseDurability(string(text))
	return err
}

// Synced reports whether what was acknowledged is durable.
func (d Durability) Synced() bool { return d.Durability == engine.Synced }

// OpenStore opens a store of the engine, making it if dir is empty or absent.
func OpenStore(ctx context.Context, dir string, o StoreOptions) (Store, error) {
	opts := engine.Options{MemoryBudget: o.MemoryBudget, ScanCacheBytes: o.ScanCacheBytes, Durability: o.durability.Durability, Logger: o.logger, MaxPartitionBytes: o.maxPartitionBytes}
	opts.Events = new(engine.EventListener)
	if o.Splits != nil {
		opts.Events.Reshaped = func(e engine.ReshapeEvent) { o.Splits.Note(newReshape(e)) }
	}
	if o.Work != nil {
		o.Work.listen(opts.Events)
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

// listen has the log told by a store.
func (l *WorkLog) listen(to *engine.EventListener) {
	note := func(kind string, id engine.PartitionID, took time.Duration, in, out int64, runs int) {
		now := time.Now()
		l.Note(Work{Kind: kind, Partition: uint32(id), Begun: now.Add(-took), Ended: now, BytesIn: in, Bytes: out, Runs: runs})
	}
	to.Flushed = func(e engine.FlushEvent) { note("flush", e.Partition, e.Duration, 0, e.Bytes, 0) }
	to.Compacted = func(e engine.CompactionEvent) {
		kind := "compaction"
		switch {
		case e.Trim:
			kind = "trim"
		case e.Reindex:
			kind = "reindex"
		}
		note(kind, e.Partition, e.Duration, e.BytesIn, e.BytesOut, e.Runs)
	}
}

func newReshape(e engine.ReshapeEvent) Reshape {
	r := Reshape{
		Kind: e.Kind.String(), Swapped: e.Swapped, Settle: e.Settle, Prepare: e.Prepare, Commit: e.Commit,
		Pause: e.Pause, Inherit: e.Inherit, Copied: e.CopiedBytes, Err: e.Err,
	}
	for _, id := range e.Parents {
		r.Parents = append(r.Parents, uint32(id))
	}
	for _, id := range e.Children {
		r.Children = append(r.Children, uint32(id))
	}
	return r
}

// CheckNewContainer refuses, as wrong usage, what the engine would refuse to
// make a container of.
func CheckNewContainer(name string, def ContainerDef) error {
	bad := name == "" || len(name) > 255 || !utf8.ValidString(name)
	if bad || strings.ContainsFunc(name, func(r rune) bool { return r < 0x20 || strings.ContainsRune("/\\#?\uFFFD", r) }) {
		return Usagef("container %q: a name has 1 to 255 bytes, and no control characters and none of / \\ # ?", name)
	}
	if _, err := jsondoc.Compile(def.PartitionKey); err != nil {
		return cli.Usage(err)
	}
	if _, err := engine.ParseCompression(def.Compression); err != nil {
		return cli.Usage(err)
	}
	if def.Partitions > maxPartitions {
		return Usagef("--partitions %d: at most %d", def.Partitions, maxPartitions)
	}
	if def.ItemBytes > MaxItemBytes {
		return Usagef("--item-limit: at most %s", humanize.Bytes(int64(MaxItemBytes)))
	}
	if def.BatchBytes > maxTransactionBytes {
		return Usagef("--batch-limit: at most %s", humanize.Bytes(int64(maxTransactionBytes)))
	}
	if _, err := uniquekey.Compile(def.UniqueKeys); err != nil {
		return cli.Usage(fmt.Errorf("--unique-key: %w", err))
	}
	return nil
}

// What the engine takes of a new container at most.
const (
	maxPartitions       = 1 << 16
	MaxItemBytes        = 3 << 20
	maxTransactionBytes = 4 << 20
)

// argumentError makes a refused option wrong usage.
func argumentError(err error) error {
	if errors.Is(err, engine.ErrInvalid) {
		return cli.Usage(err)
	}
	return err
}

type engineStore struct{ db *engine.DB }

// Opened returns a store of the engine that is open.
func Opened(db *engine.DB) Store { return engineStore{db} }

func (s engineStore) Container(name string) (Container, error) {
	c, err := s.db.Container(name)
	if errors.Is(err, engine.ErrNoContainer) {
		return nil, fmt.Errorf("container %q: %w", name, ErrNoContainer)
	}
	if err != nil {
		return nil, err
	}
	return newEngineContainer(c), nil
}

func (s engineStore) CreateContainer(ctx context.Context, name string, def ContainerDef) (Container, error) {
	compression, err := engine.ParseCompression(def.Compression)
	if err != nil {
		return nil, argumentError(err)
	}
	made := engine.ContainerDef{
		PartitionKey: def.PartitionKey, Compression: compression, MinPartitions: def.Partitions, NoBurst: def.NoBurst,
		DefaultTTL: def.TTL, UniqueKeys: def.UniqueKeys,
		Limits: engine.ContainerLimits{ItemBytes: def.ItemBytes, LogicalPartitionBytes: def.LogicalBytes, BatchBytes: def.BatchBytes},
	}
	if def.Index {
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

func (s engineStore) Stats() StoreStats {
	e := s.db.Stats()
	return StoreStats{
		BufferBytes: e.BufferBytes,
		Writes:      e.Writes + e.Deletes, WrittenBytes: e.WrittenBytes,
		LogBytes: e.Log.Written, FlushBytes: e.FlushedBytes, CompactionBytes: e.CompactedBytes,
		Syncs: e.Log.Syncs, Flushes: e.Flushes, Compactions: e.Compactions,
		SyncWaits: e.Log.Waits, SyncWait: e.Log.Waited,
		Stalls: e.Stalls, PressureWait: e.Stalled,
		ColdReads: e.ColdReads, ColdWait: e.ColdWait,
	}
}

func (s engineStore) Flush(ctx context.Context) error  { return s.db.Flush(ctx) }
func (s engineStore) Settle(ctx context.Context) error { return s.db.Compact(ctx) }
func (s engineStore) Close() error                     { return s.db.Close() }
func (s engineStore) Checkpoint(ctx context.Context, dir string) (Checkpoint, error) {
	info, err := s.db.Checkpoint(ctx, dir)
	return Checkpoint{Took: info.Duration(), LogSync: info.LogSync}, err
}

type engineContainer struct {
	Container *engine.Container
	parsed    *sync.Map // texts of queries to engine.Query
}

func newEngineContainer(c *engine.Container) engineContainer {
	return engineContainer{c, new(sync.Map)}
}

func (c engineContainer) Def() ContainerDef {
	def := c.Container.Def()
	return ContainerDef{
		PartitionKey: def.PartitionKey,
		Compression:  compressionNames[def.Compression],
		Partitions:   len(c.Container.Partitions()),
		NoBurst:      def.NoBurst,
		Index:        len(def.Index.Include) > 0,
		Throughput:   def.Throughput,
		TTL:          def.DefaultTTL,
		UniqueKeys:   def.UniqueKeys,
		ItemBytes:    def.Limits.ItemBytes,
		LogicalBytes: def.Limits.LogicalPartitionBytes,
		BatchBytes:   def.Limits.BatchBytes,
	}
}

func (c engineContainer) SetThroughput(ctx context.Context, perSecond float64) error {
	return argumentError(c.Container.SetThroughput(ctx, perSecond))
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

func (c engineContainer) Stats() (s ContainerStats) {
	for _, p := range c.Container.Partitions() {
		s.Documents += p.Items
		s.RawBytes += p.RawBytes
		s.Consumed = append(s.Consumed, p.Consumed)
		s.Partitions = append(s.Partitions, PartitionBounds{ID: uint32(p.ID), Min: p.Min, Max: p.Max})
	}
	return s
}

func (c engineContainer) Load(ctx context.Context, docs iter.Seq2[[]byte, error], o LoadOptions) (committed, bytes int64, err error) {
	opts := engine.LoadOptions{BatchBytes: o.batchBytes}
	if o.Progress != nil {
		opts.Progress = func(s engine.LoadStats) { o.Progress(s.Committed, s.Bytes) }
	}
	s, err := c.Container.Load(ctx, docs, &opts)
	var input *engine.InputError
	if errors.As(err, &input) {
		err = input.Err
		for _, refused := range []error{engine.ErrInvalid, engine.ErrTooLarge, engine.ErrLogicalPartitionFull, engine.ErrUniqueKey, workload.ErrLineTooLong} {
			if errors.Is(err, refused) {
				err = &InputError{Index: input.Index, Err: input.Err}
				break
			}
		}
	}
	return s.Committed, s.Bytes, err
}

func (c engineContainer) Upsert(ctx context.Context, _ partmap.Key, _ string, doc []byte) error {
	_, err := c.Container.Upsert(ctx, doc, nil)
	return callError(err)
}

func (c engineContainer) With(d Durability) measure.Store {
	return writingContainer{c, &engine.WriteOptions{Durability: d.Durability}}
}

func (c engineContainer) Expiring(ttl time.Duration) measure.Store {
	return writingContainer{c, &engine.WriteOptions{TTL: ttl}}
}

// writingContainer writes with a durability or time to live of its own.
type writingContainer struct {
	engineContainer
	options *engine.WriteOptions
}

func (c writingContainer) Upsert(ctx context.Context, _ partmap.Key, _ string, doc []byte) error {
	_, err := c.Container.Upsert(ctx, doc, c.options)
	return callError(err)
}

// Split splits the largest partition. One that splits by itself meanwhile is no
// longer there: then it is the turn of another.
func (c engineContainer) Split(ctx context.Context) error {
	for {
		largest := slices.MaxFunc(c.Container.Partitions(), func(a, b engine.PartitionStats) int { return cmp.Compare(a.RawBytes, b.RawBytes) })
		job, err := c.Container.Split(ctx, largest.ID, nil)
		if err == nil {
			err = job.Wait(ctx)
		}
		if !errors.Is(err, engine.ErrNotFound) {
			return err
		}
	}
}

func (c engineContainer) Merge(ctx context.Context) error {
	parts := c.Container.Partitions()
	if len(parts) < 2 {
		return errors.New("there is one physical partition")
	}
	job, err := c.Container.Merge(ctx, parts[0].ID, parts[1].ID)
	if err != nil {
		return err
	}
	return job.Wait(ctx)
}

func (c engineContainer) Read(ctx context.Context, key partmap.Key, id string, buf []byte) ([]byte, error) {
	it, err := c.Container.ReadInto(ctx, key, id, buf)
	return it.Body, callError(err)
}

func (c engineContainer) Scan(ctx context.Context, key partmap.Key, from string, limit int, visit func(doc []byte)) error {
	for it, err := range c.Container.Scan(ctx, key, engine.IDRange{From: from}, &engine.ScanOptions{Limit: limit, Borrow: true}) {
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
	for it, err := range c.Container.Query(ctx, scope, known.(engine.Query)).All() {
		if err != nil {
			return callError(err)
		}
		visit(it.Body)
	}
	return nil
}

func (c engineContainer) Keys(ctx context.Context) iter.Seq2[DocumentName, error] {
	return func(yield func(DocumentName, error) bool) {
		var name DocumentName
		for it, err := range c.Container.ScanAll(ctx, nil) {
			if err != nil {
				yield(DocumentName{}, err)
				return
			}
			// The id and key of a scanned item share memory with its body.
			name.ID = strings.Clone(it.ID)
			if it.Key != name.Key {
				name.Key = it.Key.Clone()
			}
			if !yield(name, nil) {
				return
			}
		}
	}
}
