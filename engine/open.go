package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/wal"
)

// Opening for writing goes through these steps. Until step 6 nothing that a
// manifest names is changed.
//
//  1. Take the lock; load the store manifest (or make a new store).
//  2. Load the manifest of each partition and open its files. What cannot be read is
//     set aside (aside.go).
//  3. Make durable what was found by its name: see settleNames. Sync the log
//     files whose length is not noted and drop their pages, so that what step 4
//     reads is on the device: pages left by a failed sync are readable and not on
//     disk.
//  4. Replay the log into memtables, records up to a partition's flushed
//     sequence excepted. Damage before the synced-up-to mark ends the open. If
//     the memtables get full and must be flushed, the log is first read through
//     to its end, so that an open that fails has flushed nothing.
//  5. Note the valid length of the old log files, "not clean", and a new
//     sequence limit in the store manifest, and no intent of a reshape any more.
//     Commit point of the recovery: run before it, recovery finds the same again.
//  6. Start a new log file. Remove temporary files and the directories of
//     partitions that the manifest does not list.
//
// If the disk is full, Open removes the reserve file and begins anew, once.
func (db *DB) open(ctx context.Context) error {
	if err := db.openRoot(); err != nil {
		return err
	}
	var err error
	note := fmt.Sprintf("pid %d", os.Getpid())
	if db.lock, err = db.fs.Lock(manifest.LockName, note); err != nil {
		if errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission) {
			return fmt.Errorf("%w: what cannot be written is opened with Options.ReadOnly", err)
		}
		return err
	}
	db.bearing = !db.opts.RefuseDamaged
	db.structure.dir = manifest.NewDir(db.fs, ".", manifest.StoreKind)
	if db.opts.foldBytes > 0 {
		db.structure.dir.FoldFrom(db.opts.foldBytes)
	}
	latest, err := db.structure.dir.Latest()
	if err != nil {
		return err
	}
	if latest == 0 {
		if err = db.makeStore(); err != nil {
			return err
		}
	} else if err = db.structure.dir.Load(&db.structure.state); err != nil {
		return err
	}
	state := &db.structure.state
	db.id = state.StoreID
	db.marks.open(state.Marks, db.markMillis())
	if err = db.openPartitions(ctx, state); err != nil {
		return err
	}
	if err = db.settleNames(ctx, state); err != nil {
		return err
	}
	logState := wal.State{First: state.LogFirst, Closed: state.LogClosed}
	if err = wal.Settle(db.fs, manifest.LogDir, logState); err != nil {
		return err
	}
	db.replaying = true
	recovery, err := db.replay(ctx, state)
	db.replaying = false
	if err != nil {
		return err
	}
	if err = db.noteFlushed(ctx); err != nil {
		return err
	}
	nextSeq := state.SeqLimit
	if state.Clean {
		nextSeq = state.LastSeq + 1
	}
	nextSeq = max(nextSeq, recovery.LastSeq+1, 1)
	if err = db.checkSequences(nextSeq); err != nil {
		return err
	}
	if nextSeq > item.MaxSeq-sequenceReserve {
		return fmt.Errorf("the store has come to sequence %d: %w", nextSeq, errNoSequences)
	}
	e := state.Edit()
	e.Clean, e.Intents = false, nil
	e.SeqLimit = nextSeq + sequenceReserve
	e.LogFirst, e.LogClosed = firstOf(recovery), recovery.Closed
	if err = db.structure.dir.Edit(state, e); err != nil {
		return err
	}
	db.stamps.found(state.TimeHigh)
	if db.log, err = wal.Create(db.fs, manifest.LogDir, recovery, nextSeq, db.logOptions()); err != nil {
		return err
	}
	db.tellDropped(recovery)
	if err := db.sweep(); err != nil {
		return err
	}
	if err := db.holdLog(); err != nil {
		return err
	}
	for c := range db.containers.Load().all() {
		c.divide()
	}
	if !db.short {
		db.keepReserve()
	}
	db.work.start(db)
	return nil
}

// settleNames makes durable the manifests of partitions and the names of their
// files. A process that was killed between the rename of a manifest and the sync
// of its directory leaves a manifest that is found and not durable. For its sake
// the log is let go and merged files are removed: a power cut that took it away
// would leave neither. The other names that an open relies on are durable when
// it does: a partition's directory before the store manifest names it, a log
// file's by wal.Settle, the store manifest's by that of the next generation. After
// a clean close all are.
func (db *DB) settleNames(ctx context.Context, state *manifest.Store) error {
	if state.Clean {
		return nil
	}
	_, err := atOnce(ctx, db.opts.atOnce, len(state.Partitions), func(i int) error {
		err := db.fs.SyncDir(manifest.PartitionDir(state.Partitions[i].ID))
		if db.bearing && errors.Is(err, ErrMissing) {
			return nil // one without its directory is set aside
		}
		return err
	})
	return err
}

// checkSequences makes sure that what is written next is newer than all that is
// there, whatever the store manifest says.
func (db *DB) checkSequences(next uint64) error {
	for _, p := range db.partitions() {
		if p.c.def.Replicated {
			continue // it has its own
		}
		highest := p.install.flushedSeq.Load()
		for _, r := range p.version.Load().runs {
			for _, f := range r.files {
				if f.Broken() == nil { // else what it holds is not known
					highest = max(highest, f.Properties().MaxSeq)
				}
			}
		}
		if highest >= next {
			return fault.Corrupt(db.fs.Path(manifest.Name(db.structure.dir.Generation())), 0, "partition %d has sequence %d, the store goes on from %d", p.id, highest, next)
		}
	}
	return nil
}

func firstOf(r *wal.Recovery) uint64 {
	if len(r.Closed) == 0 {
		return r.NextFile
	}
	return r.Closed[0].File
}

func (db *DB) logOptions() wal.Options {
	o := wal.Options{MaxFileBytes: db.opts.LogFileBytes, Unsettled: db.opts.ReadOnly, StoreID: db.id, RandomID: db.opts.random}
	if db.short {
		o.FirstFileBytes = 1 // as small as it can be
	}
	return o
}
