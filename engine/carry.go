package engine

import (
	"encoding/binary"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/wal"
)

// The log holds a file until every partition in it has flushed past it. When
// the log is over its budget the partition with the oldest record gives way:
//
//   - it flushes, if its memtables are worth a file;
//   - otherwise what they hold is written to the log again, at its head, each
//     item with the sequence that it has ("carried"). Once that is durable the
//     partition needs no log file before the one that holds it.
//
// A crash before the carried records are durable finds the old files, which go
// only after that. A crash after it finds both or the carried ones: replay
// passes over a sequence that an item has already.

// needs tells from which sequence on a partition's records in a log file are
// needed: those at or below it are not.
func (p *partition) needs(file uint64) uint64 {
	flushed := p.install.flushedSeq.Load()
	if c := p.carried.Load(); c != nil && file < c.file {
		return max(flushed, c.seq)
	}
	return flushed
}

// carried says that a partition's records up to seq were written again, in the
// log file of this number or later ones.
type carried struct {
	file uint64
	seq  uint64
}

// carryBatchBytes is the size of one carried record.
const carryBatchBytes = 64 << 10

// shrinkLog makes the partition with the oldest record in the log give way. It
// reports whether it did anything.
func (db *DB) shrinkLog() (bool, error) {
	stream, ok := db.log.Oldest()
	if !ok {
		return false, nil
	}
	for _, p := range db.partitions() {
		if wal.Stream(p.id) != stream {
			continue
		}
		v := p.version.Load()
		if len(v.frozen) > 0 {
			return false, nil // its flush is on the way
		}
		if v.active.Bytes() >= smallMemtable {
			p.mu.Lock()
			p.freezeLocked()
			p.mu.Unlock()
			db.wakeFlusher()
			return true, nil
		}
		if err := p.carry(); err != errMoved {
			return true, err
		}
		return false, nil // dropped, or its flush is on the way
	}
	db.wakeFlusher() // somebody inherited it, or nobody needs it
	return false, nil
}

// carry writes what the active memtable holds to the log again.
func (p *partition) carry() error {
	end, mark, err := p.appendCarried()
	if err != nil {
		return p.db.uncertain(err)
	}
	if err := p.db.log.Wait(end, true); err != nil {
		return p.db.uncertain(err)
	}
	p.carried.Store(mark)
	return p.db.releaseLog()
}

// appendCarried appends the newest version of each item of the active
// memtable. Nothing may be frozen: it would be older than the mark.
func (p *partition) appendCarried() (end wal.Position, mark *carried, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	guard := p.db.epoch.Enter()
	defer guard.Leave()
	mark = &carried{seq: p.mu.lastSeq}
	v := p.version.Load()
	if len(v.frozen) > 0 || p.dropped.Load() {
		return 0, nil, errMoved
	}
	var batch []byte
	var highest uint64
	emit := func() error {
		if len(batch) == 0 {
			return nil
		}
		pos, file, err := p.db.log.AppendCarried(wal.Stream(p.id), highest, batch)
		if err != nil {
			return err
		}
		if mark.file == 0 {
			mark.file = file
		}
		p.db.counters.carried.Add(int64(len(batch)))
		end, batch, highest = pos, batch[:0], 0
		return nil
	}
	c := v.active.Cursor(maxSequence)
	var deleted deletedBefore
	for ok := c.First(); ok; ok = c.Next() {
		ver := c.Version()
		// What was deleted with its logical partition must not come behind the
		// tombstone: replay may have flushed that by then.
		if deleted.hides(c.Key(), ver) {
			continue
		}
		batch = appendCarried(batch, c.Key(), ver)
		highest = max(highest, ver.Seq)
		if len(batch) >= carryBatchBytes {
			if err := emit(); err != nil {
				return 0, nil, err
			}
		}
	}
	if err := emit(); err != nil {
		return 0, nil, err
	}
	p.mu.last = max(p.mu.last, end)
	p.mu.synced = max(p.mu.synced, end)
	return end, mark, nil
}

// appendCarried encodes an operation of a carried record.
func appendCarried(dst []byte, k *item.Key, v *item.Version) []byte {
	dst = binary.AppendUvarint(dst, v.Seq)
	dst = appendOperationHead(dst, k, v)
	return append(dst, v.Body...)
}
