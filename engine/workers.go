package engine

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavestore/cleave/internal/eventqueue"
	"github.com/cleavestore/cleave/internal/lockorder"
	"github.com/cleavestore/cleave/internal/locks"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/splitter"
)

// workers are the engine's goroutines. They are started by Open and stopped by
// Close, which waits for them.
//
//	flusher   freezes memtables when memory or the log asks for it, flushes them
//	compactor merges runs, one partition at a time
//	reclaimer releases what no reader can reach any more (internal/reclaim)
//	reshapes  splits, merges and moves partitions, one job at a time
//	expirer   writes tombstones for what has expired, where changes are kept
//	maintain  makes spare log files, vouches when idle, holds the log to its budget
//	syncer    syncs the log at intervals, if that is the durability
//	events    calls the listener
type workers struct {
	db   *DB
	ctx  context.Context
	halt context.CancelFunc
	wg   sync.WaitGroup

	flushWanted      chan struct{}
	compactionWanted chan struct{}
	expiryWanted     chan struct{}
	flushError       atomic.Pointer[error] // of the last flush in the background; nil: it succeeded
	waiting          atomic.Int64          // writes that wait for memory
	flushes          atomic.Int32          // running in the background
	calm             int32                 // how many flushes leave a processor to writers

	jobs       splitter.Queue[*ReshapeJob]
	jobsWanted chan struct{}

	mu   lockorder.Mutex[locks.Workers]
	room chan struct{} // closed and replaced when memory was released

	events eventqueue.Queue
}

// flushers is how many goroutines flush. All of them run where that leaves a processor
// to writers, and everywhere while a write waits for memory.
const flushers = 2

// calmFlushes is how many flushes leave a processor to writers.
func calmFlushes() int32 { return int32(min(flushers, max(1, runtime.GOMAXPROCS(0)-1))) }

// mayFlush says that a flush may begin beside those that run.
func (w *workers) mayFlush() bool {
	return w.flushes.Load() < w.calm || w.waiting.Load() > 0
}

func (w *workers) init(db *DB) {
	w.db, w.calm = db, calmFlushes()
	w.ctx, w.halt = context.WithCancel(context.Background())
	w.flushWanted = make(chan struct{}, 1)
	w.compactionWanted = make(chan struct{}, 1)
	w.expiryWanted = make(chan struct{}, 1)
	w.jobsWanted = make(chan struct{}, 1)
	w.room = make(chan struct{})
}

func (w *workers) start(db *DB) {
	if db.opts.manual {
		return
	}
	w.wg.Go(func() { db.env.Reclaim.Run(w.ctx) })
	w.wg.Go(w.maintain)
	for range flushers {
		w.wg.Go(w.flush)
	}
	w.wg.Go(w.compact)
	w.wg.Go(w.reshapes)
	w.wg.Go(w.expire)
	if d := db.opts.Durability; d.mode == durabilityInterval {
		w.wg.Go(func() { w.syncAtIntervals(d.interval) })
	}
	signal(w.flushWanted)
	signal(w.compactionWanted)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (w *workers) stop() {
	if w.halt == nil {
		return
	}
	w.halt()
	w.wg.Wait()
	w.events.Stop()
}

// releaseWaiters lets writes that wait for memory check again.
func (w *workers) releaseWaiters() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.room != nil {
		close(w.room)
	}
	w.room = make(chan struct{})
}

func (w *workers) roomChanged() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.room
}

func (db *DB) wakeFlusher() { signal(db.work.flushWanted) }

// backgroundError reports an error that no caller will see.
func (db *DB) backgroundError(what string, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	db.counters.backgroundErrors.Add(1)
	db.opts.Logger.Error(what, "error", err)
	notify(db, db.opts.Events.BackgroundError, err)
}

func (w *workers) flush() {
	for {
		p, wait := w.nextFlush()
		if p == nil {
			if !w.sleep(w.flushWanted, wait) {
				return
			}
			continue
		}
		w.flushes.Add(1)
		err := w.db.flushOldest(w.ctx, p)
		w.flushes.Add(-1)
		if err != nil {
			p.flushBackoff.Failed()
		} else {
			p.flushBackoff.Succeeded()
		}
		p.Flushing.Unlock()
		if w.ctx.Err() != nil {
			return
		}
		if err != nil {
			w.db.backgroundError("flush", err)
			w.flushError.Store(&err)
			w.releaseWaiters()
			continue
		}
		w.flushError.Store(nil)
		if err := w.db.releaseLog(); err != nil {
			w.db.backgroundError("release log files", err)
		}
		signal(w.compactionWanted)
		signal(w.flushWanted)
	}
}

// sleep waits until something is wanted, or for d if that is not 0. False: the
// store closes.
func (w *workers) sleep(wanted <-chan struct{}, d time.Duration) bool {
	var again <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		again = timer.C
	}
	select {
	case <-wanted:
		return true
	case <-again:
		return true
	case <-w.ctx.Done():
		return false
	}
}

// nextFlush takes the partition with the most frozen bytes. If nothing is frozen, it
// freezes a memtable first when memory asks for it. Partitions whose flush failed are
// left alone for a while; if only those have something to flush, it returns how long to
// wait.
func (w *workers) nextFlush() (*partition, time.Duration) {
	db := w.db
	if db.failure.Load() != nil || !w.mayFlush() {
		return nil, 0
	}
	parts := db.partitions()
	best, wait := mostFrozen(parts)
	// Partitions whose flush failed must not hold up the others.
	if best == nil && (db.ripe() || wait > 0 && db.env.Pool.Used() > db.env.Pool.Limit()/4*3) && w.freezeLargest(parts) {
		best, wait = mostFrozen(parts)
	}
	if best == nil || !best.Flushing.TryLock() {
		return nil, wait
	}
	return best, 0
}

// freezeLargest freezes the largest memtable of partitions whose flush has not failed.
// It passes over partitions whose turn to flush is taken: their memtable could only
// wait. If one of those memtables is larger, a memtable below smallMemtable is frozen
// only while a write waits for memory.
func (w *workers) freezeLargest(parts []*partition) bool {
	var largest *partition
	var most, taken int64
	for _, p := range parts {
		n := p.Version.Load().Active.Reserved()
		if p.flushBackoff.Left() > 0 {
			continue
		}
		if p.Flushing.Locked() {
			taken = max(taken, n)
		} else if n > most {
			largest, most = p, n
		}
	}
	if largest == nil || most < min(taken, smallMemtable) && w.waiting.Load() == 0 {
		return false
	}
	largest.mu.Lock()
	defer largest.mu.Unlock()
	return largest.freezeLocked()
}

// mostFrozen returns the partition with the most frozen bytes of those that are not
// being flushed, and how long to wait for the first of those whose flush failed.
func mostFrozen(parts []*partition) (best *partition, wait time.Duration) {
	var most int64
	for _, p := range parts {
		var n int64
		for _, f := range p.Version.Load().Frozen {
			n += f.Reserved()
		}
		if n == 0 || p.Flushing.Locked() {
			continue
		}
		if left := p.flushBackoff.Left(); left > 0 {
			if wait == 0 || left < wait {
				wait = left
			}
			continue
		}
		if n > most {
			best, most = p, n
		}
	}
	return best, wait
}

func (w *workers) compact() {
	for {
		worked := false
		var wait time.Duration
		for _, p := range w.db.partitions() {
			if w.ctx.Err() != nil || w.db.failure.Load() != nil {
				return
			}
			if left := p.mergeBackoff.Left(); left > 0 {
				if wait == 0 || left < wait {
					wait = left
				}
				continue
			}
			done, err := w.compactOne(w.ctx, p)
			if err == nil && !done {
				done, err = w.trimOne(w.ctx, p, false)
			}
			if err == nil && !done {
				done, err = w.reindexOne(w.ctx, p, false)
			}
			if err != nil {
				w.db.backgroundError("merge", err)
				p.mergeBackoff.Failed()
				continue
			}
			p.mergeBackoff.Succeeded()
			worked = worked || done
		}
		if !worked && !w.sleep(w.compactionWanted, wait) {
			return
		}
	}
}

// compactOne merges in a partition as the merger does, unless another merge runs there.
func (w *workers) compactOne(ctx context.Context, p *partition) (bool, error) {
	if !p.Compacting.TryLock() {
		return false, nil
	}
	defer p.Compacting.Unlock()
	done, err := w.db.compactRuns(ctx, p, p.PickTiers)
	w.db.env.Reclaim.NowIfManual()
	return done, err
}

// compactBy waits for its turn to merge in a partition, and merges there what choose
// picks.
func (w *workers) compactBy(ctx context.Context, p *partition, choose lsm.Picker) (bool, error) {
	if err := p.Compacting.Lock(ctx); err != nil {
		return false, err
	}
	defer p.Compacting.Unlock()
	done, err := w.db.compactRuns(ctx, p, choose)
	w.db.env.Reclaim.NowIfManual()
	return done, err
}
