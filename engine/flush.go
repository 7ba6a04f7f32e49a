package engine

import (
	"context"
	"slices"

	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/physical"
)

// A flush goes through these steps:
//
//  1. Wait until all writes in the oldest frozen memtable are published. In a
//     failed store they never are, and nothing is flushed.
//  2. Write the memtable to temporary files, sync them, open them again by name
//     and check every block.
//  3. Rename them, sync the directory.
//  4. Commit point: the partition's manifest names them and the flushed
//     sequence.
//  5. Readers get a version with the run in place of the memtable. When the last
//     reader of the old version has left, the memtable is released. Log files that
//     no partition needs any more are removed.
//
// A crash before 4 leaves files that no manifest names; the log still holds their
// contents. After 4 their contents no longer need the log.

// writeOldest is FlushOldest, with lsm.ErrMoved if the partition is dropped.
func (p *partition) writeOldest(ctx context.Context) error {
	db := p.db
	v, release := p.PinVersion()
	defer release()
	if len(v.Frozen) == 0 || p.Dropped.Load() {
		return nil
	}
	// Only a flush removes memtables, and a partition has one flush at a time: mem
	// stays without a guard.
	mem := v.Frozen[len(v.Frozen)-1]
	if err := p.Show(physical.Record{Seq: mem.LastSeq, Pos: mem.Last, Need: mem.Synced}); err != nil {
		return err
	}
	start := db.opts.clock()
	done, ok, err := p.Flush(ctx, v, &mem)
	if err != nil || !ok {
		return err
	}
	db.env.Reclaim.Retire(func() {
		mem.LetGo(&db.env.Env)
		db.gate.Release()
	})
	took := db.clockSince(start)
	db.times.flushes.Record(took, 1)
	db.counters.flushes.Add(1)
	db.counters.flushedBytes.Add(done.Bytes)
	notify(db, db.opts.Events.Flushed, FlushEvent{
		Container: p.c.name, Partition: p.ID, Items: done.Items, RawBytes: mem.RawBytes(), Bytes: done.Bytes, Duration: took,
	})
	return nil
}

// Flush writes every memtable to files. When it returns nil, everything that
// was acknowledged before the call is in segment files, and every applied entry is durable.
func (db *DB) Flush(ctx context.Context) error {
	call, err := db.enterWriting(ctx)
	if err != nil {
		return err
	}
	defer call.Leave()
	if err := db.eachPartition(func(p *partition) error {
		p.Freeze()
		return db.flushAll(ctx, p)
	}); err != nil {
		return err
	} else if err = db.uncertain(db.log.Sync()); err != nil { // entries without items are in the log only
		return err
	}
	db.env.Reclaim.NowIfManual()
	return db.releaseLog()
}

// flushAlone is FlushOldest for a caller without the flushing lock of the partition.
func (db *DB) flushAlone(ctx context.Context, p *partition) error {
	if err := p.Flushing.Lock(ctx); err != nil {
		return err
	}
	defer p.Flushing.Unlock()
	return p.FlushOldest(ctx)
}

// flushAll flushes what is frozen in a partition now, not what writers freeze meanwhile.
func (db *DB) flushAll(ctx context.Context, p *partition) error {
	frozen := p.Version.Load().Frozen
	if len(frozen) == 0 {
		return nil
	}
	newest := frozen[0].Table
	waits := func(f lsm.Frozen) bool { return f.Table == newest }
	for slices.ContainsFunc(p.Version.Load().Frozen, waits) && !p.Dropped.Load() {
		if err := db.flushAlone(ctx, p); err != nil {
			return err
		}
		db.gate.Flushed(nil)
	}
	if p.c.def.Replicated {
		return p.NoteEntries()
	}
	return nil
}
