package engine

import (
	"github.com/cleavestore/cleave/internal/keysizes"
	"github.com/cleavestore/cleave/internal/physical"
	"github.com/cleavestore/cleave/internal/writebatch"
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
// several versions, and differ in steps 2 to 5 (internal/writebatch). All of them do the
// rest here. A load and the expirer do 6 and 7 once for several records.

// refuse returns the error with which a write ends that step 2 to 5 have refused; nil:
// they are to be done again. If rests is not zero, the refusal depends on a version that
// readers do not see yet, or that a crash may take back: then rests, the newest record of
// the partition, is shown before.
func (p *partition) refuse(err error, rests physical.Record) error {
	switch {
	case err == writebatch.ErrAgain, err == keysizes.ErrUntested:
		return nil
	case err == wal.ErrNoFile:
		return p.db.env.MakeLogFile()
	case rests.Seq > 0:
		if showErr := p.Show(rests); showErr != nil {
			return showErr
		}
	}
	return err
}

// restsLocked returns what a refusal rests on: see refuse. early says that it depends on a
// version that readers do not see yet, sync that the write asked for a sync: what was written
// without one is synced then. The commit lock is held.
func (p *partition) restsLocked(early, sync bool) (rests physical.Record) {
	unsynced := sync && p.Commit.Lazy > p.db.log.Synced()
	if early || unsynced {
		rests = p.NewestLocked()
	}
	if unsynced {
		rests.Need = max(rests.Need, p.Commit.Lazy)
	}
	return rests
}

// lost fails the store: a version of a record that has its place in the log did not get
// into the memtable. Versions enter it even above the memory limit, as admit has bounded
// the overdraft.
func (db *DB) lost(err error) error {
	db.fail(err)
	return db.writable()
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
