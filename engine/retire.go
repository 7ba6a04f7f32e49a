package engine

import (
	"context"

	"github.com/cleavestore/cleave/internal/memtable"
	"github.com/cleavestore/cleave/wal"
)

// retire releases partitions that were dropped or replaced: nothing is routed to them
// any more, and dropped is set. Background work in them notices that and gives up. From
// then on late readers find an empty partition. Memory, files and directories are
// released when the last reader has left.
func (db *DB) retire(parts []*partition) {
	var gone []*version
	for _, p := range parts {
		_ = p.compacting.Lock(context.Background())
		_ = p.flushing.Lock(context.Background())
		gone = append(gone, p.swap(func(version) version {
			return version{active: memtable.New(db.env.pool, p.span, 0, db.env.seed)}
		}))
		p.flushing.Unlock()
		p.compacting.Unlock()
	}
	db.work.retire(func() {
		for _, v := range gone {
			v.release(&db.env)
		}
		db.work.releaseWaiters()
		for i, p := range parts {
			db.remove("remove the directory of a former partition", gone[i].fileBytes(), func() error {
				if !p.letGoAll(gone[i]) {
					return errHeld
				}
				return removeTree(db.env.fs, p.dir)
			})
		}
	})
	db.work.reclaimIfManual()
}

// endStreams tells the log that the streams of partitions are not needed any more.
// Nothing is appended to them afterwards.
func (db *DB) endStreams(parts []*partition) {
	for _, p := range parts {
		db.log.Forget(wal.Stream(p.id))
	}
	if err := db.releaseLog(); err != nil {
		db.backgroundError("release log files", err)
	}
}
