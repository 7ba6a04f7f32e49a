package engine

import (
	"context"
	"fmt"
	"iter"

	"github.com/cleavestore/cleave/internal/tour"
	"github.com/cleavestore/cleave/partmap"
)

// LogicalPartition describes a logical partition, from the tables of files and from
// memtables. Overwritten and deleted versions count until a compaction drops them. So
// Versions and Bytes are upper bounds; they are exact where PartitionStats.Exact
// says so. A LogicalPartition is valid until the next iteration of the loop.
type LogicalPartition struct {
	Partition PartitionID
	Place     uint64 // first 8 bytes of its effective partition key, big-endian
	Versions  int64
	Bytes     int64 // of the versions' documents

	found *tour.Logical
}

// Key returns the partition key. It may have to read an item. The key is safe to
// keep.
func (l *LogicalPartition) Key() (PartitionKey, error) { return l.found.Key() }

// LogicalPartitions returns the logical partitions of the container in key-space
// order. Time and device reads are in proportion to their number: it reads no documents, or,
// with HashVersion 1, one for each key that several files or memtables hold. It shows each
// physical partition as it was when the loop reached it. With HashVersion 2, two keys whose EPKs
// differ only in the last 8 bytes may be shown as one. An error comes last, as a pair.
func (c *Container) LogicalPartitions(ctx context.Context) iter.Seq2[LogicalPartition, error] {
	return c.LogicalPartitionsFrom(ctx, "")
}

// LogicalPartitionsFrom is LogicalPartitions from a place of the key space on: an
// effective partition key in hexadecimal digits, as PartitionStats gives them. What lies
// before it costs next to nothing. ErrInvalid for other texts.
func (c *Container) LogicalPartitionsFrom(ctx context.Context, from string) iter.Seq2[LogicalPartition, error] {
	return func(yield func(LogicalPartition, error) bool) {
		at, err := partmap.ParseEPK(from)
		if err != nil {
			yield(LogicalPartition{}, fmt.Errorf("%w: place in the key space: %w", ErrInvalid, err))
			return
		}
		state, loop, err := c.beginLoop(nil)
		if err != nil {
			yield(LogicalPartition{}, err)
			return
		}
		defer loop.Leave()
		err = tour.LogicalPartitions(ctx, state.host(), at, func(l *tour.Logical) bool {
			return yield(LogicalPartition{Partition: l.Partition, Place: l.Place, Versions: l.Versions, Bytes: l.Bytes, found: l}, nil)
		})
		if err != nil {
			yield(LogicalPartition{}, err)
		}
	}
}
