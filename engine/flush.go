package engine

import (
	"context"
	"time"

	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/physical"
)

// Flush writes every memtable to files, one to four partitions at a time. When it returns nil,
// everything that was acknowledged before the call is in segment files, and every applied
// entry is durable.
func (db *DB) Flush(ctx context.Context) error {
	call, err := db.enterWriting(ctx)
	if err != nil {
		return err
	}
	defer call.Leave()
	defer db.work.RewriteSoon()
	return db.flush(ctx)
}

// flush is Flush within a call that may write, which compacts then.
func (db *DB) flush(ctx context.Context) error {
	if err := db.eachPartition(ctx, func(p *partition) error {
		p.Freeze()
		return p.FlushFrozen(ctx)
	}); err != nil {
		return err
	} else if err = db.uncertain(db.log.Sync()); err != nil { // entries without items are in the log only
		return err
	}
	db.env.Reclaim.NowIfManual()
	return db.retention.Release()
}

// flushed counts a flush and sends its event.
func (db *DB) flushed(p *physical.Partition, f physical.Flushed) {
	db.times.flushes.Record(f.Took, 1)
	db.counters.flushes.Add(1)
	db.counters.flushedBytes.Add(f.Bytes)
	notify(db, db.opts.Events.Flushed, FlushEvent{
		Container: p.Family.Name, Partition: p.ID, Items: f.Items, RawBytes: f.RawBytes, Bytes: f.Bytes, Duration: f.Took,
	})
}

// compacted counts a compaction, or the rewriting of a file, and sends its event.
func (db *DB) compacted(p *physical.Partition, kind physical.Rewriting, c *lsm.Compacted, took time.Duration) {
	n := &db.counters
	count, bytes := &n.compactions, &n.compactedBytes
	switch kind {
	case physical.Trim:
		count, bytes = &n.trims, &n.trimmedBytes
	case physical.Reindex:
		count, bytes = &n.reindexes, &n.reindexedBytes
	}
	db.times.rewrites[kind].Record(took, 1)
	count.Add(1)
	bytes.Add(c.BytesOut)
	notify(db, db.opts.Events.Compacted, CompactionEvent{
		Container: p.Family.Name, Partition: p.ID, Runs: int(c.Runs), Trim: kind == physical.Trim, Reindex: kind == physical.Reindex,
		ItemsIn: c.ItemsIn, ItemsOut: c.ItemsOut, BytesIn: c.BytesIn, BytesOut: c.BytesOut, Duration: took,
	})
}
