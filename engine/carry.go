package engine

import (
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/logrecord"
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

// needs returns the sequence up to which a partition's records in a log file are not
// needed; later records are.
func (p *partition) needs(file uint64) uint64 {
	flushed := p.Install.FlushedSeq.Load()
	if c := p.carried.Load(); c != nil && file < c.file {
		return max(flushed, c.seq)
	}
	return flushed
}

// carried says that a partition's records up to seq were written again, in log file
// number file or later ones.
type carried struct {
	file uint64
	seq  uint64
}

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

// carry writes the contents of the active memtable to the log again.
func (p *partition) carry() error {
	var c carrying
	err := p.appendCarried(&c)
	for err == wal.ErrNoFile { // this ends, as each new file takes at least one record
		if err = p.db.makeLogFile(); err == nil {
			err = p.appendCarried(&c)
		}
	}
	if err != nil {
		return p.db.uncertain(err)
	}
	if err := p.db.log.Wait(c.end, true); err != nil {
		return p.db.uncertain(err)
	}
	p.carried.Store(&c.mark)
	return p.db.releaseLog()
}

// carrying says how far a partition has been carried.
type carrying struct {
	after  uint64 // versions up to this sequence were appended, as far as they were needed
	marked bool   // the mark with the applied entry was appended
	end    wal.Position
	mark   carried
}

// appendCarried appends the versions of the active memtable in the order of sequences,
// and goes on where an earlier call stopped. Of each item it appends the newest version,
// unless that was deleted with its logical partition; if the container keeps changes, it
// appends all versions. No memtable may be frozen: its versions are at or below the mark,
// and would not be carried.
func (p *partition) appendCarried(c *carrying) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	guard := p.db.env.Epoch.Enter()
	defer guard.Leave()
	c.mark.seq = p.mu.lastSeq
	v := p.Version.Load()
	if len(v.Frozen) > 0 || p.Dropped.Load() {
		return lsm.ErrMoved
	}
	batch := logrecord.CarriedBatch{Emit: func(highest uint64, payload []byte) error {
		pos, file, err := p.db.log.AppendCarriedNow(wal.Stream(p.ID), highest, payload)
		if err != nil {
			return err
		}
		if c.mark.file == 0 {
			c.mark.file = file
		}
		p.db.counters.carried.Add(int64(len(payload)))
		c.end = pos
		return nil
	}}
	if p.mu.applied.Index != 0 && !c.marked {
		if err := batch.Mark(p.mu.lastSeq, p.mu.applied); err != nil {
			return err
		}
		c.marked = true
	}
	emit := batch.Emit
	batch.Emit = func(highest uint64, payload []byte) error {
		err := emit(highest, payload)
		if err == nil {
			c.after = highest
		}
		return err
	}
	var k item.Key
	var ver, newest item.Version
	for _, ref := range v.Active.InOrder(c.after, lsm.MaxSequence) {
		v.Active.Borrow(ref.Ref, &k, &ver)
		if p.c.def.ChangeRetention == 0 && lsm.GetFromTable(v.Active, k.Lookup(), lsm.MaxSequence, &newest) && newest.Seq != ver.Seq {
			continue
		}
		if err := batch.Add(&k, &ver); err != nil {
			return err
		}
	}
	if err := batch.Flush(); err != nil {
		return err
	}
	p.mu.last = max(p.mu.last, c.end)
	p.mu.synced = max(p.mu.synced, c.end)
	return nil
}
