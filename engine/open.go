package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/cleavestore/cleave/internal/atonce"
	"github.com/cleavestore/cleave/internal/census"
	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/storedir"
	"github.com/cleavestore/cleave/internal/writebatch"
	"github.com/cleavestore/cleave/wal"
)

// Opening for writing goes through these steps. Until step 6 nothing that a
// manifest names is changed.
//
//  1. Take the lock; load the store manifest (or make a new store).
//  2. Load the manifest of each partition and open its files. Manifests and files that
//     cannot be read are set aside (lsm/aside.go).
//  3. Make the names durable that steps 1 and 2 found: see syncNames. Sync the log
//     files whose length is not noted and drop their pages, so that step 4 reads
//     only data on the device: pages left by a failed sync are readable and not on
//     disk.
//  4. Replay the log into memtables, except for records up to a partition's flushed
//     sequence. Damage before the synced-up-to mark ends the open. If
//     the memtables get full and must be flushed, without an index (reindex.go), the log
//     is first read through to its end, so that an open that fails has flushed nothing, and
//     "not clean" is stored, so that the next open makes the names of the flush durable.
//  5. Store in the store manifest the valid length of the old log files, "not
//     clean", a new sequence limit, and no intent of a reshape.
//     Commit point of the recovery: after a crash before it, recovery starts from
//     the same state.
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
	if db.lock, err = db.env.FS.Lock(manifest.LockName, note); err != nil {
		if errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission) {
			return fmt.Errorf("%w: what cannot be written is opened with Options.ReadOnly", err)
		}
		return err
	}
	db.bearing = !db.opts.RefuseDamaged
	db.storeManifest.dir = manifest.NewDir(db.env.FS, ".", manifest.StoreKind)
	if db.opts.foldBytes > 0 {
		db.storeManifest.dir.FoldFrom(db.opts.foldBytes)
	}
	latest, err := db.storeManifest.dir.Latest()
	if err != nil {
		return err
	}
	if latest == 0 {
		db.storeManifest.state, err = storedir.Make(db.env.FS, db.storeManifest.dir, manifest.NewID(db.opts.random))
		if err != nil {
			return err
		}
	} else if err = db.storeManifest.dir.Load(&db.storeManifest.state); err != nil {
		return err
	}
	state := &db.storeManifest.state
	db.env.StoreID = state.StoreID
	db.marks.Open(state.Marks, db.steadyMillis())
	if err = db.openPartitions(ctx, state); err != nil {
		return err
	}
	if err = db.syncNames(ctx, state); err != nil {
		return err
	}
	logState := wal.State{First: state.LogFirst, Closed: state.LogClosed}
	if err = wal.PrepareRecovery(db.env.FS, manifest.LogDir, logState); err != nil {
		return err
	}
	db.env.Opening, db.env.Replaying = true, true
	recovery, err := db.replay(ctx, state)
	db.env.Replaying = false
	if err == nil {
		err = db.env.NoteFlushed(ctx, physicals(db.partitions()), db.opts.atOnce)
	}
	if db.env.Opening = false; err != nil {
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
		return fmt.Errorf("the store has come to sequence %d: %w", nextSeq, writebatch.ErrNoSequences)
	}
	e := state.Edit()
	e.Clean, e.Intents = false, nil
	db.foundSeq = nextSeq - 1
	e.LastSeq, e.SeqLimit = db.foundSeq, nextSeq+sequenceReserve
	e.LogFirst, e.LogClosed = recovery.Begins(), recovery.Closed
	if err = db.storeManifest.dir.Edit(state, e); err != nil {
		return err
	}
	db.foundAtOpen(state.TimeHigh)
	if db.log, err = wal.Create(db.env.FS, manifest.LogDir, recovery, nextSeq, db.logOptions()); err != nil {
		return err
	}
	db.env.Log = db.log
	db.tellDropped(recovery)
	if err := db.sweep(); err != nil {
		return err
	}
	if err := db.retention.Hold(); err != nil {
		if db.writable() != nil {
			return err
		}
		db.backgroundError("shrink the log", err) // it is tried again later
	}
	for c := range db.containers.Load().Values() {
		c.divide()
	}
	if db.unreserved.Store(db.short); !db.short {
		db.keepReserve()
	}
	db.startWork()
	return nil
}

// syncNames makes durable the manifests of partitions and the names of their
// files. A process that was killed between the rename of a manifest and the sync
// of its directory leaves a manifest that this open finds, but that is not durable.
// Relying on it, the engine releases log files and removes files that compactions replaced: a power cut
// that then took the manifest away would lose their data. Other steps make the
// remaining names durable: a partition's directory is synced before the store
// manifest names it, log files by wal.PrepareRecovery, and the store manifest's own name when
// the next generation is stored. After a clean close all names are durable, and an open
// writes no manifest of a partition before it has stored that the store is not clean.
func (db *DB) syncNames(ctx context.Context, state *manifest.Store) error {
	if state.Clean {
		return nil
	}
	_, err := atonce.Do(ctx, db.opts.atOnce, len(state.Partitions), func(i int) error {
		err := db.env.FS.SyncDir(manifest.PartitionDir(state.Partitions[i].ID))
		if db.bearing && errors.Is(err, ErrMissing) {
			return nil // a partition without its directory is set aside
		}
		return err
	})
	return err
}

// checkSequences returns an error unless next is above all sequences of the
// partitions and their files, whatever the store manifest says.
func (db *DB) checkSequences(next uint64) error {
	for _, p := range db.partitions() {
		if p.c.def.Replicated {
			continue // replicated containers have sequences of their own
		}
		highest := max(p.Install.FlushedSeq.Load(), census.FileSeq(p.Version.Load()))
		if highest >= next {
			return fault.Corrupt(db.env.FS.Path(manifest.Name(db.storeManifest.dir.Generation())), 0, "partition %d has sequence %d, the store goes on from %d", p.ID, highest, next)
		}
	}
	return nil
}

func (db *DB) logOptions() wal.Options {
	o := wal.Options{MaxFileBytes: db.opts.LogFileBytes, Unsettled: db.opts.ReadOnly, StoreID: db.env.StoreID, RandomID: db.opts.random}
	if db.short {
		o.FirstFileBytes = 1 // the least that the log allows
	}
	return o
}
