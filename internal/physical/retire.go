package physical

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
// routing table. Retire then releases what it has. A partition that was never committed
// is discarded.

// Retire releases partitions that have ended. From then on late readers find an empty
// partition. Memory, files and directories are released when the last reader has left;
// streams of the log at once, unless other partitions have inherited them. It says whether the
// log needs fewer streams, to which nothing is appended afterwards.
func (e *Env) Retire(parts []*Partition) (ended bool) {
	e.Gate.Release() // writes that wait for room in them
	var gone []*lsm.Version
	for _, p := range parts {
		_ = p.Compacting.Lock(context.Background())
		_ = p.Flushing.Lock(context.Background())
		gone = append(gone, p.Swap(func(lsm.Version) lsm.Version {
			return lsm.Version{Active: memtable.New(e.Pool, p.Span, 0, e.Seed)}
		}))
		p.Flushing.Unlock()
		p.Compacting.Unlock()
	}
	e.Reclaim.Retire(func() {
		for _, v := range gone {
			v.Release(&e.Env)
		}
		e.Gate.Release()
		for i, p := range parts {
			e.Reclaim.Remove("remove the directory of a former partition", gone[i].FileBytes(), func() error {
				if !p.LetGoAll(gone[i]) {
					return reclaim.ErrHeld
				}
				return storedir.RemovePartition(e.FS, p.Dir)
			})
		}
	})
	e.Reclaim.NowIfManual()
	for _, p := range parts {
		if !p.Replaced() {
			e.Log.Forget(wal.Stream(p.ID))
			ended = true
		}
	}
	return ended
}

// Discard releases the files of partitions that were not put into use, and removes their
// directories. If the store manifest may name them, they stay: the next open decides. The
// next open also removes directories that cannot be removed now.
func (e *Env) Discard(parts []*Partition, named bool) {
	for _, p := range parts {
		lsm.ReleaseRuns(p.Version.Load().Runs)
		if !named {
			e.Reclaim.Remove("remove an unfinished partition", 0, func() error { return storedir.RemovePartition(e.FS, p.Dir) })
		}
	}
}
