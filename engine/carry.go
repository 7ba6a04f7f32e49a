package engine

import (
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/wal"
)

// The log keeps a file until every partition with records in it has flushed them. When
// the log is over its budget, the partition with the oldest record gives way:
//
//   - It flushes, if its memtables are worth a file.
//   - Otherwise the versions in its memtables are written to the log again, at its head,
//     each with the sequence that it has ("carried"). Once they are durable, the
//     partition needs no log file before the one with the first of them.
//
// A crash before the carried records are durable finds the old files: they are removed
// only after that. A crash later finds both, or only the carried records. Replay skips a
// sequence that an item already has.

// keptLogFiles is the number of log files past which the log is shrunk even if it is
// small: each process that is killed leaves one.
const keptLogFiles = 8

// holdLog shrinks the log to its budget. It stops at the file that was the newest
// when it began: carried records go to newer files. A log cannot be smaller than
// what memtables hold, so it is left alone until it is twice as large.
func (db *DB) holdLog() error {
	end := db.log.Newest()
	for db.work.Context().Err() == nil && db.log.First() < end {
		log := db.log.Stats()
		if log.Files <= keptLogFiles && (log.Bytes <= db.opts.LogBytes || log.Bytes <= 2*db.tableBytes()) {
			return nil
		}
		more, err := db.shrinkLog()
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// releaseLog removes log files that no partition needs. Before that, the store
// manifest names the first needed file, so that Open can tell a missing file from a
// removed one.
func (db *DB) releaseLog() error {
	owners := db.streamOwners()
	first := db.log.FirstNeeded(func(s wal.Stream, file uint64) uint64 {
		if owners[s] == nil {
			owners = db.streamOwners() // a new partition? It is listed before its first record.
		}
		return owners.done(s, file) // lsm.MaxSequence if no partition needs the stream
	})
	db.storeManifest.Lock()
	defer db.storeManifest.Unlock()
	if first <= db.storeManifest.state.LogFirst {
		return nil
	}
	e := db.storeManifest.state.Edit()
	e.LogFirst = first
	e.LogClosed = dropClosed(e.LogClosed, first)
	if err := db.storeManifestLocked(e); err != nil {
		return err
	}
	return db.log.Drop(first)
}

// shrinkLog makes the partition with the oldest record in the log give way. It
// reports whether it did anything.
func (db *DB) shrinkLog() (bool, error) {
	stream, ok := db.log.Oldest()
	if !ok {
		return false, nil
	}
	for _, p := range db.partitions() {
		if wal.Stream(p.ID) != stream {
			continue
		}
		if p.Lost != nil {
			return false, nil // its records stay in the log
		}
		v := p.Version.Load()
		if len(v.Frozen) > 0 {
			return false, nil // its flush is on the way
		}
		if v.Active.Bytes() >= smallMemtable {
			p.Freeze()
			db.work.FlushSoon()
			return true, nil
		}
		if err := p.carry(); err != lsm.ErrMoved {
			return true, err
		}
		return false, nil // dropped, or its flush is on the way
	}
	db.work.FlushSoon() // a partition inherited the stream, or none needs it
	return false, nil
}

// carry writes the contents of the active memtable to the log again, and releases what the
// log had of them.
func (p *partition) carry() error {
	if err := p.Carry(); err != nil {
		return err
	}
	return p.db.releaseLog()
}
