package engine

import (
	"github.com/cleavestore/cleave/internal/arena"
	"github.com/cleavestore/cleave/internal/epoch"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/logretention"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/openfile"
	"github.com/cleavestore/cleave/internal/pacing"
	"github.com/cleavestore/cleave/internal/physical"
	"github.com/cleavestore/cleave/internal/reclaim"
	"github.com/cleavestore/cleave/internal/scancache"
	"github.com/cleavestore/cleave/segment"
)

// initEnv sets what partitions use of the store, as far as the options say it.
func (db *DB) initEnv() {
	o := &db.opts
	e := &db.env
	e.Seed = item.NewSeed()
	e.Pool = arena.NewPool(o.arenaBytes())
	e.Pool.MakeAhead(chunksAhead)
	e.Epoch = epoch.New()
	e.Reclaim = reclaim.New(e.Epoch, db.backgroundError, o.manual)
	db.files = openfile.NewBudget(openfile.BudgetOptions{MaxFiles: o.MaxOpenFiles, MaxMappings: o.MaxMappedFiles, Retire: e.Reclaim.Retire})
	e.MemIndexes.Init(e.Pool, o.MemoryBudget, o.ReadOnly)
	e.Reader = segment.ReaderOptions{
		Mode: segment.Mode(o.ReadMode), EPK: lsm.AppendEPK, Cold: db.cold, RowCache: db.hot, ScanCache: scancache.New(o.ScanCacheBytes), Budget: db.files,
		Keep: o.ReadOnly, // a writer may remove files that it has compacted
	}
	e.FileBytes, e.IndexBytes, e.CompactionRate = o.FileBytes, o.indexBytes(), pacing.NewRate(o.CompactionBytesPerSecond, nil)
	e.Clock, e.Elapsed = o.clock, o.elapsed
	e.Gate, e.Work, e.Stamps, e.MemtableBytes = &db.gate, db.work, &db.stamps, o.memtableBytes
	e.TrimRate, e.Flushed, e.Compacted = pacing.NewRate(o.TrimBytesPerSecond, e.CompactionRate), db.flushed, db.compacted
	db.retention = logretention.Keeper{
		Env: e, Budget: o.LogBytes, FileBytes: o.LogFileBytes, Begin: db.beginLog,
		Partitions: func() []*physical.Partition { return physicals(db.partitions()) },
	}
	e.Uncertain, e.Lost = db.uncertain, db.lost
	e.Failed = func() bool { return db.failure.Load() != nil }
	e.Background = db.backgroundError
	e.Crowded = func() bool { return db.work.Crowded() || db.gate.Fullness() > 0 }
	e.FlushSoon, e.CompactSoon = db.work.FlushSoon, db.work.RewriteSoon
}
