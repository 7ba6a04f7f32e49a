// Package transfer is the form in which the content of a physical partition goes from one
// store to another: a stream of blocks (package stream).
//
//   - a head, which describes the partition
//   - blocks of items in key-space order; each item is an operation as in a carried
//     record (package logrecord)
//   - a tail, with the number of items
//
// The stream holds the newest version of each item, whether or not it has expired.
// The claims on unique keys of each logical partition follow its items. There
// are no tombstones.
//
// # Invariants
//
//  1. A Reader gives only items within the range of the head, in order, with sequences up
//     to that of the head and keys of its hash version.
//  2. It gives io.EOF only when all items that the tail counts were read and the stream
//     has ended.
//  3. Sequences and indexes of a head that a Reader has read leave room to count on from.
//
// Package engine defines export and installation. There are no locks: a Writer or Reader is
// for one goroutine.
package transfer

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/manifest"
)

// Kinds of blocks.
const (
	HeadBlock  = 1 // JSON: Head
	ItemsBlock = 2 // operations
	TailBlock  = 3 // JSON
)

// Format is the newest format that a Writer writes and a Reader reads. FixedFormat is written
// for a container whose default time to live is fixed.
const (
	Format      = 2
	FixedFormat = 1
)

// An installed partition goes on counting from the sequence and the entry index that it
// came with, so at most half of their range may be used up.
const (
	MaxSeq   = item.MaxSeq / 2
	MaxIndex = item.MaxIndex / 2
)

// Head describes a partition.
type Head struct {
	Format int    `json:"format"`
	Kind   string `json:"kind"`
	Key    string `json:"key"`                    // definition of the partition key
	Levels int    `json:"levels"`                 // of it
	Hash   int    `json:"hash_version,omitempty"` // of it; 0: 2
	TTL    int64  `json:"default_ttl"`
	// Mutable says that the default can be changed, and that items have only times of expiry of
	// their own. Format 1 does not have it.
	Mutable bool             `json:"mutable_ttl,omitempty"`
	Unique  [][]string       `json:"unique_keys,omitempty"`
	Min     manifest.Bytes   `json:"min"` // EPK, inclusive
	Max     manifest.Bytes   `json:"max"` // EPK, exclusive
	Seq     uint64           `json:"seq"`
	At      manifest.Applied `json:"applied"` // index 0: none
}

// Past says which items of the partition have expired as of its newest entry.
func (h *Head) Past() lifetime.Past {
	if !h.Mutable || h.At.Index == 0 {
		return lifetime.Past{Expired: h.At.Time}
	}
	return h.At.TTL.Or(h.TTL).Past(h.At.Time)
}

// Suits returns why a container that would describe its partition like own cannot take this
// one, nil if it can. The error matches fault.ErrInvalid.
func (h *Head) Suits(own *Head, container string) error {
	if h.Kind == own.Kind && jsondoc.SamePaths(jsondoc.SplitPaths(h.Key), jsondoc.SplitPaths(own.Key)) && h.Levels == own.Levels && h.Hash == own.Hash && h.TTL == own.TTL && h.Mutable == own.Mutable && slices.EqualFunc(h.Unique, own.Unique, jsondoc.SamePaths) {
		return nil
	}
	return fmt.Errorf("%w: it is of a container with kind %.32s, partition key %s by version %d, default TTL of %d ms and unique keys %s; %q has %s, %s by version %d, %d ms and %v",
		fault.ErrInvalid, h.Kind, manifest.Clip(h.Key), cmp.Or(h.Hash, 2), h.TTL, manifest.Clip(fmt.Sprint(h.Unique)), container, own.Kind, own.Key, cmp.Or(own.Hash, 2), own.TTL, own.Unique)
}

// tail counts what came before it.
type tail struct {
	Items  int64 `json:"items"`
	Claims int64 `json:"claims,omitempty"`
}
