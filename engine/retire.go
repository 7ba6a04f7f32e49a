package engine

import (
	"context"

	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/memtable"
	"github.com/cleavestore/cleave/internal/reclaim"
	"github.com/cleavestore/cleave/internal/storedir"
	"github.com/cleavestore/cleave/wal"
)

// A physical partition that was in use, and was dropped with its container or replaced by
// others, goes in two steps. EndLocked ends its writes, under the locks that change the
// routing table. retire then releases what it has. A partition that was never committed
// is discarded.

// retire releases partitions that have ended. From then on late readers find an empty
// partition. Memory, files and directories are released when the last reader has left;
// streams of the log at once, unless other partitions have inherited them.
func (db *DB) retire(parts []*partition) {
	db.gate.Release() // writes that wait for room in them
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
	db.env.Reclaim.Retire(func() {
		for _, v := range gone {
			v.Release(&db.env.Env)
		}
		db.gate.Release()
		for i, p := range parts {
			db.env.Reclaim.Remove("remove the directory of a former partition", gone[i].FileBytes(), func() error {
				if !p.LetGoAll(gone[i]) {
					return reclaim.ErrHeld
				}
				return storedir.RemovePartition(db.env.FS, p.Dir)
			})
		}
	})
	db.env.Reclaim.NowIfManual()
	db.endStreams(parts)
}

// endStreams tells the log that streams which no partition has inherited are not needed
// any more. Nothing is appended to them afterwards.
func (db *DB) endStreams(parts []*partition) {
	ended := false
	for _, p := range parts {
		if !p.Replaced() {
			db.log.Forget(wal.Stream(p.ID))
			ended = true
		}
	}
	if !ended {
		return
	}
	if err := db.retention.Release(); err != nil {
		db.backgroundError("release log files", err)
	}
}

// discard releases the files of partitions that were not put into use, and removes their
// directories. If the store manifest may name them, they stay: the next open decides. The
// next open also removes directories that cannot be removed now.
func (db *DB) discard(parts []*partition, named bool) {
	for _, p := range parts {
		lsm.ReleaseRuns(p.Version.Load().Runs)
		if !named {
			db.env.Reclaim.Remove("remove an unfinished partition", 0, func() error { return storedir.RemovePartition(db.env.FS, p.Dir) })
		}
	}
}
