package wal

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// group lets one goroutine, the leader, sync for all that wait by then. Goroutines that
// come during the sync wait for the next one. When it is done the leader hands the lead
// to the first of them. There is no leader while no goroutine waits.
type group struct {
	sync.Mutex
	led         bool
	first, last *waiter // goroutines that wait, in the order in which they came
	waiting     atomic.Int64
	pool        sync.Pool
}

// waiter is a goroutine that waits. wake gets true if it is to lead.
type waiter struct {
	pos  Position
	wake chan bool
	next *waiter
}

func (g *group) init() {
	g.pool.New = func() any { return &waiter{wake: make(chan bool, 1)} }
}

// Wait returns when the log is written to the kernel up to pos, or durable up to pos if
// sync is set. One write or sync serves all callers that wait. If it fails, all of them
// get an error that matches fault.ErrOutcomeUnknown. The log has then failed, unless the
// error matches ErrStalled.
func (l *Log) Wait(pos Position, sync bool) error {
	if !sync {
		if l.Written() >= pos {
			return nil
		}
		return l.flush(pos)
	}
	if l.Synced() >= pos {
		return nil
	}
	start := time.Now()
	err := l.waitSynced(pos)
	l.count.waits.Add(1)
	l.count.waited.Add(int64(time.Since(start)))
	return err
}

// Sync makes durable what was appended before the call. After an error that matches
// fault.ErrDiskFull a later call can do so.
func (l *Log) Sync() error {
	pos := l.Appended()
	if l.Synced() >= pos {
		return nil
	}
	return l.askSynced(pos)
}

// askSynced is waitSynced for callers that have no record of their own before pos.
func (l *Log) askSynced(pos Position) error {
	err := l.waitSynced(pos)
	if errors.Is(err, ErrStalled) {
		return l.refusal(err)
	}
	return err
}

func (l *Log) waitSynced(pos Position) error {
	g := &l.group
	g.Lock()
	if l.Synced() >= pos {
		g.Unlock()
		return nil
	}
	if f := l.failed.Load(); f != nil {
		g.Unlock()
		return f.unknown()
	}
	if g.led {
		w := g.pool.Get().(*waiter)
		w.pos = pos
		g.pushLocked(w)
		g.Unlock()
		lead := <-w.wake
		g.pool.Put(w)
		if !lead {
			if l.Synced() >= pos {
				return nil
			}
			return l.failed.Load().unknown()
		}
	} else {
		g.led = true
		g.Unlock()
	}
	g.gather()
	err := l.syncAll()
	l.handOver()
	if l.Synced() >= pos {
		return nil
	}
	return err
}

// gather lets other goroutines run first. Most of those that the last sync has served
// are about to append again, and this sync can serve them too. It ends when no more
// come: at once for a single committer.
func (g *group) gather() {
	for before := int64(-1); before < g.waiting.Load(); {
		before = g.waiting.Load()
		runtime.Gosched()
	}
}

func (g *group) pushLocked(w *waiter) {
	w.next = nil
	if g.last == nil {
		g.first = w
	} else {
		g.last.next = w
	}
	g.last = w
	g.waiting.Add(1)
}

// handOver ends a leader's turn. It wakes the goroutines that were served, and after
// them the next leader, so that the leader runs first.
func (l *Log) handOver() {
	g := &l.group
	g.Lock()
	synced, failed := l.Synced(), l.failed.Load() != nil
	var served, lead, next *waiter
	all := g.first
	g.first, g.last = nil, nil
	g.waiting.Store(0)
	for w := all; w != nil; w = next {
		next = w.next
		switch {
		case failed || w.pos <= synced:
			w.next, served = served, w
		case lead == nil:
			lead = w
		default:
			g.pushLocked(w)
		}
	}
	g.led = lead != nil
	g.Unlock()
	for w := served; w != nil; w = next {
		next = w.next // w is used again once it is awake
		w.wake <- false
	}
	if lead != nil {
		lead.wake <- true
	}
}

// Vouch appends an empty record that vouches for the records before it, and makes all of
// them durable, unless that was done or there is nothing to vouch for. It is meant for
// an idle log: only the decay of a record that no other follows looks like a torn write.
func (l *Log) Vouch() error {
	for range 2 { // the first empty record of a file without others has no mark that says anything
		l.mu.Lock()
		needed := l.mu.file.unvouchedLocked() && !l.mu.closed
		l.mu.Unlock()
		// If its file has no records, the file before it may have some that wait for space
		// on a full disk.
		if err := l.Sync(); err != nil || !needed {
			return err
		}
		if _, _, err := l.Append(0, TypeVouch, 0, nil, nil); err != nil {
			return err
		}
	}
	return l.Sync()
}
