// Package pressure slows writes down before they would have to stop.
//
// Writes slow down gradually while memtables fill their share of the memory budget, and
// while a partition has more runs than compactions keep up with. Each written byte then has
// a price, a time. Writes go on one after the other, each when the time of those before it
// has passed, so the price is a rate of all writers together. Who is more than a millisecond
// early sleeps. There are four prices, of which the highest counts:
//
//	what flushes drain   from paceFrom of the share on, so much that what is free lasts
//	                     until the flushes under way give memory back (package drain)
//	fullness             from pacing.PressureFrom on, while no flush is under way
//	what compactions     from tiers.Runs on, and in full from tiers.ManyRuns on, so much that
//	drain                each compaction under way ends before as much is written as it reads
//	                     (package drain), and that runs do not use up the room for them
//	runs                 from tiers.ManyRuns on, while no compaction is under way
//
// So a compaction of seconds or minutes slows writers evenly. A price that grows without bound
// towards the limit makes writers slow there, where they would have to stop otherwise. Only when
// the share is used up all the same, or at tiers.MostRuns runs, a write waits.
//
// Invariants:
//
//  1. Memory is promised to a write before the write gets its place in the log, and only
//     while as much is free.
//  2. A write that waits asks for flushes and compactions, and is woken by each change
//     that may let it go on: memory that was released, runs that were compacted, a
//     promise that was given back, a flush that failed, a store that fails or closes.
//  3. A write that flushes cannot make room for is refused and does not wait for ever: one
//     that is larger than all write buffers at once, one whose flush fails then. For any
//     other one all memtables are flushed, if need be.
//
// An admitted write that meets no pressure takes no lock. Gate.mu is taken last (see
// internal/locks).
package pressure

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cleavestore/cleave/internal/drain"
	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/lockorder"
	"github.com/cleavestore/cleave/internal/locks"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/pacing"
	"github.com/cleavestore/cleave/internal/tiers"
)

const (
	rate = 100 << 20 // bytes a second at a pressure that price makes 1

	// paceFrom is the part of the write buffers from which on writers are paced to what
	// flushes drain. Unless they are faster than that, they do not notice.
	paceFrom = 0.65
	// keptFree is the part of the write buffers that paced writers leave free, for what
	// the estimate of the pace lacks.
	keptFree = 1.0 / 32
	// keptRuns is how far below tiers.MostRuns paced writers stay, for what the estimate lacks.
	keptRuns = 2
	// mostRunPrice bounds what a byte costs for runs, in nanoseconds: the writers of other
	// partitions stand behind those who pay it.
	mostRunPrice = 500
	// smallRun is the least that a run is taken to need of the write buffers. A caller who
	// flushes after each write is not paced by the size of those memtables.
	smallRun = 256 << 10
	// mostPause bounds how long a write sleeps for its price and for those before it.
	mostPause = 10 * time.Millisecond

	// SmallestPause is the least time that a write is made to sleep.
	SmallestPause = time.Millisecond
)

// ErrBusy says that a write waited for memory until its context ended or a flush failed.
var ErrBusy = errors.New("busy: write buffers are full")

// Store is what a write that waits asks of the store.
type Store interface {
	// Refused returns why a write must not wait any longer; nil: it may.
	Refused() error
	// Relieve asks for flushes and compactions.
	Relieve()
}

// Gate admits the writes of a store. It is safe for concurrent use.
type Gate struct {
	env    *lsm.Env
	store  Store
	manual bool

	Drain drain.Meter // of the flushes of the store

	promised atomic.Int64          // bytes of writes that were admitted and are in no memtable yet
	waiting  atomic.Int64          // writes that wait
	short    atomic.Int64          // bytes of those that wait for memory, and not for runs
	failed   atomic.Pointer[error] // of the last flush; nil: it succeeded

	begun time.Time    // the following times are nanoseconds since then
	paid  atomic.Int64 // until then the writes admitted so far have their time
	paced atomic.Int64 // a write last slept; 0: none has

	mu   lockorder.Mutex[locks.Pressure]
	room chan struct{} // closed and replaced when a write that waits may go on
}

// Init makes the gate ready. manual says that compactions run only when they are called
// for: then no write waits for them.
func (g *Gate) Init(env *lsm.Env, store Store, manual bool) {
	g.env, g.store, g.manual, g.begun = env, store, manual, time.Now()
	g.room = make(chan struct{})
}

// Fullness says how far write buffers are filled beyond pacing.PressureFrom, where writes
// begin to slow down: 0 to 1.
func (g *Gate) Fullness() float64 {
	part := float64(g.env.Pool.Used()) / float64(g.env.Pool.Limit())
	return max(0, min(1, (part-pacing.PressureFrom)/(1-pacing.PressureFrom)))
}

// Ripe says that the active memtables together take more than half of the limit of
// write buffers. Then the largest is flushed, if no frozen one waits for its flush. So
// memtables of several partitions that fill equally fast are flushed one after the
// other, each as large as the others let it become, and not all at once.
func (g *Gate) Ripe() bool {
	return g.env.Pool.Used()-g.env.FrozenBytes.Load() > g.env.Pool.Limit()/2
}

// Waiting says whether a write waits.
func (g *Gate) Waiting() bool { return g.waiting.Load() > 0 }

// Starved says that a write waits for memory that no frozen memtable will give back.
func (g *Gate) Starved() bool {
	short := g.short.Load()
	return short > 0 && g.env.FrozenBytes.Load() == 0 && g.env.Pool.Used()+g.promised.Load()+short > g.env.Pool.Limit()
}

// Pacing says whether writes were paced a moment ago: flushes are slower than writers.
func (g *Gate) Pacing() bool {
	paced := g.paced.Load()
	return paced > 0 && int64(time.Since(g.begun))-paced < int64(10*mostPause)
}

// runs says how far the runs of the tree are beyond what compactions keep up with: 0 to 1.
func (g *Gate) runs(t *lsm.Tree) float64 {
	return max(0, min(1, float64(t.Version.Load().Ages()-tiers.ManyRuns)/(tiers.MostRuns-tiers.ManyRuns)))
}

// calm says that writes to the tree have no price.
func (g *Gate) calm(t *lsm.Tree) bool {
	return float64(g.env.Pool.Used()) <= paceFrom*float64(g.env.Pool.Limit()) && g.runs(t) == 0 &&
		(t.Drain.Idle() || tiers.Backlog(t.Version.Load().Ages()) == 0)
}

// price returns what a byte written to the tree costs now, in nanoseconds.
func (g *Gate) price(t *lsm.Tree, now int64) float64 {
	pressure := g.runs(t)
	pace, drained := runPace(t, now)
	if drained {
		pressure = 0
	}
	limit, used := g.env.Pool.Limit(), g.env.Pool.Used()
	if float64(used) > paceFrom*float64(limit) {
		free := limit - int64(keptFree*float64(limit)) - used - g.promised.Load()
		flushed := g.Drain.Recent(now, func() float64 { return g.Drain.Pace(free, g.env.FrozenBytes.Load()) })
		if flushed == 0 {
			pressure = max(pressure, g.Fullness())
		}
		pace = max(pace, flushed)
	}
	return max(pace, pressure*pressure/(1.02-pressure)/rate*float64(time.Second))
}

// runPace returns what a byte costs while a compaction of the tree is under way, in nanoseconds;
// false: none is. Compactions under way end before as much as they read is written, and when
// there is room for few runs, before that is used up.
func runPace(t *lsm.Tree, now int64) (price float64, drained bool) {
	v := t.Version.Load()
	backlog := tiers.Backlog(v.Ages())
	if backlog == 0 || t.Drain.Idle() {
		return 0, false
	}
	run := max(t.TableBytes.Load(), v.Active.Reserved(), smallRun)
	each := t.Drain.Recent(now, func() float64 { // run
		flushed := t.RunBytes.Load()
		pace := t.Drain.PaceRuns(drain.Runs{Bytes: v.RunBytes, Each: flushed, Tier: tiers.Runs}) * float64(flushed)
		if free := tiers.MostRuns - keptRuns - v.Ages(); free < tiers.Runs {
			pace = max(pace, t.Drain.Pace(int64(free), 0)*(1-float64(free)/tiers.Runs))
		}
		return pace
	})
	return min(each*backlog/float64(run), mostRunPrice), true
}

// overrun says that a write must wait until runs of the tree are compacted. While
// compactions fail it is false: waiting would not help.
func (g *Gate) overrun(t *lsm.Tree) bool {
	return t.Version.Load().Ages() >= tiers.MostRuns && !g.manual && t.CompactRetry.Left() <= 0
}

// promise sets size bytes of write buffers aside for a write. It returns false if they
// are not free.
func (g *Gate) promise(size int64) bool {
	if g.env.Pool.Used()+g.promised.Add(size) <= g.env.Pool.Limit() {
		return true
	}
	g.promised.Add(-size)
	return false
}

// Admit lets a write of size bytes to a tree go on, slows it or makes it wait, and returns
// how long that took. Without an error, the memory is promised to the write until Done is
// called. Errors: ErrBusy, with its cause; lsm.ErrMoved; a *fault.LimitError; that of
// Store.Refused.
func (g *Gate) Admit(ctx context.Context, t *lsm.Tree, size int64) (time.Duration, error) {
	if g.calm(t) && g.promise(size) {
		return 0, nil
	}
	start := time.Now()
	err := g.wait(ctx, t, size)
	if err == nil {
		g.slowDown(ctx, t, size)
	}
	return time.Since(start), err
}

// Done gives back the memory that Admit promised: the write is in a memtable, or has
// failed.
func (g *Gate) Done(size int64) {
	g.promised.Add(-size)
	if g.Waiting() {
		g.Release()
	}
}

// wait waits until memory can be promised.
func (g *Gate) wait(ctx context.Context, t *lsm.Tree, size int64) error {
	if !g.overrun(t) && g.promise(size) {
		return nil
	}
	if most := g.env.Pool.Limit(); size > most {
		return &fault.LimitError{What: "what a write takes of the write buffers", Size: size, Limit: most, Kind: fault.ErrTooLarge}
	}
	g.waiting.Add(1)
	defer g.waiting.Add(-1)
	for {
		room := g.changed() // before the checks: it tells of changes since
		overrun := g.overrun(t)
		if !overrun && g.promise(size) {
			return nil
		}
		if err := g.store.Refused(); err != nil {
			return err
		}
		if t.Dropped.Load() {
			return lsm.ErrMoved
		}
		if err := g.failed.Load(); err != nil && !overrun {
			return fmt.Errorf("%w and cannot be flushed: %w", ErrBusy, *err)
		}
		short := size
		if overrun {
			short = 0
		}
		if err := g.rest(ctx, room, short); err != nil {
			return fmt.Errorf("%w: %w", ErrBusy, err)
		}
	}
}

// rest asks for relief, and waits until there is some. The write lacks short bytes.
func (g *Gate) rest(ctx context.Context, room <-chan struct{}, short int64) error {
	g.short.Add(short)
	defer g.short.Add(-short)
	g.store.Relieve()
	select {
	case <-room:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// slowDown makes a write take the time that its bytes cost, behind the writes before it.
// When ctx ends the write goes on: its memory is promised already.
func (g *Gate) slowDown(ctx context.Context, t *lsm.Tree, size int64) {
	now := int64(time.Since(g.begun))
	cost := int64(min(g.price(t, now)*float64(size), float64(mostPause)))
	if cost == 0 {
		return
	}
	var until int64
	for {
		paid := g.paid.Load()
		until = min(max(paid, now)+cost, now+int64(mostPause))
		if g.paid.CompareAndSwap(paid, until) {
			break
		}
	}
	if early := time.Duration(until - now); early >= SmallestPause {
		g.paced.Store(now + 1)
		g.store.Relieve()
		_ = pacing.Sleep(ctx, early)
	}
}

// Flushed notes how a flush ended. While the last one has failed, writes do not wait for
// memory.
func (g *Gate) Flushed(err error) {
	if err == nil {
		g.failed.Store(nil)
		return
	}
	g.failed.Store(&err)
	g.Release()
}

// Release lets writes that wait check again.
func (g *Gate) Release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.room)
	g.room = make(chan struct{})
}

func (g *Gate) changed() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.room
}
