package engine

import (
	"context"

	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/replay"
	"github.com/cleavestore/cleave/wal"
)

// replay reads the log into the memtables.
func (db *DB) replay(ctx context.Context, state *manifest.Store) (*wal.Recovery, error) {
	owners := make(map[wal.Stream][]replay.Partition)
	for stream, parts := range db.streamOwners() {
		for _, p := range parts {
			owners[stream] = append(owners[stream], p)
		}
	}
	r := replay.Replay{FS: db.env.FS, Owners: func(s wal.Stream) []replay.Partition { return owners[s] }, Made: state.NextPartition}
	st := wal.State{First: state.LogFirst, Closed: state.LogClosed}
	checked := false
	recovery, err := wal.Recover(ctx, db.env.FS, manifest.LogDir, st, db.logOptions(), func(rec *wal.Record) error {
		if err := r.Take(rec); err != nil {
			return err
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
		if !largest.FreezeLocked() {
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
		if p.FreezeLocked() {
			if err := p.FlushOldest(ctx); err != nil {
				return err
			}
			continue
		}
		if err := p.StoreFiles(p.Version.Load().Runs, p.Commit.LastSeq, p.Commit.Applied, nil); err != nil {
			return err
		}
	}
	db.env.Reclaim.Now()
	return nil
}
