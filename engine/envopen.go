package engine

import (
	"github.com/cleavestore/cleave/internal/arena"
	"github.com/cleavestore/cleave/internal/epoch"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/segment"
)

// initEnv sets what partitions use of the store, as far as the options say it.
func (db *DB) initEnv() {
	o := &db.opts
	e := &db.env
	e.seed = item.NewSeed()
	e.pool = arena.NewPool(o.arenaBytes())
	e.pool.MakeAhead(chunksAhead)
	e.epoch = epoch.New()
	e.memIndexes.init(e.pool, o.MemoryBudget, o.ReadOnly)
	e.reader = segment.ReaderOptions{
		Mode: o.ReadMode, EPK: appendEPK, Cold: db.cold, RowCache: db.hot, Budget: db.files,
		Keep: o.ReadOnly, // a writer may remove files that it has merged
	}
	e.fileBytes, e.indexBytes, e.compactionRate = o.FileBytes, o.indexBytes(), o.CompactionBytesPerSecond
	e.clock = o.clock
	e.uncertain = db.uncertain
	e.failed = func() bool { return db.failure.Load() != nil }
	e.background = db.backgroundError
	e.remove = db.remove
	e.retire = db.work.retire
	e.unpinned = func() { db.leftovers.retry(db) }
	e.crowded = func() bool { return db.work.crowded() || db.fullness() > 0 }
	e.flushSoon = db.wakeFlusher
}
