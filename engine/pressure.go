package engine

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/pacing"
)

// Back-pressure: writes slow down gradually, before they would have to
// stop, while memtables fill their share of the budget, and while a partition
// has more runs than merges keep up with. From lsm.PressureFrom on each written byte
// costs time, the more the fuller the memtables are. All writers together owe this
// time, and pay it in sleeps of a millisecond or more. When the share is used up, or
// at lsm.MostRuns runs, a write waits.
const (
	pressureRate  = 100 << 20 // bytes a second at full pressure
	smallestPause = time.Millisecond
)

// debt is the time owed by writers, in nanoseconds.
type debt struct{ owed atomic.Int64 }

// filled scales the used part of the write buffers: 0 up to the part from of their
// limit, 1 from the part to on, linear in between.
func (db *DB) filled(from, to float64) float64 {
	part := float64(db.env.Pool.Used()) / float64(db.env.Pool.Limit())
	return max(0, min(1, (part-from)/(to-from)))
}

// fullness says how far write buffers are filled beyond lsm.PressureFrom, where writes
// begin to slow down: 0 to 1.
func (db *DB) fullness() float64 { return db.filled(lsm.PressureFrom, 1) }

// ripe says that the active memtables together take more than half of the limit of
// write buffers. Then the largest is flushed, if no frozen one waits for its flush. So
// memtables of several partitions that fill equally fast are flushed one after the
// other, each as large as the others let it become, and not all at once.
func (db *DB) ripe() bool {
	return db.env.Pool.Used()-db.env.FrozenBytes.Load() > db.env.Pool.Limit()/2
}

// pressure says how much writes to the partition are to be slowed: 0 to 1.
func (p *partition) pressure() float64 {
	runs := float64(p.Version.Load().Ages()-lsm.ManyRuns) / (lsm.MostRuns - lsm.ManyRuns)
	return max(p.db.fullness(), min(runs, 1))
}

// overrun says that a write must wait until runs of the partition are merged.
// While merges fail it is false: waiting would not help.
func (p *partition) overrun() bool {
	return p.Version.Load().Ages() >= lsm.MostRuns && !p.db.opts.manual && p.mergeBackoff.Left() <= 0
}

// promise sets size bytes of write buffers aside for a write. It returns false if they
// are not free.
func (db *DB) promise(size int64) bool {
	if db.env.Pool.Used()+db.promised.Add(size) <= db.env.Pool.Limit() {
		return true
	}
	db.promised.Add(-size)
	return false
}

// admit lets a write of size bytes go on, slows it or makes it wait, and returns how
// long that took. Without an error, the memory is promised to the write until admitted
// is called.
func (db *DB) admit(ctx context.Context, p *partition, size int64) (time.Duration, error) {
	if p.Lost != nil {
		return 0, p.Lost
	}
	pressure := p.pressure()
	if pressure == 0 && db.promise(size) {
		return 0, nil
	}
	start := time.Now()
	if err := p.waitForRoom(ctx, size); err != nil {
		waited := time.Since(start)
		db.counters.stalled(waited)
		return waited, err
	}
	db.slowDown(ctx, size, pressure)
	waited := time.Since(start)
	if waited >= smallestPause {
		db.counters.stalled(waited)
		notify(db, db.opts.Events.Stalled, StallEvent{Partition: p.ID, Waited: waited})
	}
	return waited, nil
}

// admitted gives back the memory that admit promised: the write is in a memtable, or
// has failed.
func (db *DB) admitted(size int64) {
	db.promised.Add(-size)
	if db.work.waiting.Load() > 0 {
		db.work.releaseWaiters()
	}
}

// waitForRoom waits until memory can be promised.
func (p *partition) waitForRoom(ctx context.Context, size int64) error {
	db := p.db
	if !p.overrun() && db.promise(size) {
		return nil
	}
	db.work.waiting.Add(1)
	defer db.work.waiting.Add(-1)
	for {
		room := db.work.roomChanged() // before the checks: it tells of changes since
		overrun := p.overrun()
		if !overrun && db.promise(size) {
			return nil
		}
		if err := db.writable(); err != nil {
			return err
		}
		if db.closing.Load() {
			return ErrClosed
		}
		if p.Dropped.Load() {
			return p.gone()
		}
		if err := db.work.flushError.Load(); err != nil && !overrun {
			return fmt.Errorf("%w and cannot be flushed: %w", ErrBusy, *err)
		}
		db.wakeFlusher()
		signal(db.work.compactionWanted)
		select {
		case <-room:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrBusy, ctx.Err())
		}
	}
}

// slowDown makes a write pay, by sleeping, for the memory that it takes. When ctx ends
// the write goes on: its memory is promised already.
func (db *DB) slowDown(ctx context.Context, size int64, pressure float64) {
	cost := int64(pressure * pressure * float64(size) / pressureRate * float64(time.Second))
	owed := db.debt.owed.Add(cost)
	if owed >= int64(smallestPause) && db.debt.owed.CompareAndSwap(owed, 0) {
		_ = pacing.Sleep(ctx, time.Duration(owed))
	}
}

// crowded says that flushes and one writer keep all processors busy: a merge beside
// them would slow down the writer.
func (w *workers) crowded() bool {
	return int(w.flushes.Load()) >= max(1, runtime.GOMAXPROCS(0)-1)
}
