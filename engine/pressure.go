package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// Back-pressure: while memtables fill their share of the budget, writes slow
// down in proportion, before they would have to stop. From half of it on each
// written byte costs time, more the fuller it is; the time is owed by all
// writers together and paid in sleeps of a millisecond or more. At the whole of
// it a write waits for memory.
const (
	pressureFrom    = 0.60
	pressureRate    = 100 << 20 // bytes a second at the full budget
	smallestPause   = time.Millisecond
	overdraftPerOne = 4 << 20
)

// debt is the time owed by writers, in nanoseconds.
type debt struct{ owed atomic.Int64 }

// admit lets a write of size bytes go on, slows it or makes it wait. It
// returns what it waited.
func (db *DB) admit(ctx context.Context, p *partition, size int64) (time.Duration, error) {
	limit := db.pool.Limit()
	used := db.pool.Used()
	if float64(used) < pressureFrom*float64(limit) {
		return 0, nil
	}
	start := time.Now()
	if used-db.frozenBytes.Load() > db.opts.arenaBytes()/2 {
		db.wakeFlusher()
	}
	for db.pool.Used()+size > limit {
		if err := db.writable(); err != nil {
			return time.Since(start), err
		}
		if err := db.work.flushError.Load(); err != nil {
			db.counters.stalled(time.Since(start))
			return time.Since(start), fmt.Errorf("%w and cannot be flushed: %w", ErrBusy, *err)
		}
		room := db.work.roomChanged()
		db.wakeFlusher()
		if db.pool.Used()+size <= limit {
			break
		}
		select {
		case <-room:
		case <-ctx.Done():
			db.counters.stalled(time.Since(start))
			return time.Since(start), fmt.Errorf("%w: %w", ErrBusy, ctx.Err())
		}
		if db.closing.Load() {
			return time.Since(start), ErrClosed
		}
	}
	fullness := (float64(used)/float64(limit) - pressureFrom) / (1 - pressureFrom)
	cost := int64(fullness * fullness * float64(size) / pressureRate * float64(time.Second))
	owed := db.debt.owed.Add(cost)
	if owed >= int64(smallestPause) && db.debt.owed.CompareAndSwap(owed, 0) {
		time.Sleep(time.Duration(owed))
	}
	waited := time.Since(start)
	if waited >= smallestPause {
		db.counters.stalled(waited)
		notify(db, db.opts.Events.Stalled, StallEvent{Partition: p.id, Waited: waited})
	}
	return waited, nil
}

// pace holds a merge back while flushes are behind, and to its rate limit.
func (db *DB) pace(ctx context.Context, out *output) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if db.opts.manual || float64(db.pool.Used()) < pressureFrom*float64(db.pool.Limit()) {
			break
		}
		room := db.work.roomChanged()
		if out.p.dropped.Load() || float64(db.pool.Used()) < pressureFrom*float64(db.pool.Limit()) {
			break
		}
		select {
		case <-room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	rate := db.opts.MergeBytesPerSecond
	if rate == 0 || out.w == nil {
		return nil
	}
	written := out.w.Size() - out.paced
	out.paced = out.w.Size()
	if written <= 0 {
		return nil
	}
	timer := time.NewTimer(time.Duration(float64(written) / float64(rate) * float64(time.Second)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
