package engine

import (
	"errors"

	"github.com/cleavestore/cleave/internal/memtable"
	"github.com/cleavestore/cleave/wal"
)

// A write goes through these steps:
//
//  1. The document is scanned once; id and partition key come from that scan.
//  2. What the write demands of the present version (absent, present, etag) is
//     looked up without a lock.
//  3. Under the partition's commit lock the memtables are asked again,
//     versions that are not published yet included. If the set of files
//     changed since step 2, step 2 is repeated.
//  4. The record is appended to the log's buffer, which gives the sequence.
//  5. The version is put into the memtable, unpublished; the lock is released.
//  6. The record is written, and synced if the write asks for it. A buffered
//     write behind a synced one of its partition waits for that one's sync.
//  7. The partition's visible sequence rises to the write's.
//
// Commit point: the record is durable (6). A crash before it loses the write,
// which no reader saw; a crash after it finds the record at recovery. If 6 fails
// the store has failed: 7 never happens, and the memtable is never flushed.
//
// A single write is the short case: one version (write.go). A batch and a transaction
// (commitbatch.go) and an entry of a replicated log (apply.go) have one record with
// several versions, and differ in steps 2 to 5. All of them do the rest here. A load and
// the expirer do 6 and 7 once for several records.

// record is a record of the log whose versions are in the memtable.
type record struct {
	seq  uint64       // of its last version
	pos  wal.Position // its end in the log
	need wal.Position // the log must be synced up to there before the record is shown
}

// show does steps 6 and 7.
func (p *partition) show(w record) error {
	if err := p.db.await(w.pos, w.need); err != nil {
		return err
	}
	return p.publish(w.seq)
}

// await waits until the log is written up to pos, and synced up to need.
func (db *DB) await(pos, need wal.Position) error {
	if need < pos {
		if err := db.log.Wait(pos, false); err != nil {
			return db.uncertain(err)
		}
	}
	if need > 0 {
		if err := db.log.Wait(need, true); err != nil {
			return db.uncertain(err)
		}
	}
	return nil
}

// errFilesChanged says that what was looked up in step 2 may not be true any more.
var errFilesChanged = errors.New("set of files changed")

// refuse returns the error with which a write ends that step 2 to 5 have refused; nil:
// they are to be done again. If rests is not zero, the refusal depends on a version that
// readers do not see yet and that a crash may take back: then rests, the newest record of
// the partition, is shown before.
func (p *partition) refuse(err error, rests record) error {
	switch {
	case err == errFilesChanged:
		return nil
	case err == wal.ErrNoFile:
		return p.db.makeLogFile()
	case rests.seq > 0:
		if showErr := p.show(rests); showErr != nil {
			return showErr
		}
	}
	return err
}

// makeLogFile makes the log file that an append under a commit lock found missing.
func (db *DB) makeLogFile() error { return db.uncertain(db.log.MakeFile()) }

// lost fails the store: a version of a record that has its place in the log did not get
// into the memtable. Versions enter it even above the memory limit, as admit has bounded
// the overdraft.
func (db *DB) lost(err error) error {
	db.fail(err)
	return db.writable()
}

// noteLocked notes a record whose versions are in the memtable; seq is the last one's
// sequence, pos the record's end in the log. The commit lock is held.
func (p *partition) noteLocked(active *memtable.Table, seq uint64, pos wal.Position, sync bool) record {
	p.mu.last, p.mu.lastSeq = pos, seq
	if sync || p.mu.allSynced {
		p.mu.synced = pos
	} else {
		p.mu.lazy = pos
	}
	if active.Bytes() >= p.db.opts.memtableBytes {
		p.freezeLocked()
		p.db.work.FlushSoon()
	} else if n := active.Reserved(); n != p.mu.reserved {
		// Other processors write to the cache lines that ripe reads: do not ask for
		// every record.
		if p.mu.reserved = n; p.db.gate.Ripe() && p.db.work.MayFlush() {
			p.db.work.FlushSoon()
		}
	}
	return p.newestLocked()
}

// newestLocked returns the newest record of the partition. The commit lock is held.
func (p *partition) newestLocked() record {
	return record{seq: p.mu.lastSeq, pos: p.mu.last, need: p.mu.synced}
}

// syncs says whether a write with this durability, or the store's default, waits
// for a sync.
func (db *DB) syncs(d Durability) (bool, error) {
	switch d.mode {
	case durabilityDefault:
		return db.opts.Durability.mode == durabilitySynced, nil
	case durabilityInterval:
		return false, invalidf("Durability: interval is a store option")
	}
	return d.mode == durabilitySynced, nil
}
