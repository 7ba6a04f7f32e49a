package engine

import (
	"context"
	"errors"

	"github.com/cleavestore/cleave/internal/scheduler"
)

// chores is a DB as background work and writers that wait see it.
type chores DB

func (db *DB) chores() *chores { return (*chores)(db) }

func (s *chores) db() *DB { return (*DB)(s) }

// initWork makes the background work ready to be started.
func (db *DB) initWork() {
	db.gate.Init(&db.env.Env, db.chores(), db.opts.manual)
	db.work = scheduler.New(&db.env.Env, &db.gate, db.chores())
	db.jobsWanted, db.expiryWanted = scheduler.NewSignal(), scheduler.NewSignal()
}

// startWork starts the background work. internal/scheduler has goroutines of its own;
// these are the engine's:
//
//	reclaimer  releases what no reader can reach any more (internal/reclaim)
//	reshapes   splits, merges and moves partitions, one job at a time
//	expirer    writes tombstones for what has expired, where changes are kept
//
// Where listeners are asked for, another one calls them (internal/eventqueue).
func (db *DB) startWork() {
	if db.opts.manual {
		return
	}
	db.work.Go(func() { db.env.Reclaim.Run(db.work.Context()) })
	db.work.Go(db.reshapes)
	db.work.Go(db.expire)
	db.work.Start(db.log, db.opts.Durability.interval)
}

// stopWork ends the background work and waits for it.
func (db *DB) stopWork() {
	db.work.Stop()
	db.events.Stop()
}

// backgroundError reports an error that no caller will see.
func (db *DB) backgroundError(what string, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	db.counters.backgroundErrors.Add(1)
	db.opts.Logger.Error(what, "error", err)
	notify(db, db.opts.Events.BackgroundError, err)
}

// Partitions implements scheduler.Store, as do the methods below.
func (s *chores) Partitions() []scheduler.Partition {
	parts := s.db().partitions()
	list := make([]scheduler.Partition, len(parts))
	for i, p := range parts {
		list[i] = p
	}
	return list
}

func (s *chores) ReleaseLog() error { return s.db().retention.Release() }

func (s *chores) ShrinkLog() error { return s.db().retention.Hold() }

func (s *chores) Tick() {
	db := s.db()
	db.splitLarge(db.partitions())
	db.splitHot()
	for c := range db.containers.Load().Values() {
		c.splitForThroughput()
	}
	if err := db.keepMarks(); err != nil {
		db.backgroundError("mark a sequence", err)
	}
	if db.tellsExpiry() {
		db.expiryWanted.Raise()
	}
	if db.env.HeldBack.Swap(false) || db.anyPurgeable() {
		db.work.RewriteSoon() // readers that held compactions back may be gone, or items may have expired
	}
	if err := db.reserveSequences(); err != nil {
		db.backgroundError("reserve sequences", err)
	}
	if db.unreserved.Load() {
		db.storeManifest.Lock()
		db.keepReserve()
		db.storeManifest.Unlock()
	}
}

// Refused implements pressure.Store, as does Relieve.
func (s *chores) Refused() error {
	if err := s.db().writable(); err != nil {
		return err
	}
	if s.closing.Load() {
		return ErrClosed
	}
	return nil
}

func (s *chores) Relieve() {
	s.work.FlushSoon()
	s.work.RewriteSoon()
}

// RewriteSome compacts runs of like size, or else writes a file anew that needs it.
func (p *partition) RewriteSome(ctx context.Context) (done bool, err error) {
	done, err = p.CompactOne(ctx)
	if err == nil && !done {
		done, err = p.TrimOne(ctx, false)
	}
	if err == nil && !done {
		done, err = p.reindexOne(ctx, false)
	}
	return done, err
}
