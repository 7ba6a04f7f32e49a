package engine

import (
	"context"

	"github.com/cleavestore/cleave/internal/logretention"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/replay"
	"github.com/cleavestore/cleave/wal"
)

// replay reads the log into the memtables.
func (db *DB) replay(ctx context.Context, state *manifest.Store) (*wal.Recovery, error) {
	owners := make(map[wal.Stream][]replay.Partition)
	for stream, parts := range logretention.OwnersOf(physicals(db.partitions())) {
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
			// A kill leaves names of manifests that are not durable. The next open must not
			// take them for those of a clean close: see syncNames.
			if state.Clean {
				e := state.Edit()
				e.Clean = false
				if err := db.storeManifest.dir.Edit(state, e); err != nil {
					return err
				}
			}
			checked = true
		}
		return db.env.MakeRoom(ctx, physicals(db.partitions()), db.opts.atOnce)
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
