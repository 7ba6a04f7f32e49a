package engine

import (
	"time"

	"github.com/cleavestore/cleave/wal"
)

// Times of maintenance.
const (
	keepEvery  = 250 * time.Millisecond // looks at the size of the log
	vouchAfter = time.Second            // without writes
	idleFlush  = 30 * time.Second       // without writes to a partition
)

// idleBytes is the size from which a memtable is flushed when its partition takes no
// more writes. Otherwise the space of deleted items would not come back.
const idleBytes = 64 << 10

// maintenance looks after the log, and after partitions that take no writes.
type maintenance struct {
	db       *DB
	position wal.Position // of the log when it was last seen to move
	moved    time.Time
	idle     map[*partition]stillness
}

type stillness struct {
	seq   uint64
	since time.Time
}

func (w *workers) maintain() {
	k := maintenance{db: w.db, moved: time.Now(), idle: make(map[*partition]stillness)}
	ticker := time.NewTicker(keepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-w.ctx.Done():
			return
		case <-w.db.log.SpareWanted():
			if err := w.db.log.MakeSpare(w.ctx); err != nil {
				w.db.backgroundError("make a spare log file", w.db.uncertain(err))
			}
		case <-ticker.C:
			if w.db.failure.Load() == nil {
				k.tick()
			}
		}
	}
}

// syncAtIntervals syncs the log where that is the durability of the store.
func (w *workers) syncAtIntervals(interval time.Duration) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-w.ctx.Done():
			return
		case <-ticker.C:
			if w.db.failure.Load() != nil {
				return
			}
			if err := w.db.log.Sync(); err != nil {
				w.db.backgroundError("sync the log", w.db.uncertain(err))
			}
		}
	}
}

func (k *maintenance) tick() {
	db := k.db
	now := time.Now()
	if err := k.vouch(now); err != nil {
		db.backgroundError("sync the log", db.uncertain(err))
		return
	}
	if !db.opts.manual {
		if err := db.holdLog(); err != nil {
			db.backgroundError("shrink the log", err)
		}
		k.flushStill(now)
		db.splitLarge(db.partitions())
		db.splitHot()
		for c := range db.containers.Load().all() {
			c.splitForThroughput()
		}
	}
	if err := db.keepMarks(); err != nil {
		db.backgroundError("mark a sequence", err)
	}
	if db.tellsExpiry() {
		signal(db.work.expiryWanted)
	}
	if db.env.HeldBack.Swap(false) || db.anyPurgeable() {
		signal(db.work.compactionWanted) // readers that held merges back may be gone, or items may have expired
	}
	if err := db.reserveSequences(); err != nil {
		db.backgroundError("reserve sequences", err)
	}
}

// vouch vouches for the last records once nothing follows them.
func (k *maintenance) vouch(now time.Time) error {
	log := k.db.log
	at := log.Appended()
	if at != k.position {
		k.position, k.moved = at, now
		return nil
	}
	if now.Sub(k.moved) < vouchAfter {
		return nil
	}
	err := log.Vouch()
	k.position = log.Appended()
	return err
}

// keptLogFiles is the number of log files past which the log is shrunk even if it is
// small: each process that is killed leaves one.
const keptLogFiles = 8

// holdLog shrinks the log to its budget. It stops at the file that was the newest
// when it began: carried records go to newer files. A log cannot be smaller than
// what memtables hold, so it is left alone until it is twice as large.
func (db *DB) holdLog() error {
	end := db.log.Newest()
	for db.work.ctx.Err() == nil && db.log.First() < end {
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

// flushStill flushes partitions that took no writes for idleFlush.
func (k *maintenance) flushStill(now time.Time) {
	for p := range k.idle {
		if p.Dropped.Load() {
			delete(k.idle, p)
		}
	}
	for _, p := range k.db.partitions() {
		if p.Version.Load().Active.Bytes() < idleBytes {
			delete(k.idle, p)
			continue
		}
		p.mu.Lock()
		seq := p.mu.lastSeq
		p.mu.Unlock()
		if was, ok := k.idle[p]; !ok || was.seq != seq {
			k.idle[p] = stillness{seq, now}
			continue
		}
		if now.Sub(k.idle[p].since) >= idleFlush {
			p.mu.Lock()
			p.freezeLocked()
			p.mu.Unlock()
			delete(k.idle, p)
			k.db.wakeFlusher()
		}
	}
}

// reserveSequences raises the limit in the store manifest before the log
// reaches it.
func (db *DB) reserveSequences() error {
	db.storeManifest.Lock()
	defer db.storeManifest.Unlock()
	last := db.log.LastSeq()
	if db.storeManifest.state.SeqLimit-last > sequenceReserve/2 {
		return nil
	}
	e := db.storeManifest.state.Edit()
	e.SeqLimit = last + sequenceReserve
	return db.storeManifestLocked(e)
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
