package engine

import (
	"context"
	"fmt"
	"path"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/logrecord"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/segment"
	"github.com/cleavestore/cleave/wal"
)

// replay reads the log into the memtables.
func (db *DB) replay(ctx context.Context, state *manifest.Store) (*wal.Recovery, error) {
	owners := db.streamOwners()
	fenced := make(map[wal.Stream]bool)
	var op logrecord.Operation
	st := wal.State{First: state.LogFirst, Closed: state.LogClosed}
	checked := false
	recovery, err := wal.Recover(ctx, db.env.FS, manifest.LogDir, st, db.logOptions(), func(rec *wal.Record) error {
		if rec.Seq > item.MaxSeq || rec.Last() > item.MaxSeq {
			return recordError(db, rec, fmt.Errorf("sequences %d to %d, which no store comes to", rec.Seq, rec.Last()))
		}
		if rec.Type == wal.TypeFence {
			fenced[rec.Stream] = true
		}
		if rec.Type != wal.TypeWrite && rec.Type != wal.TypeCarried {
			return nil
		}
		if fenced[rec.Stream] {
			return recordError(db, rec, fmt.Errorf("record of partition %d behind its fence", rec.Stream))
		}
		parts := owners[rec.Stream]
		if parts == nil {
			if uint32(rec.Stream) < state.NextPartition {
				return nil // dropped
			}
			return recordError(db, rec, fmt.Errorf("record of partition %d, which was never made", rec.Stream))
		}
		for _, p := range parts {
			if p.Lost != nil {
				continue // its records stay in the log
			}
			if err := p.replay(rec, &op); err != nil {
				return err
			}
		}
		// An open with the room of the reserve file flushes nothing: memtables may take as
		// much memory as the log is long.
		if db.opts.ReadOnly || db.short || db.env.Pool.Used() < db.env.Pool.Limit()/8*7 {
			return nil
		}
		if !checked {
			// Nothing is flushed before all of the log is known to be good.
			if _, err := wal.Recover(ctx, db.env.FS, manifest.LogDir, st, db.logOptions(), func(*wal.Record) error { return nil }); err != nil {
				return err
			}
			checked = true
		}
		return db.makeRoom(ctx)
	})
	if err != nil {
		return nil, err
	}
	db.dropped = recovery.Dropped
	return recovery, nil
}

// tellDropped reports the bytes and records that the log had behind its valid end.
func (db *DB) tellDropped(r *wal.Recovery) {
	if r.Dropped == (wal.Dropped{}) {
		return
	}
	db.opts.Logger.Warn("log ends in a torn record", "file", r.TornFile, "offset", r.TornOffset, "bytes", r.Dropped.Bytes, "records", r.Dropped.Records, "reason", r.TornReason)
	notify(db, db.opts.Events.LogDropped, LogDroppedEvent{
		File: r.TornFile, Offset: r.TornOffset, Reason: r.TornReason, Bytes: r.Dropped.Bytes, Records: r.Dropped.Records,
	})
}

// makeRoom flushes the largest memtables until half of the write buffers is free.
// Replay calls it when they are nearly full. The flushed sequences do not rise: carried
// records further on in the log may hold older versions that no file has. If the open
// fails, the next one reads the same log again, and versions get into two files; a
// compaction keeps one of each.
func (db *DB) makeRoom(ctx context.Context) error {
	for db.env.Pool.Used() > db.env.Pool.Limit()/2 {
		var largest *partition
		for _, p := range db.partitions() {
			if largest == nil || p.Version.Load().Active.Reserved() > largest.Version.Load().Active.Reserved() {
				largest = p
			}
		}
		if !largest.freezeLocked() {
			return nil
		}
		if err := largest.FlushOldest(ctx); err != nil {
			return err
		}
		db.env.Reclaim.Now()
	}
	return nil
}

// noteFlushed raises the flushed sequences of the partitions that makeRoom flushed. It is
// called when the whole log was read.
func (db *DB) noteFlushed(ctx context.Context) error {
	for _, p := range db.partitions() {
		if !p.Install.Behind {
			continue
		}
		p.Install.Behind = false
		if p.freezeLocked() {
			if err := p.FlushOldest(ctx); err != nil {
				return err
			}
			continue
		}
		if err := p.StoreFiles(p.Version.Load().Runs, p.mu.lastSeq, p.mu.applied, nil); err != nil {
			return err
		}
	}
	db.env.Reclaim.Now()
	return nil
}

// recordError reports a log record that does not make sense.
func recordError(db *DB, rec *wal.Record, err error) error {
	return fault.Corrupt(db.env.FS.Path(path.Join(manifest.LogDir, wal.FileName(rec.File))), rec.Offset, "%w", err)
}

// replay applies a log record to the memtable. Operations that the partition already
// has, in files or from another record, are skipped by their sequence.
func (p *partition) replay(rec *wal.Record, op *logrecord.Operation) error {
	carried := rec.Type == wal.TypeCarried
	own := rec.Stream == wal.Stream(p.ID)
	flushed := p.FlushedOf(rec.Stream)
	rest := rec.Payload
	for i := 0; len(rest) > 0; i++ {
		var err error
		if rest, err = logrecord.Decode(rest, carried, op); err != nil {
			return recordError(p.db, rec, fmt.Errorf("operation %d: %w", i, err))
		}
		if !carried {
			op.Version.Seq = rec.Seq + uint64(i)
		}
		if op.Version.Seq <= flushed {
			continue
		}
		if op.At.Index != 0 {
			p.replayMark(rec.Seq, op.At)
			continue
		}
		if !p.Range.Contains(&op.EPK) {
			if !own {
				continue // another partition inherits the operation, or has flushed it
			}
			return recordError(p.db, rec, fmt.Errorf("operation %d: key %x lies outside of partition %d", i, op.Key.EPK, p.ID))
		}
		if op.EPK.Levels() != p.c.levels() || len(op.Version.Body) > segment.MaxBody {
			return recordError(p.db, rec, fmt.Errorf("operation %d: no file of partition %d takes %d bytes with a key of %d levels", i, p.ID, len(op.Version.Body), op.EPK.Levels()))
		}
		// In the log a carried version may come behind newer versions of its item, which
		// makeRoom has flushed.
		if carried && p.Install.Behind {
			if err := p.restoreNewest(op); err != nil {
				return err
			}
		}
		if err := p.Version.Load().Active.Restore(&op.Key, &op.Version); err != nil {
			return err
		}
		p.mu.lastSeq = max(p.mu.lastSeq, op.Version.Seq)
		p.Visible.Store(max(p.Visible.Load(), op.Version.Seq))
		p.foundStamp(op.Version.Modified)
	}
	return nil
}

// restoreNewest copies a newer version of op's item, which replay has flushed, back into
// the memtable: a memtable must not have older versions of a key than the files
// below it. A crash in the middle of carrying may have left only the older version in
// the log behind the newer one.
func (p *partition) restoreNewest(op *logrecord.Operation) error {
	guard := p.db.env.Epoch.Enter()
	defer guard.Leave()
	v := p.Version.Load()
	var newest item.Version
	// The lookup meets the files of this replay first, and damage only in files behind
	// them. Those were flushed before; if they have a newer version, the log has it too.
	body, found, err := v.Lookup(&op.Key, &op.EPK, lsm.MaxSequence, nil, false, &newest)
	if err != nil || !found || newest.Seq <= op.Version.Seq {
		return nil
	}
	newest.Body = body
	key := op.Key
	if deleted, err := v.PartitionTombstone(&op.Key, lsm.MaxSequence); err == nil && deleted == newest.Seq {
		key = key.Partition()
	}
	return v.Active.Restore(&key, &newest)
}
