package engine

import (
	"context"

	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/wal"
)

// endInheritance flushes the inherited memtables of a partition, until it inherits
// nothing any more.
func (db *DB) endInheritance(ctx context.Context, p *partition) error {
	return p.EndInheritance(func() error { return db.flushAlone(ctx, p) })
}

// streamOwners maps the streams of the log to the partitions that need them.
type streamOwners map[wal.Stream][]*partition

func (db *DB) streamOwners() streamOwners {
	owners := make(streamOwners)
	for _, p := range db.partitions() {
		owners[wal.Stream(p.ID)] = append(owners[wal.Stream(p.ID)], p)
		for _, in := range p.Inherited() {
			owners[wal.Stream(in.Stream)] = append(owners[wal.Stream(in.Stream)], p)
		}
	}
	return owners
}

// done returns a sequence: the records of a stream in a log file that are at or
// below it are no longer needed.
func (o streamOwners) done(s wal.Stream, file uint64) uint64 {
	least := uint64(lsm.MaxSequence)
	for _, p := range o[s] {
		if wal.Stream(p.ID) == s {
			least = min(least, p.Needs(file))
			continue
		}
		for _, in := range p.Inherited() {
			if wal.Stream(in.Stream) == s {
				least = min(least, in.FlushedSeq)
			}
		}
	}
	return least
}
