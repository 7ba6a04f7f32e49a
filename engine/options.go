package engine

import (
	"cmp"
	"log/slog"
	"math"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/definition"
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/quietlog"
	"github.com/cleavestore/cleave/internal/scheduler"
	"github.com/cleavestore/cleave/internal/testenv"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/segment"
)

// Durability says when a write is acknowledged. The zero value means the
// store's default in WriteOptions and LoadOptions, and Synced in Options.
type Durability struct {
	mode     durabilityMode
	interval time.Duration
}

type durabilityMode uint8

const (
	durabilityDefault durabilityMode = iota
	durabilitySynced
	durabilityBuffered
	durabilityInterval
)

var (
	// Synced: an acknowledged write survives a killed process, a crash of the
	// operating system and a power cut. Concurrent writes share one fsync.
	Synced = Durability{mode: durabilitySynced}
	// Buffered: an acknowledged write is in the kernel. It survives a killed
	// process; a crash of the system or a power cut loses a suffix of the
	// commit order.
	Buffered = Durability{mode: durabilityBuffered}
)

// Interval is Buffered, and the log is synced at least every d: a power cut
// loses at most the writes of the last d and of one sync. Only for
// Options.Durability.
func Interval(d time.Duration) Durability {
	return Durability{mode: durabilityInterval, interval: d}
}

// ParseDurability reads "synced", "buffered" or "interval:100ms".
func ParseDurability(text string) (Durability, error) {
	switch text {
	case "synced":
		return Synced, nil
	case "buffered":
		return Buffered, nil
	}
	if rest, ok := strings.CutPrefix(text, "interval:"); ok {
		d, err := time.ParseDuration(rest)
		if err == nil && d > 0 {
			return Interval(d), nil
		}
	}
	return Durability{}, invalidf("durability %q: want synced, buffered or interval:DURATION", jsondoc.Clip(text))
}

// String returns the form that ParseDurability reads.
func (d Durability) String() string {
	switch d.mode {
	case durabilitySynced:
		return "synced"
	case durabilityBuffered:
		return "buffered"
	case durabilityInterval:
		return "interval:" + d.interval.String()
	}
	return "default"
}

// Options configures a store. The zero value is usable; Open works on a copy.
type Options struct {
	// ReadOnly opens a consistent past state, also beside a live writer, and changes
	// nothing on disk. It shows the writes that were acknowledged before Open, and none that
	// a power cut can take back: it syncs log files that the writer has not synced yet. Of a
	// log file that it cannot sync it shows only what is known to be durable. Only Linux lets
	// a reader sync without harm to the writer; elsewhere a power cut may take back the newest
	// writes.
	ReadOnly bool
	// MemoryBudget bounds, in bytes, the sum of write buffers, the indexes that queries
	// make of them, documents kept decoded because they are read often (an eighth), and
	// scratch memory. 16 MiB to 1 TiB. 0: 256 MiB. Other documents that are read come from
	// mapped files and count towards the page cache, not towards the budget. Copies of
	// single documents in flushes, compactions and calls come on top: allow some 40 times the
	// largest document, and 4 times for each concurrent write. A read-only store holds the
	// writes that only the log has, up to LogBytes, and their indexes.
	MemoryBudget int64
	// ScanCacheBytes is memory beside MemoryBudget for documents kept decoded because scans read
	// them often, at most 1 TiB. 0: half of the eighth of MemoryBudget. Negative: none.
	ScanCacheBytes int64
	// Durability of writes that do not ask for another. Zero: Synced.
	Durability Durability
	// LogFileBytes is the size at which a log file is full; 64 KiB to 1 GiB.
	// 0: 64 MiB.
	LogFileBytes int64
	// LogBytes is the size of the log past which its oldest records are released: their
	// partition is flushed, or, if it holds little, its records are written to the log
	// again. The log may always be twice as large as the records that only it holds.
	// 0: the larger of 256 MiB and twice the write buffers.
	LogBytes int64
	// CompactionBytesPerSecond limits what all compactions, trims and index builds together
	// write. 0: no limit, but they give way to flushes.
	CompactionBytesPerSecond int64
	// TrimBytesPerSecond limits what all trims together write. After a split, a trim rewrites
	// a shared file without the parts that belong to other partitions. 0: 64 MiB.
	TrimBytesPerSecond int64
	// MaxPartitionBytes is the size of the documents in a physical partition
	// past which it splits by itself. 0: 50 GiB. Negative: no partition splits for its
	// size.
	MaxPartitionBytes int64
	// MaxPartitionThroughput is in request units a second. A physical partition that
	// consumes more, over a minute or so, splits by itself at the median of its load.
	// Its consumption is not limited: see ContainerDef.Throughput for that. 0: no
	// partition splits for its load.
	MaxPartitionThroughput float64
	// FileBytes is the size at which a flush or compaction begins the next segment
	// file, at the next boundary between logical partitions. 0: 256 MiB.
	FileBytes int64
	// MaxOpenFiles is how many segment files are open at the same time, and
	// MaxMappedFiles how many are mapped; a store may have any number of files. To open a
	// file past the limit, the store closes one that was not used lately. Opening costs
	// some 10 microseconds, and reads of a file that is not mapped go through system calls.
	// The store opens some 10 other files on top, and 4 for each checkpoint, backup or copy
	// under way. 0: half of what the process may have (ulimit -Hn, as Go raises the soft limit
	// to it; vm.max_map_count where there is one), at most 65,536. Each store that is open in
	// a process takes half by default, so set both fields if there are several. A read-only
	// store keeps its files mapped or open, as a writer may remove their names; past both
	// limits a read of a removed file is ErrMissing until the store is opened anew.
	MaxOpenFiles   int
	MaxMappedFiles int
	// ReadMode chooses how segment files are read: through a mapping (the
	// default) or by positioned reads.
	ReadMode ReadMode
	// ExpiryGrace is the least time that expired items stay on disk: the time to correct
	// a wrong clock. 0: an hour. Negative: none.
	ExpiryGrace time.Duration
	// MaxClockSkew is how far times in an entry of a replicated log or in an installed
	// partition may lie ahead of the clock. Times further ahead are refused with
	// ErrClockSkew. If the clock is set back by at most MaxClockSkew, time stamps stand
	// still until it has caught up. 0: five minutes. Negative: none.
	MaxClockSkew time.Duration
	// RefuseDamaged makes Open fail if a segment file, or the manifest of a partition, is
	// missing or damaged at its head or foot. Without it such a file or partition is set
	// aside: calls that need it return the error, all others go on, and Stats names it. A
	// damaged manifest of the store, or log, is refused either way.
	RefuseDamaged bool
	// Logger receives messages about background work and errors. It may be called under
	// locks and must not call the store. Its panics are ignored. Nil: silent.
	Logger *slog.Logger
	// SlowCall is how long a call may take before the listener's SlowCall is told of it. With
	// it every call is timed: a read then takes two readings of the clock more, a write six
	// more, a query two for each result. 0: no call is slow, and some of the reads, scans
	// and queries are timed, for DB.Metrics.
	SlowCall time.Duration
	// Events are called as things happen. Nil: none.
	Events *EventListener

	// telling is held while a function of Events is called: each state of a read-only store has its own queue of them.
	telling *sync.Mutex
	// env is that of package cleavetest; nil: the system's.
	env *testenv.Env
	// fs replaces the file system in tests.
	fs vfs.FS
	// clock replaces time.Now in tests.
	clock func() time.Time
	// elapsed replaces, in tests, the time since the store was opened by a clock
	// that does not jump.
	elapsed func() time.Duration
	// random replaces crypto/rand in tests. Two calls must not return the same.
	random func() uint64
	// lookedAhead is called, in tests, after a write has looked up the present version
	// without a lock, and before the write is judged.
	lookedAhead func()
	// feedOrder replaces, in tests, the number of versions that a feed puts in order at once.
	feedOrder int
	// checkpointRoot makes the directory of a checkpoint; tests replace it.
	checkpointRoot func(dir string) (vfs.FS, error)
	// pause replaces waiting for a throttled partition in tests.
	pause func(time.Duration)
	// memtableBytes lowers the size at which a memtable is flushed in tests.
	memtableBytes int64
	// reserveBytes is the least size of the reserve file; tests lower it. Negative: there
	// is no reserve file.
	reserveBytes int64
	// foldBytes is the size of the store manifest from which on its changes are written
	// to files of their own; tests lower it. 0: the default.
	foldBytes int64
	// manual switches background work off in tests: flushes and compactions happen
	// only in Flush and Compact, one after the other.
	manual bool
	// atOnce is how many partitions are loaded, made, or at most flushed and compacted at a time,
	// in tests. 0: some for each processor, or one where manual is set: calls have one order.
	atOnce int
	// keepInheritance leaves inherited memtables of children to the next flush in tests.
	keepInheritance bool
}

// ReadMode is how segment files are read.
type ReadMode uint8

// Read modes.
const (
	ReadMapped     = ReadMode(segment.Map)   // through a mapping into memory
	ReadPositioned = ReadMode(segment.Pread) // by system calls
)

const (
	defaultMemoryBudget = 256 << 20
	minMemoryBudget     = 16 << 20
	maxMemory           = 1 << 40
	defaultLogFileBytes = 64 << 20
	minLogFileBytes     = 64 << 10
	defaultLogBytes     = 256 << 20
	defaultFileBytes    = 256 << 20
	minFileBytes        = 4 << 10
	maxMemtableBytes    = 32 << 20
	defaultTrimRate     = 64 << 20
	defaultMaxPartition = 50 << 30
	maxFiles            = 1 << 16
)

func (o *Options) withDefaults() (Options, error) {
	var out Options
	if o != nil {
		out = *o
	}
	if out.Durability.mode == durabilityDefault {
		out.Durability = Synced
	}
	if out.Durability.mode == durabilityInterval && out.Durability.interval < time.Millisecond {
		return out, invalidf("Durability: interval %v: at least 1ms", out.Durability.interval)
	}
	if !(out.MaxPartitionThroughput >= 0) {
		return out, invalidf("MaxPartitionThroughput %v", out.MaxPartitionThroughput)
	}
	out.MemoryBudget = cmp.Or(out.MemoryBudget, defaultMemoryBudget) // on which that of LogBytes depends
	files, maps := vfs.Limits()
	openFiles, mappedFiles, slow := int64(out.MaxOpenFiles), int64(out.MaxMappedFiles), int64(out.SlowCall)
	for _, f := range []struct {
		name                   string
		v                      *int64
		otherwise, least, most int64
	}{
		{"MemoryBudget", &out.MemoryBudget, 0, minMemoryBudget, maxMemory},
		{"ScanCacheBytes", &out.ScanCacheBytes, out.MemoryBudget / 16, math.MinInt64, maxMemory},
		{"LogFileBytes", &out.LogFileBytes, defaultLogFileBytes, minLogFileBytes, 1 << 30},
		{"LogBytes", &out.LogBytes, max(defaultLogBytes, 2*out.arenaBytes()), 0, math.MaxInt64},
		{"CompactionBytesPerSecond", &out.CompactionBytesPerSecond, 0, 0, math.MaxInt64},
		{"TrimBytesPerSecond", &out.TrimBytesPerSecond, defaultTrimRate, 0, math.MaxInt64},
		{"MaxPartitionBytes", &out.MaxPartitionBytes, defaultMaxPartition, math.MinInt64, math.MaxInt64},
		{"FileBytes", &out.FileBytes, defaultFileBytes, minFileBytes, math.MaxInt64},
		{"MaxOpenFiles", &openFiles, halfOf(files), 1, math.MaxInt},
		{"MaxMappedFiles", &mappedFiles, halfOf(maps), 1, math.MaxInt},
		{"SlowCall", &slow, 0, 0, math.MaxInt64},
	} {
		if *f.v == 0 {
			*f.v = f.otherwise
		}
		if *f.v < f.least || *f.v > f.most {
			return out, invalidf("%s %d: between %d and %d, or 0 for the default", f.name, *f.v, f.least, f.most)
		}
	}
	out.MaxOpenFiles, out.MaxMappedFiles = int(openFiles), int(mappedFiles)
	out.reserveBytes = cmp.Or(out.reserveBytes, defaultReserve)
	out.memtableBytes = cmp.Or(out.memtableBytes, maxMemtableBytes)
	if out.Logger == nil {
		out.Logger = slog.New(slog.DiscardHandler)
	} else {
		out.Logger = slog.New(quietlog.Handler{Handler: out.Logger.Handler()})
	}
	out.Events, out.telling = cmp.Or(out.Events, &EventListener{}), new(sync.Mutex)
	if out.clock == nil {
		out.clock = time.Now
	}
	if out.env != nil {
		out.fs = out.env.FS()
		opened := out.env.Steady()
		out.elapsed = func() time.Duration { return out.env.Steady() - opened }
	}
	if out.elapsed == nil {
		opened := time.Now()
		out.elapsed = func() time.Duration { return time.Since(opened) }
	}
	if out.atOnce == 0 {
		out.atOnce = 4 * runtime.GOMAXPROCS(0) // most wait for the device; each holds up to two descriptors
		if out.manual {
			out.atOnce = 1
		}
	}
	if out.checkpointRoot == nil {
		out.checkpointRoot = vfs.CreateRoot
	}
	out.ExpiryGrace = max(0, cmp.Or(out.ExpiryGrace, defaultExpiryGrace))
	out.MaxClockSkew = max(0, cmp.Or(out.MaxClockSkew, defaultClockSkew))
	return out, nil
}

// halfOf is the part of a limit of the process that a store takes by default.
func halfOf(limit int) int64 { return int64(min(max(1, limit/2), maxFiles)) }

// arenaBytes is the share of the budget that memtables and their indexes may hold. The rest
// is for flushes and compactions, log buffers, scratch and the Go heap.
func (o *Options) arenaBytes() int64 { return o.MemoryBudget / 8 * 5 }

// indexBytes is the memory that a flush or compaction may use to build an index. Those of the
// background together have three tenths of the budget, those of a call as much again.
func (o *Options) indexBytes() int64 {
	return min(index.DefaultLimit, o.MemoryBudget/10*3/int64(scheduler.Outputs()))
}

// ContainerKind says what a container keeps.
type ContainerKind uint8

// Kinds of containers.
const (
	// JSON: the document is the only source of its id and partition key.
	JSON = ContainerKind(definition.JSON)
	// Opaque: the caller gives partition key and id, the body is bytes.
	Opaque = ContainerKind(definition.Opaque)
)

// String returns "json" or "opaque".
func (k ContainerKind) String() string { return definition.Kind(k).String() }

// Compression says how the items of a container are stored.
type Compression uint8

// Compressions.
const (
	FastCompression  = Compression(segment.Fast)  // LZ blocks against a dictionary of sampled documents
	SmallCompression = Compression(segment.Small) // zstd against the same dictionary in the oldest run
	NoCompression    = Compression(segment.None)  // not compressed
)

// ParseCompression reads the form that String returns.
func ParseCompression(text string) (Compression, error) {
	for c := FastCompression; c <= NoCompression; c++ {
		if c.String() == text {
			return c, nil
		}
	}
	return FastCompression, invalidf("compression %q: want fast, small or none", jsondoc.Clip(text))
}

// String returns "fast", "small" or "none".
func (c Compression) String() string { return segment.Compression(c).String() }

// ContainerDef defines a container. Afterwards Container.SetThroughput, SetIndexPolicy,
// SetDefaultKeyLimits and, with MutableTTL, SetDefaultTTL can change a part of it. For the
// rest see Container.CopyTo.
type ContainerDef struct {
	// PartitionKey has 1 to 3 paths such as "/tenant" or "/address/city". A name with a
	// slash, or one that begins with a quote, is a JSON string: /"a/b"/c. For Opaque
	// containers it only tells the number of levels; nil means one.
	PartitionKey []string `json:"partition_key"`
	// Synthetic, if not nil, derives the key of one level from several members
	// of a document, in the place of PartitionKey. For JSON containers.
	Synthetic *SyntheticKey `json:"synthetic,omitempty"`
	// HashVersion is the version of the model's hash by which partition keys are placed: 1
	// or 2. 0 is 2, which is better: it hashes all of a key. 1 is that of containers that
	// were made long ago, for clients which place keys by it. A key of version 1 has one
	// path; not with Synthetic or Replicated. The keys that calls return are then of
	// version 1, which == tells from others: PartitionKey.OfVersion makes one of the other.
	// Calls take both.
	HashVersion int `json:"hash_version,omitempty"`
	// Kind is JSON or Opaque.
	Kind ContainerKind `json:"kind"`
	// Compression of the stored items.
	Compression Compression `json:"compression"`
	// MinPartitions is the number of physical partitions to begin with, which
	// tile the key space evenly. 0: 1. At most 65,536, beyond which splits are refused,
	// too. A partition that is written to takes 8 KiB of write buffers or more,
	// and a file descriptor for each of its files.
	MinPartitions int `json:"min_partitions"`
	// DefaultTTL is how long items live after their last write. A document overrides it
	// by its member "ttl", in seconds, -1 for ever; any write overrides it by
	// WriteOptions.TTL. 0: items never expire; a document with a "ttl" is written
	// without an error and lives for ever, as in the model. NoExpiry: only items
	// with a time to live of their own expire. At least a millisecond.
	DefaultTTL time.Duration `json:"default_ttl_ns,omitzero"`
	// MutableTTL says that SetDefaultTTL can change DefaultTTL, also for the items that are
	// there, as in the model. Without it the expiry of an item is fixed when it is written. With
	// Replicated entries change the default, and DefaultTTL is what partitions begin with: see
	// Entry.DefaultTTL. With UniqueKeys a write writes all claims of its item anew.
	MutableTTL bool `json:"mutable_ttl,omitempty"`
	// Throughput is what the container may consume, in request units per second,
	// divided evenly over its physical partitions; at least 1. 0: unlimited. A
	// container begins with as many partitions as its throughput needs. See
	// SetThroughput.
	Throughput float64 `json:"throughput_ru_per_s,omitzero"`
	// NoBurst says that partitions below 3,000 RU/s do not save throughput that they do
	// not use. Without it they save that of 300 s, and spend it at 3,000 RU/s at most.
	NoBurst bool `json:"no_burst,omitempty"`
	// Replicated says that the container takes writes by ApplyAt and
	// InstallPartition only: see docs/replication.md.
	Replicated bool `json:"replicated,omitempty"`
	// Limits; zero fields mean the model's defaults.
	Limits ContainerLimits `json:"limits"`
	// ChangeRetention is the least time that overwritten versions, deleted items and
	// their tombstones stay on disk for change feeds of all versions: see
	// ChangeOptions.AllVersions. They take space for about a sixteenth longer,
	// whether or not a feed reads them. 0: such feeds are refused. At least a
	// second. Not with Replicated.
	ChangeRetention time.Duration `json:"change_retention_ns,omitzero"`
	// Index says which values are indexed. The zero value: none are, unlike in
	// the model, where all are; IndexAll indexes everything. It can be changed: see
	// Container.SetIndexPolicy.
	Index IndexPolicy `json:"index,omitzero"`
	// UniqueKeys are sets of paths: no two items of a logical partition have the
	// same values at all paths of a set. At most 10, of 16 paths each; not for
	// Opaque containers. Absent counts as null. See docs/items.md for what it
	// costs.
	UniqueKeys [][]string `json:"unique_keys,omitempty"`
}

// IndexPolicy says which values of documents are indexed. The zero value indexes nothing.
//
// A pattern is a path that ends in /? for the scalar there, or in /* for the value there
// and all that lies below it; /* alone is everything. The longest pattern that fits a
// value decides; of two of one length the one with ?. What no pattern fits is not indexed.
// Composite has composite indexes, each of 2 to 8 paths: see docs/secondary-indexes.md.
type IndexPolicy struct {
	Include   []string          `json:"include,omitempty"`
	Exclude   []string          `json:"exclude,omitempty"`
	Composite [][]CompositePath `json:"composite,omitempty"`
}

// CompositePath is a path of a composite index: Path, such as /city, and Descending.
type CompositePath = index.CompositePath

// IndexAll returns the policy that indexes everything.
func IndexAll() IndexPolicy { return IndexPolicy(index.All()) }

// ContainerLimits bound what a container takes.
type ContainerLimits struct {
	ItemBytes             int64 `json:"item_bytes"`              // of one document; 0: 2 MiB, at most 3 MiB
	LogicalPartitionBytes int64 `json:"logical_partition_bytes"` // of the documents of one partition key, ids not counted; 0: 20 GiB
	BatchOperations       int   `json:"batch_operations"`        // of one batch or transaction; 0: 100, at most 10,000
	BatchBytes            int64 `json:"batch_bytes"`             // of the keys, ids and documents in one batch or transaction; 0: 2 MiB, at most 4 MiB
	// PartitionThroughput is the most that a physical partition may consume of
	// the throughput of the container, in RU/s, at least 1. 0: 10,000.
	PartitionThroughput float64 `json:"partition_throughput_ru_per_s"`
	// LogicalPartitionThroughput is the most that one logical partition may consume, in
	// RU/s, at least 1. 0: unlimited. See SetDefaultKeyLimits.
	LogicalPartitionThroughput float64 `json:"logical_partition_throughput_ru_per_s,omitzero"`
}

const (
	maxItemBytes        = definition.MaxItemBytes
	defaultLogicalBytes = definition.DefaultLogicalBytes
	maxPartitions       = definition.MaxPartitions
	maxContainers       = 10_000
)

// inner returns the definition as package definition has it.
func (d *ContainerDef) inner() definition.Def {
	return definition.Def{
		PartitionKey: d.PartitionKey, Synthetic: d.Synthetic.rule(), HashVersion: d.HashVersion, Kind: definition.Kind(d.Kind), Compression: segment.Compression(d.Compression),
		MinPartitions: d.MinPartitions, DefaultTTL: d.DefaultTTL, MutableTTL: d.MutableTTL, Throughput: d.Throughput, NoBurst: d.NoBurst, Replicated: d.Replicated,
		Limits: definition.Limits(d.Limits), ChangeRetention: d.ChangeRetention, Index: index.Policy(d.Index), UniqueKeys: d.UniqueKeys,
	}
}

// outer returns a definition as callers see it.
func outer(d *definition.Def) ContainerDef {
	return ContainerDef{
		PartitionKey: d.PartitionKey, Synthetic: (*SyntheticKey)(d.Synthetic), HashVersion: d.HashVersion, Kind: ContainerKind(d.Kind), Compression: Compression(d.Compression),
		MinPartitions: d.MinPartitions, DefaultTTL: d.DefaultTTL, MutableTTL: d.MutableTTL, Throughput: d.Throughput, NoBurst: d.NoBurst, Replicated: d.Replicated,
		Limits: ContainerLimits(d.Limits), ChangeRetention: d.ChangeRetention, Index: IndexPolicy(d.Index), UniqueKeys: d.UniqueKeys,
	}
}

// KeyText returns the definition of the partition key for people: its paths, or
// SyntheticKey.String.
func (d *ContainerDef) KeyText() string {
	in := d.inner()
	return in.KeyText()
}
