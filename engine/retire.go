package engine

import (
	"context"

	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/memtable"
	"github.com/cleavestore/cleave/wal"
)

// retire releases partitions that were dropped or replaced: nothing is routed to them
// any more, and dropped is set. Background work in them notices that and gives up. From
// then on late readers find an empty partition. Memory, files and directories are
// released when the last reader has left.
func (db *DB) retire(parts []*partition) {
	var gone []*lsm.Version
	for _, p := range parts {
		_ = p.Compacting.Lock(context.Background())
		_ = p.Flushing.Lock(context.Background())
		gone = append(gone, p.Swap(func(lsm.Version) lsm.Version {
			return lsm.Version{Active: memtable.New(db.env.Pool, p.Span, 0, db.env.Seed)}
		}))
		p.Flushing.Unlock()
		p.Compacting.Unlock()
	}
	db.work.retire(func() {
		for _, v := range gone {
			v.Release(&db.env)
		}
		db.work.releaseWaiters()
		for i, p := range parts {
			db.remove("remove the directory of a former partition", gone[i].FileBytes(), func() error {
				if !p.LetGoAll(gone[i]) {
					return lsm.ErrHeld
				}
				return removeTree(db.env.FS, p.Dir)
			})
		}
	})
	db.work.reclaimIfManual()
}

// endStreams tells the log that the streams of partitions are not needed any more.
// Nothing is appended to them afterwards.
func (db *DB) endStreams(parts []*partition) {
	for _, p := range parts {
		db.log.Forget(wal.Stream(p.ID))
	}
	if err := db.releaseLog(); err != nil {
		db.backgroundError("release log files", err)
	}
}
