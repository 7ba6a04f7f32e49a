package manifest

import (
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/wal"
)

// Store is the manifest of a store: its containers and the physical
// partitions that tile the key space of each, both in the order of their numbers.
type Store struct {
	Head
	Containers []Container `json:"containers"`
	Partitions []Partition `json:"partitions"`
	History    []Reshape   `json:"history,omitempty"` // the newest ones that were committed, oldest first
	Marks      []Mark      `json:"marks,omitempty"`   // rising, if a container keeps changes
}

// Head is what the manifest of a store says in a few numbers. An edit says it anew.
type Head struct {
	StoreID       ID           `json:"store_id"`
	Clean         bool         `json:"clean"` // closed in order, nothing written since
	NextContainer uint32       `json:"next_container"`
	NextPartition uint32       `json:"next_partition"`
	LastSeq       uint64       `json:"last_seq"`  // the last sequence given out when this was stored
	SeqLimit      uint64       `json:"seq_limit"` // no sequence at or above it was given out
	TimeHigh      int64        `json:"time_high"` // milliseconds: the newest time stamp that was given out, if Clean
	LogFirst      uint64       `json:"log_first"` // first log file that is needed; 0: none
	LogClosed     []wal.Closed `json:"log_closed"`
	Intents       []Intent     `json:"intents,omitempty"` // reshapes under way
}

// Mark says that at a time all sequences up to one had been given out, and none
// above it.
type Mark struct {
	Time int64  `json:"time"` // milliseconds since the Unix epoch
	Seq  uint64 `json:"seq"`
}

// MaxHistory bounds Store.History.
const MaxHistory = 256

// Reshape is a split, merge or move of a boundary that was committed. What the
// children are is in Partitions or, where they were replaced in turn, in a later
// Reshape as its parents.
type Reshape struct {
	Container uint32   `json:"container"`
	Kind      string   `json:"kind"`
	Time      int64    `json:"time"` // milliseconds since the Unix epoch
	Parents   []Former `json:"parents"`
	Children  []uint32 `json:"children"` // in key-space order
}

// Former is a physical partition that is no more.
type Former struct {
	ID  uint32 `json:"id"`
	Min Bytes  `json:"min"` // EPK, inclusive
	Max Bytes  `json:"max"` // EPK, exclusive
}

// Intent is a split, merge or move of a boundary that is not committed: the
// parents exist, of the children at most directories, which are removed at
// open. The ids of the children are used up.
type Intent struct {
	Container uint32      `json:"container"`
	Kind      string      `json:"kind"`
	Parents   []uint32    `json:"parents"`
	Children  []Partition `json:"children"`
}

// Container is a container of a store.
type Container struct {
	ID           uint32   `json:"id"`
	Name         string   `json:"name"`
	PartitionKey []string `json:"partition_key,omitempty"`
	// Synthetic derives the partition key; nil: PartitionKey names it.
	Synthetic     *Synthetic `json:"synthetic,omitempty"`
	Levels        int        `json:"levels"`                 // of the partition key
	HashVersion   int        `json:"hash_version,omitempty"` // of the partition key; 0: 2
	Kind          string     `json:"kind"`
	Compression   string     `json:"compression"`
	MaxItemBytes  int64      `json:"max_item_bytes"`
	MaxLogicalKey int64      `json:"max_logical_partition_bytes"`
	MaxBatchOps   int        `json:"max_batch_operations"`               // 0: the default
	MaxBatchBytes int64      `json:"max_batch_bytes"`                    // 0: the default
	DefaultTTL    int64      `json:"default_ttl"`                        // milliseconds; 0: items never expire, -1: those that say so
	Throughput    float64    `json:"throughput,omitempty"`               // RU/s; 0: unlimited
	MaxThroughput float64    `json:"max_partition_throughput,omitempty"` // RU/s; 0: the default
	NoBurst       bool       `json:"no_burst,omitempty"`
	Replicated    bool       `json:"replicated,omitempty"`
	// MutableTTL says that DefaultTTL can be changed: versions have times of expiry of their
	// own only, and the others go by the present default.
	MutableTTL bool   `json:"mutable_ttl,omitempty"`
	CopyOf     uint32 `json:"copy_of,omitempty"` // the container of which this is an unfinished copy; 0: it is none
	Copied     bool   `json:"copied,omitempty"`  // a copy took its place: it takes no writes
	// ChangeRetention is how long overwritten versions and tombstones are kept for
	// the change feed, in milliseconds; 0: they are not.
	ChangeRetention int64 `json:"change_retention,omitempty"`
	// Index says what is indexed; nil: nothing.
	Index *IndexPolicy `json:"index,omitempty"`
	// UniqueKeys are the paths of each unique key.
	UniqueKeys [][]string `json:"unique_keys,omitempty"`
	// MaxLogicalThroughput is what one logical partition may consume, in RU/s; 0: unlimited.
	MaxLogicalThroughput float64 `json:"max_logical_partition_throughput,omitempty"`
	// KeyLimits are the limits of single logical partitions, in the order of their keys.
	KeyLimits []KeyLimit `json:"key_limits,omitempty"`
}

// KeyLimit has limits of one logical partition.
type KeyLimit struct {
	Key        Bytes   `json:"key"`                  // encoded partition key
	Throughput float64 `json:"throughput,omitempty"` // RU/s; 0: as the others, below 0: unlimited
	Bytes      int64   `json:"bytes,omitempty"`      // of its documents; 0: as the others
}

// Bounds of the limits of single logical partitions: each takes memory and is written with
// every change of its container.
const (
	MaxKeyLimits      = 1024     // of a container
	MaxStoreKeyLimits = 16 << 10 // of all containers
	MaxKeyLimitBytes  = 4 << 20  // of the keys in all containers
)

// Synthetic says how the partition key of a container is derived.
type Synthetic struct {
	Join     []string `json:"join"`
	Suffixes int      `json:"suffixes,omitempty"`  // 0: none
	SuffixOf string   `json:"suffix_of,omitempty"` // with Suffixes, none: random
}

// IndexPolicy is the index policy of a container: see package index.
type IndexPolicy struct {
	Include []string `json:"include"`
	Exclude []string `json:"exclude,omitempty"`
	// Composite are the composite indexes: the paths of each.
	Composite [][]CompositePath `json:"composite,omitempty"`
}

// CompositePath is a path of a composite index.
type CompositePath struct {
	Path       string `json:"path"`
	Descending bool   `json:"descending,omitempty"`
}

// Partition is a physical partition: an immutable range of the key space.
type Partition struct {
	ID        uint32 `json:"id"`
	Container uint32 `json:"container"`
	Min       Bytes  `json:"min"` // EPK, inclusive
	Max       Bytes  `json:"max"` // EPK, exclusive
	// Parents are the partitions whose place it took; none if it was made with
	// its container.
	Parents []uint32 `json:"parents,omitempty"`
	// Share weighs its part of the container's throughput. All partitions of a
	// container have one, or none has: then the parts are equal.
	Share float64 `json:"share,omitempty"`
	// Absent says that the store does not have the items of the range. The partition is empty.
	Absent bool `json:"absent,omitempty"`
}

// ShareOr1 returns how its part of the container's throughput weighs.
func (p *Partition) ShareOr1() float64 {
	if p.Share > 0 {
		return p.Share
	}
	return 1
}

// Files is the manifest of a physical partition.
type Files struct {
	StoreID    ID     `json:"store_id"`
	Partition  uint32 `json:"partition"`
	FlushedSeq uint64 `json:"flushed_seq"` // every write of the partition up to it is in Runs
	Runs       []Run  `json:"runs"`        // newest first
	// Segment files of the partition that Runs does not name are left over
	// from a crash, and are removed at open, if they are in Obsolete (compacted
	// into others) or at or above Floor (never committed). Others stay.
	Obsolete []uint64 `json:"obsolete,omitempty"`
	Floor    uint64   `json:"floor"`
	// Applied is the entry of the replicated log that FlushedSeq goes up to; nil:
	// none.
	Applied *Applied `json:"applied,omitempty"`
	// Inherits are streams of the partitions whose place it took. Their records
	// within the range of the partition belong to it.
	Inherits []Inherited `json:"inherits,omitempty"`
	// ChangeFloor is the sequence above which no version was dropped, if the
	// container keeps changes: the change feed has all versions from there on.
	ChangeFloor uint64 `json:"change_floor,omitempty"`
}

// Applied is an entry of a replicated log.
type Applied struct {
	Index uint64 `json:"index"`
	Time  int64  `json:"time"` // milliseconds since the Unix epoch
	// TTL is the default time to live as of the entry, if an entry has changed it.
	TTL lifetime.Rule `json:"ttl,omitzero"`
}

// Valid says whether there can be such an entry.
func (a Applied) Valid() bool {
	return a.Index != 0 && a.Index <= item.MaxIndex && a.Time > 0 && a.Time <= item.MaxTime && a.TTL.Valid(a.Time)
}

// OrNil returns a, nil if it is the zero Applied.
func (a Applied) OrNil() *Applied {
	if a.Index == 0 {
		return nil
	}
	return &a
}

// OrZero returns what a points to, the zero Applied if it is nil.
func (a *Applied) OrZero() Applied {
	if a == nil {
		return Applied{}
	}
	return *a
}

// Inherited is a stream of the log that a partition inherits.
type Inherited struct {
	Stream     uint32 `json:"stream"`
	FlushedSeq uint64 `json:"flushed_seq"` // every record up to it is in Runs
}

// Lists reports whether a run names the file.
func (f *Files) Lists(number uint64) bool {
	for _, r := range f.Runs {
		for _, file := range r.Files {
			if file.Number == number {
				return true
			}
		}
	}
	return false
}

// Disposable reports whether a file is left over from a crash.
func (f *Files) Disposable(number uint64) bool {
	return !f.Lists(number) && (number >= f.Floor || slices.Contains(f.Obsolete, number))
}

// Leftovers returns those of the names in the directory of the partition that a crash left
// there: temporary files, and disposable segment files. Files that are made later have other
// numbers.
func (f *Files) Leftovers(names []string) (left []string) {
	for _, base := range names {
		number, isSegment := ParseSegmentName(base)
		if isSegment && f.Disposable(number) || IsTemp(base) {
			left = append(left, base)
		}
	}
	return left
}

// Run is a sorted sequence of files that do not overlap.
type Run struct {
	Shadowed int64  `json:"shadowed"` // estimate: versions in older runs that this run overwrites or deletes
	Files    []File `json:"files"`
	// Expiring estimates what of the run expires; nil: nothing.
	Expiring *Expiring `json:"expiring,omitempty"`
	// Aging estimates what of the run has no time of expiry of its own, in a container with
	// MutableTTL: First and Last are times of writing. Nothing was written before First.
	Aging *Expiring `json:"aging,omitempty"`
}

// Expiring describes items that expire.
type Expiring struct {
	Items int64 `json:"items"`
	First int64 `json:"first"` // when the first of them does, milliseconds
	Last  int64 `json:"last"`
}

// File is a reference to a segment file. Its bounds only ever shrink. A file may
// be referred to by several partitions, each with its own name for it, and by
// one several times, with bounds that do not overlap.
type File struct {
	Number    uint64 `json:"number"`
	Size      int64  `json:"size"`
	FooterCRC uint32 `json:"footer_crc"`
	Min       Bytes  `json:"min"` // EPK, inclusive
	Max       Bytes  `json:"max"` // EPK, exclusive
	// Part estimates what lies within the bounds; nil: all of the file.
	Part *Part `json:"part,omitempty"`
}

// Part is a part of a segment file.
type Part struct {
	Items    uint64 `json:"items"`     // versions
	RawBytes uint64 `json:"raw_bytes"` // of their documents
	Bytes    int64  `json:"bytes"`     // of the file
}

// Share returns a part of the part, from 0 to 1 of everything.
func (p Part) Share(share float64) *Part {
	return &Part{
		Items: uint64(float64(p.Items) * share), RawBytes: uint64(float64(p.RawBytes) * share), Bytes: int64(float64(p.Bytes) * share),
	}
}

// ID is the random identity of a store, the same in all of its files.
type ID [16]byte

// MarshalText implements encoding.TextMarshaler: hexadecimal digits.
func (id ID) MarshalText() ([]byte, error) { return Bytes(id[:]).MarshalText() }

// UnmarshalText implements encoding.TextUnmarshaler.
func (id *ID) UnmarshalText(text []byte) error {
	var b Bytes
	if err := b.UnmarshalText(text); err != nil {
		return err
	}
	if len(b) != len(id) {
		return fmt.Errorf("store id of %d bytes, not %d", len(b), len(id))
	}
	copy(id[:], b)
	return nil
}

// Bytes are written as hexadecimal digits in JSON.
type Bytes []byte

// MarshalText implements encoding.TextMarshaler.
func (b Bytes) MarshalText() ([]byte, error) {
	return hex.AppendEncode(nil, b), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (b *Bytes) UnmarshalText(text []byte) error {
	decoded, err := hex.AppendDecode(nil, text)
	if err != nil {
		return fmt.Errorf("bad hexadecimal %.32q", text)
	}
	*b = decoded
	return nil
}
