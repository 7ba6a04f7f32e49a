package engine

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// workers are the engine's goroutines. They are started by Open and stopped by
// Close, which waits for them.
//
//	flusher   freezes memtables when memory or the log asks for it, flushes them
//	merger    merges runs, one partition at a time
//	reclaimer releases what no reader can reach any more
//	keeper    makes spare log files, syncs at intervals, vouches when idle, holds
//	          the log to its budget
type workers struct {
	db   *DB
	ctx  context.Context
	halt context.CancelFunc
	wg   sync.WaitGroup

	flushWanted chan struct{}
	mergeWanted chan struct{}
	flushError  atomic.Pointer[error] // of the last flush in the background

	mu      sync.Mutex
	retired []func()
	wake    chan struct{} // reclaimer
	room    chan struct{} // closed and replaced when memory was released
}

const flushers = 2

func (w *workers) init(db *DB) {
	w.db = db
	w.ctx, w.halt = context.WithCancel(context.Background())
	w.flushWanted = make(chan struct{}, 1)
	w.mergeWanted = make(chan struct{}, 1)
	w.wake = make(chan struct{}, 1)
	w.room = make(chan struct{})
}

func (w *workers) start(db *DB) {
	if db.opts.manual {
		return
	}
	w.wg.Go(w.reclaim)
	w.wg.Go(w.keep)
	for range flushers {
		w.wg.Go(w.flush)
	}
	w.wg.Go(w.merge)
	signal(w.flushWanted)
	signal(w.mergeWanted)
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
}

// retire calls fn when every reader that may hold what it releases has left.
func (w *workers) retire(fn func()) {
	w.mu.Lock()
	w.retired = append(w.retired, fn)
	w.mu.Unlock()
	signal(w.wake)
}

func (w *workers) reclaim() {
	for {
		if w.reclaimNow() {
			continue
		}
		select {
		case <-w.wake:
		case <-w.ctx.Done():
			w.reclaimNow()
			return
		}
	}
}

// reclaimNow releases what was retired so far; false: nothing was.
func (w *workers) reclaimNow() bool {
	w.mu.Lock()
	batch := w.retired
	w.retired = nil
	w.mu.Unlock()
	if len(batch) == 0 {
		return false
	}
	w.db.epoch.Synchronize()
	for _, fn := range batch {
		fn()
	}
	return true
}

// reclaimIfManual does the reclaimer's work where there is none.
func (w *workers) reclaimIfManual() {
	if w.db.opts.manual {
		w.reclaimNow()
	}
}

// releaseWaiters lets writes that wait for memory look again.
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

// Backoff of failed background work.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 10 * time.Second
)

func (w *workers) flush() {
	retry := firstRetry
	for {
		p := w.nextFlush()
		if p == nil {
			select {
			case <-w.flushWanted:
				continue
			case <-w.ctx.Done():
				return
			}
		}
		err := w.db.flushOldest(w.ctx, p)
		p.flushing.leave()
		if w.ctx.Err() != nil {
			return
		}
		if err != nil {
			w.db.backgroundError("flush", err)
			w.flushError.Store(&err)
			w.releaseWaiters()
			if !w.pause(&retry) {
				return
			}
			signal(w.flushWanted)
			continue
		}
		retry = firstRetry
		w.flushError.Store(nil)
		if err := w.db.releaseLog(); err != nil {
			w.db.backgroundError("release log files", err)
		}
		signal(w.mergeWanted)
		signal(w.flushWanted)
	}
}

func (w *workers) pause(retry *time.Duration) bool {
	timer := time.NewTimer(*retry)
	defer timer.Stop()
	*retry = min(2**retry, lastRetry)
	select {
	case <-timer.C:
		return w.db.failure.Load() == nil
	case <-w.ctx.Done():
		return false
	}
}

// nextFlush freezes a memtable if memory asks for it, and takes the partition
// with the most frozen bytes.
func (w *workers) nextFlush() *partition {
	db := w.db
	if db.failure.Load() != nil {
		return nil
	}
	parts := db.partitions()
	if db.pool.Used()-db.frozenBytes.Load() > db.opts.arenaBytes()/2 {
		var largest *partition
		for _, p := range parts {
			if largest == nil || p.version.Load().active.Reserved() > largest.version.Load().active.Reserved() {
				largest = p
			}
		}
		if largest != nil {
			largest.mu.Lock()
			largest.freezeLocked()
			largest.mu.Unlock()
		}
	}
	var best *partition
	var most int64
	for _, p := range parts {
		var n int64
		for _, f := range p.version.Load().frozen {
			n += f.Reserved()
		}
		if n > most && !p.flushing.taken() {
			best, most = p, n
		}
	}
	if best == nil || !best.flushing.try() {
		return nil
	}
	return best
}

func (w *workers) merge() {
	retry := firstRetry
	for {
		worked := false
		for _, p := range w.db.partitions() {
			if w.ctx.Err() != nil || w.db.failure.Load() != nil {
				return
			}
			done, err := w.mergeOne(w.ctx, p, false)
			if err != nil {
				w.db.backgroundError("merge", err)
				if !w.pause(&retry) {
					return
				}
				continue
			}
			worked = worked || done
		}
		if worked {
			retry = firstRetry
			continue
		}
		select {
		case <-w.mergeWanted:
		case <-w.ctx.Done():
			return
		}
	}
}

// mergeOne merges in a partition; without settle not if somebody else does.
func (w *workers) mergeOne(ctx context.Context, p *partition, settle bool) (bool, error) {
	if settle {
		if err := p.merging.take(ctx); err != nil {
			return false, err
		}
	} else if !p.merging.try() {
		return false, nil
	}
	defer p.merging.leave()
	done, err := w.db.mergeRuns(ctx, p, settle)
	w.reclaimIfManual()
	return done, err
}
