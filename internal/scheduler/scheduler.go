// Package scheduler does the work of a store that no caller waits for: when memtables
// are flushed and runs are compacted, whose turn it is, and what is looked after in
// between.
//
// The Scheduler knows physical partitions by an interface: it asks for one piece of work
// at a time, a flush or the rewriting of some files. What such a piece does, and in which
// order it syncs, is the engine's and package lsm's. The goroutines:
//
//	flushers    freeze memtables when memory asks for it, and flush them
//	compactors  compact, trim and index, each one partition at a time
//	upkeep      makes spare log files, vouches when the log rests, flushes partitions that
//	            take no more writes
//	syncer      syncs the log at intervals, if that is the durability
//
// The engine adds goroutines of its own with Go.
//
// Invariants:
//
//  1. A partition has one flush at a time: Tree.Flushing is held from its choice to its
//     end. One compactor at a time is at it: Tree.CompactTurn is set.
//  2. Of the partitions that may be flushed, the one with the most frozen bytes is. To
//     make memory, a memtable is frozen only when a flush of it can begin at once.
//  3. As many flushes run as leave a processor to writers; while a write waits for memory,
//     all flushers do.
//  4. Work that failed in one partition holds up no other: that partition is left alone
//     for a while (backoff.Retry). Long compactions hold up others only where each
//     compactor is at one.
//  5. In a store that has failed no work begins. After Stop none runs.
//
// The package has no locks of its own.
package scheduler

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/pressure"
	"github.com/cleavestore/cleave/wal"
)

// Store is what background work asks of a store.
type Store interface {
	// Partitions returns the physical partitions of all containers.
	Partitions() []Partition
	// ReleaseLog removes log files that no partition needs. It is called after a flush.
	ReleaseLog() error
	// ShrinkLog keeps the log to its budget.
	ShrinkLog() error
	// Tick looks after what else changes with time. It is called every Interval.
	Tick()
}

// Partition is what background work asks of a physical partition.
type Partition interface {
	Data() *lsm.Tree
	// LastSeq returns the sequence of the newest write.
	LastSeq() uint64
	// Freeze gives the partition a new memtable. It returns false if the present one is
	// empty, or the partition was dropped.
	Freeze() bool
	// FlushOldest flushes the oldest frozen memtable. Tree.Flushing is held.
	FlushOldest(ctx context.Context) error
	// RewriteSome compacts some runs, or writes a file anew. done is false if there was
	// nothing to do, or others are at it.
	RewriteSome(ctx context.Context) (done bool, err error)
}

// Log is the log of the store: see wal.Log.
type Log interface {
	Appended() wal.Position
	Vouch() error
	Sync() error
	SpareWanted() <-chan struct{}
	MakeSpare(ctx context.Context) error
}

// Signal wakes a goroutine that sleeps. Raising it several times wakes once.
type Signal chan struct{}

// NewSignal makes a Signal.
func NewSignal() Signal { return make(Signal, 1) }

// Raise wakes the goroutine, now or when it next sleeps. It does not wait.
func (s Signal) Raise() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// Scheduler runs the background work of a store. It is safe for concurrent use.
type Scheduler struct {
	env   *lsm.Env
	gate  *pressure.Gate
	store Store
	log   Log

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	flushWanted   Signal
	rewriteWanted []Signal     // one for each compactor
	flushes       atomic.Int32 // that run
	calm          int32        // how many flushes leave a processor to writers
}

// flushers is how many goroutines flush.
const flushers = 2

// Outputs is how many flushes and compactions may be under way at a time, without nested ones.
func Outputs() int { return flushers + compactors() }

// CallOutputs is how many flushes or compactions a call of the store has under way at a time:
// one processor of several is left to other callers. It is no more than Outputs.
func CallOutputs() int { return min(4, max(1, runtime.GOMAXPROCS(0)-1)) }

// New makes a Scheduler, without goroutines.
func New(env *lsm.Env, gate *pressure.Gate, store Store) *Scheduler {
	s := &Scheduler{env: env, gate: gate, store: store, flushWanted: NewSignal()}
	for range compactors() {
		s.rewriteWanted = append(s.rewriteWanted, NewSignal())
	}
	s.calm = int32(min(flushers, max(1, runtime.GOMAXPROCS(0)-1)))
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Start starts the goroutines. sync is the interval at which the log is synced; 0: it is
// not.
func (s *Scheduler) Start(log Log, sync time.Duration) {
	s.log = log
	for range flushers {
		s.Go(s.flush)
	}
	for _, wanted := range s.rewriteWanted {
		s.Go(func() { s.compact(wanted) })
	}
	s.Go(s.upkeep)
	if sync > 0 {
		s.Go(func() { s.syncAtIntervals(sync) })
	}
	s.FlushSoon()
	s.RewriteSoon()
}

// Go starts another goroutine, which ends when Context does.
func (s *Scheduler) Go(work func()) { s.wg.Go(work) }

// Stop ends Context and waits for the goroutines.
func (s *Scheduler) Stop() {
	s.cancel()
	s.wg.Wait()
}

// Context ends when the store closes.
func (s *Scheduler) Context() context.Context { return s.ctx }

// FlushSoon asks for a flush.
func (s *Scheduler) FlushSoon() { s.flushWanted.Raise() }

// RewriteSoon asks the compactors to look at all partitions.
func (s *Scheduler) RewriteSoon() {
	for _, wanted := range s.rewriteWanted {
		wanted.Raise()
	}
}

// Sleep waits until something is wanted, or for d if that is not 0. False: the
// store closes.
func (s *Scheduler) Sleep(wanted Signal, d time.Duration) bool {
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
	case <-s.ctx.Done():
		return false
	}
}

// Crowded says that flushes and one writer keep all processors busy: a compaction beside
// them would slow down the writer.
func (s *Scheduler) Crowded() bool {
	return int(s.flushes.Load()) >= max(1, runtime.GOMAXPROCS(0)-1)
}

// sooner returns the shorter one of two times to wait, of which 0 stands for none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b < a {
		return b
	}
	return a
}
